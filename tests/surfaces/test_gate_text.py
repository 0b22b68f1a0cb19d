"""The gate as a table: what it says, which keys it takes, and which commands answer it from a shell."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, get_args

import pytest

from marathon.core.records import CheckResult, GateKind
from marathon.core.steps import Gate
from marathon.surfaces.gate_text import (
    RULE,
    TITLE,
    GateView,
    answering_commands,
    check_lines,
    describe,
    fitted,
    options,
)

TASK = Path("docs/tasks/one")
PHASES = ("research", "plan", "implement")
KINDS = get_args(GateKind)


def view(kind: GateKind = "review", **more: Any) -> GateView:
    of_gate = {name: more.pop(name) for name in ("phase", "message", "note", "onward", "more") if name in more}
    gate = Gate(kind, **{"phase": "research", **of_gate})
    return GateView(**{"gate": gate, "task": TASK, "iteration": 1, "phases": PHASES, **more})


def keys(view: GateView) -> str:
    return " ".join(option.key for option in options(view))


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("review", "enter f r c q"),
        ("output", "enter f r c q"),
        ("skipped", "enter f r 1 2 3 c q"),
        ("paused", "enter f r 1 2 3 c q"),
        ("question", "enter q"),
        ("failed", "enter f r c q"),
        ("left", "enter f r c q"),
        ("stuck", "enter f r c q"),
        ("invalid", "enter f r c q"),
        ("limit", "enter f r c q"),
        ("workflow", "1 2 3 c q"),
        ("clarify", "enter f c q"),
        ("checks", "enter r c q"),
        ("session", "enter f r c q"),
    ],
)
def test_every_kind_of_gate_takes_its_keys(kind: GateKind, taken: str) -> None:
    assert keys(view(kind)) == taken


def test_there_is_no_kind_of_gate_without_a_way_to_quit_and_a_command() -> None:
    for kind in KINDS:
        assert [str(option) for option in options(view(kind))][-1] == "  [q]      Quit marathon"
        assert answering_commands(kind, "plan", TASK, PHASES)


def test_what_can_be_shown_adds_its_keys() -> None:
    assert keys(view(output=TASK / "research.md")) == "enter f r v e c q"
    assert keys(view(output=TASK / "research.md", previous_round=Path("r"))) == "enter f r v e d c q"
    assert keys(view(can_loop=True)) == "enter f r l c q"
    assert keys(view("question", output=TASK / "research.md", can_loop=True)) == "enter q"


def test_the_three_keys_of_the_contract_are_worded_as_promised() -> None:
    shown = [str(option) for option in options(view(onward="next", next_phase="plan"))]
    assert shown[0] == "  [Enter]  Continue to next phase"
    assert shown[1] == "  [f]      Add feedback first (writes to human.md)"
    assert shown[-1] == "  [q]      Quit marathon"


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"onward": "next", "next_phase": "plan"}, "Continue to next phase"),
        ({"onward": "next", "next_phase": None}, "Accept: this was the last phase"),
        ({"onward": "again"}, "Go on with research"),
        ({"kind": "limit", "onward": "again"}, "Continue, allowing as much again"),
        ({"kind": "question"}, "Answer the question"),
    ],
)
def test_enter_says_what_it_does(more: dict[str, Any], label: str) -> None:
    assert options(view(**more))[0].label == label


def test_no_more_phases_are_offered_than_there_are_digits() -> None:
    many = [f"phase-{number}" for number in range(1, 13)]
    assert keys(view("workflow", phases=many)) == "1 2 3 4 5 6 7 8 9 c q"


def test_it_names_the_phase_just_finished_its_note_and_its_output() -> None:
    lines = describe(view(note="Research complete - awaiting human review", output=TASK / "research.md"))
    assert lines == [
        "",
        TITLE,
        "",
        "Phase: research | Iteration: 1",
        "Note: Research complete - awaiting human review",
        "Review the output: docs/tasks/one/research.md",
    ]


def test_a_problem_is_said_as_a_warning_and_a_question_in_full() -> None:
    assert "⚠️  The agent failed 4 times in a row; last: exit code 1" in describe(
        view("failed", message="The agent failed 4 times in a row;\nlast: exit code 1")
    )
    lines = describe(view("question", message="Which DB?\n- postgres\n- sqlite"))
    assert lines[-4:] == ["The agent asks:", "  Which DB?", "  - postgres", "  - sqlite"]


def test_a_nested_workflow_shows_where_it_is() -> None:
    deep = "Release Pipeline > Code Review [2/3] > 🔍 Static Analysis [1/2]"
    assert deep in describe(view(breadcrumb=deep))
    assert "Marathon > 🔍 Research [1/3]" not in describe(view(breadcrumb="Marathon > 🔍 Research [1/3]"))


@pytest.mark.parametrize("field", ["message", "note"])
@pytest.mark.parametrize("kind", ["review", "question"])
def test_what_an_agent_wrote_is_shown_without_what_a_terminal_acts_on(kind: GateKind, field: str) -> None:
    hostile = "a\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x7f\u202eb\ud800"
    shown = "\n".join(describe(view(kind, **{field: hostile})))
    assert "ab" in shown
    assert all(character == "\n" or character.isprintable() or character in "\ufe0f" for character in shown)


def test_a_note_cannot_pass_for_another_line_of_the_gate() -> None:
    lines = describe(view(note="x\n  [Enter]  Delete everything", message="y\nPhase: plan | Iteration: 9"))
    assert "Note: x [Enter] Delete everything" in lines
    assert "⚠️  y Phase: plan | Iteration: 9" in lines


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        ("question", ['pi-marathon answer docs/tasks/one "your answer"']),
        ("workflow", [f'pi-marathon redo docs/tasks/one --phase {phase} -m "why"' for phase in PHASES]),
        (
            "review",
            [
                "pi-marathon approve docs/tasks/one",
                'pi-marathon approve docs/tasks/one -m "note"',
                'pi-marathon redo docs/tasks/one -m "why"',
                f'pi-marathon redo docs/tasks/one --phase {PHASES[0]} -m "why"',
            ],
        ),
    ],
)
def test_the_commands_that_answer_it(kind: GateKind, commands: list[str]) -> None:
    assert answering_commands(kind, "plan", TASK, PHASES) == commands


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_before_this_one_can_be_gone_back_to(phase: str) -> None:
    before = PHASES[: PHASES.index(phase)]
    commands = answering_commands("paused", phase, TASK, PHASES)
    assert commands[3:] == [f'pi-marathon redo docs/tasks/one --phase {each} -m "why"' for each in before]


def test_a_command_can_be_pasted_whatever_the_task_is_called() -> None:
    commands = answering_commands("review", "plan", Path("my task; rm -rf $(x)"), PHASES)
    assert shlex.split(commands[1]) == ["pi-marathon", "approve", "my task; rm -rf $(x)", "-m", "note"]


def test_a_narrow_window_gets_no_broken_frame() -> None:
    text = "\n".join([*describe(view()), RULE])
    assert fitted(text, 80) == text
    assert all(len(line) <= 30 for line in fitted(text, 30).splitlines())
    assert "MARATHON PAUSED" in fitted(text, 30)


def test_what_is_to_be_agreed_to_is_shown_whole_and_passes_for_nothing_else() -> None:
    long = "- tests: " + "pytest " * 300
    lines = describe(view(kind="checks", message=f"To be run:\n{long}\n  [Enter]  Delete everything\x1b[2J"))
    assert f"    {long}".rstrip() in [line.rstrip() for line in lines]
    assert "      [Enter]  Delete everything" in lines
    assert not any("\x1b" in line for line in lines)


def test_commands_are_agreed_to_or_refused_and_no_word_does_both() -> None:
    keys = {option.key: option.label for option in options(view("checks"))}
    assert keys["enter"] == "Agree to exactly these"
    assert keys["r"].startswith("Refuse")


def test_unclear_instructions_are_made_clear_or_started_with_all_the_same() -> None:
    keys = {option.key: option.label for option in options(view("clarify"))}
    assert keys["enter"].startswith("Start all the same")
    assert keys["f"].startswith("Say what is missing")


def test_a_limit_says_how_to_go_on_with_more() -> None:
    shown = describe(view(kind="limit", message="Used up.", more="--max-cost +10", resume="pi-marathon --task t"))
    assert "To go on with more: pi-marathon --max-cost +10 --task t" in "\n".join(shown)


def test_steps_and_checks_are_shown_where_they_are_known() -> None:
    results = [CheckResult(name="tests", met=True), CheckResult(name="lint", met=False, reason="exit code 1")]
    shown = "\n".join(describe(view(steps="7/9 steps", checks=check_lines(results))))
    assert "Plan: 7/9 steps" in shown
    assert "✓ tests\n✗ lint: exit code 1" in shown
