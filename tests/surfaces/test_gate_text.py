"""The gate as a table: what it says, which keys it takes, and which commands answer it from a shell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from marathon.core.comments import Comment, Kind, Reply, Standing
from marathon.core.courses.where import Where
from marathon.core.gates import offers
from marathon.core.records import CheckResult, Gate, Rating, Reason
from marathon.core.text import wrapped
from marathon.surfaces.base import GateView
from marathon.surfaces.gate_text import TITLE, describe, fitted, rating_lines

TASK = Path("docs/tasks/one")


def view(reason: Reason = "review", **more: Any) -> GateView:
    of_gate: dict[str, Any] = {
        name: more.pop(name) for name in ("phase", "message", "note", "onward", "more") if name in more
    }
    fields: dict[str, Any] = {"phase": "research", **of_gate}
    gate = Gate(reason=reason, **fields)
    shown: dict[str, Any] = {"offers": offers(gate, Where(None)), **more}
    return GateView(gate=gate, task=TASK, iteration=1, **shown)


@pytest.mark.parametrize(
    ("points", "suggests"),
    [(10, False), (8, False), (7, True), (5, True), (4, False)],
)
def test_the_agents_rating_of_the_instructions_is_shown_and_advises(points: int, suggests: bool) -> None:
    shown = "\n".join(rating_lines(Rating(points=points, missing=["where to work\x1b[2J"])))
    assert f"rates the instructions {points} of 10" in shown
    assert ("--oversight colleague" in shown) is suggests
    assert "  - where to work" in shown, "whatever the points are"
    assert "\x1b" not in shown


def test_it_names_the_phase_just_finished_its_note_and_its_output() -> None:
    lines = describe(view(note="Research complete - awaiting human review", document=TASK / "research.md"))
    assert lines == [
        "",
        TITLE,
        "",
        "Phase: research | Iteration: 1",
        "Note: Research complete - awaiting human review",
        "Review the output: docs/tasks/one/research.md",
        "",
    ]


def test_a_problem_is_said_as_a_warning_and_a_question_in_full() -> None:
    assert "⚠️  The agent failed 4 times in a row; last: exit code 1" in describe(
        view("failed", message="The agent failed 4 times in a row;\nlast: exit code 1")
    )
    lines = describe(view("question", message="Which DB?\n- postgres\n- sqlite"))
    assert lines[-5:-1] == ["The agent asks:", "  Which DB?", "  - postgres", "  - sqlite"]


def test_a_nested_workflow_shows_where_it_is() -> None:
    deep = "Release Pipeline > Code Review [2/3] > 🔍 Static Analysis [1/2]"
    assert deep in describe(view(breadcrumb=deep))
    assert "Marathon > 🔍 Research [1/3]" not in describe(view(breadcrumb="Marathon > 🔍 Research [1/3]"))


@pytest.mark.parametrize("field", ["message", "note"])
@pytest.mark.parametrize("reason", ["review", "question"])
def test_what_an_agent_wrote_is_shown_without_what_a_terminal_acts_on(reason: Reason, field: str) -> None:
    hostile = "a\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x7f\u202eb\ud800"
    shown = "\n".join(describe(view(reason, **{field: hostile})))
    assert "ab" in shown
    assert all(character == "\n" or character.isprintable() or character in "\ufe0f" for character in shown)


def test_a_note_cannot_pass_for_another_line_of_the_gate() -> None:
    lines = describe(view(note="x\n  [Enter]  Delete everything", message="y\nPhase: plan | Iteration: 9"))
    assert "Note: x [Enter] Delete everything" in lines
    assert "⚠️  y Phase: plan | Iteration: 9" in lines


def test_a_narrow_window_gets_no_broken_frame() -> None:
    text = "\n".join(describe(view()))
    assert fitted(text, 80) == text
    assert all(len(line) <= 30 for line in fitted(text, 30).splitlines())
    assert "MARATHON PAUSED" in fitted(text, 30)


@pytest.mark.parametrize("columns", [60, 80])
def test_a_long_line_is_broken_between_its_parts(columns: int) -> None:
    parts = ["round 2", "4m", "+31 −12 since round 1", "3 of 3 comments answered", "9 steps", "code: 4 files +120 −8"]
    lines = wrapped(" · ".join(parts), columns, "  ").splitlines()
    assert all(len(line) <= columns for line in lines)
    assert all(any(part in line for line in lines) for part in parts)


def test_a_long_line_is_broken_between_words_and_goes_on_below_its_own() -> None:
    note = "Note: " + "parted by · dots and " * 8
    question = "  " + "Which of these is it? " * 8
    missing = "  - " + "the name of the database " * 6
    problem = "⚠️  " + "It could not be reached. " * 6
    for line, below in ((note, "w"), (question, "  w"), (missing, "    w"), (problem, "    w")):
        rows = fitted(line, 60).split("\n")
        assert all(len(row) <= 60 for row in rows), rows
        assert " ".join(" ".join(rows).split()) == " ".join(line.split()), "no word is broken or lost"
        assert len(rows) > 2
        assert all(re.match(below.replace("w", r"\S"), row) for row in rows[1:]), rows
    assert fitted("    " + "cp a b " * 30, 60).count("\n") == 0, "what is to be copied stays whole"


def standing(name: str, answer: str = "", kind: Kind = "note", *, sent: bool = True) -> Standing:
    text = f"Why {name}, and what of the rest of all that?"
    comment = Comment(name, text, kind, "research.md", 1, 1, sent=sent)
    return Standing(comment, (1, 1), Reply(answer) if answer else None)


def test_comments_stand_with_their_answers_a_row_each_and_those_without_one_first() -> None:
    many = [standing("c1", "Because.\nOf this."), standing("c2", kind="must"), standing("c3", sent=False)]
    shown = describe(view(comments=[*many, *(standing(f"c{n}", "yes") for n in range(4, 8))], summary="round 2 · 4m"))
    assert "round 2 · 4m" in shown
    said = shown[shown.index("round 2 · 4m") + 1 :]
    assert said[0].startswith("⚠️  c2 (must): Why c2, and what")
    assert said[0].endswith("→ not answered")
    assert said[1].endswith("→ not sent yet")
    assert said[2].endswith("→ Because. Of this.")
    assert said[5] == "  … 2 more comments: [o]"


def test_what_is_to_be_agreed_to_is_shown_whole_and_passes_for_nothing_else() -> None:
    long = "- tests: " + "pytest " * 300
    lines = describe(view("checks", message=f"To be run:\n{long}\n  [Enter]  Delete everything\x1b[2J"))
    assert f"    {long}".rstrip() in [line.rstrip() for line in lines]
    assert "      [Enter]  Delete everything" in lines
    assert not any("\x1b" in line for line in lines)


def test_a_limit_says_how_to_go_on_with_more() -> None:
    shown = describe(view("limit", message="Used up.", more="--max-cost +10", resume="pi-marathon --task t"))
    assert "To continue with more:\n    pi-marathon --max-cost +10 --task t" in "\n".join(shown)


def test_summary_and_checks_are_shown_where_they_are_known() -> None:
    results = [
        CheckResult(name="tests", met=True, command="make test"),
        CheckResult(name="lint", met=False, reason="exit code 1"),
    ]
    shown = "\n".join(describe(view(summary="round 2 · 7/9 steps", checks=results)))
    assert "Iteration: 1\nround 2 · 7/9 steps\n" in shown
    assert "✓ ran: tests\n✗ lint: exit code 1" in shown
