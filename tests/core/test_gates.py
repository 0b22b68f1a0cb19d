"""A gate is data: what every reason offers, which answers it takes, and what it does not take."""

from __future__ import annotations

import shlex
from itertools import product
from typing import Any, get_args

import pytest

from marathon.core.courses.phases import Phases
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import DONE
from marathon.core.gates import POLICIES, Offer, auto_answer, commands, offers, refusal
from marathon.core.records import Answer, Gate, Reason
from tests.core.making import RPI, after, begun, fold, gate, left, library, verdict, workflow

REASONS: tuple[Reason, ...] = get_args(Reason)
PHASES = ("research", "plan", "implement")
TASK = "docs/tasks/one"


def where(**more: Any) -> Where:
    phase = Phases(RPI).where(fold([begun("research")])).phase
    return Where(**{"phase": phase, "next_phase": "plan", "phases": PHASES, **more})


def found(reason: Reason = "review", at: str = "plan", **more: Any) -> tuple[Offer, ...]:
    of_gate = {name: more.pop(name) for name in ("onward", "about") if name in more}
    return offers(Gate(reason=reason, phase=at, back_to="research", digest="d", **of_gate), where(**more))


def keys(offered: tuple[Offer, ...]) -> str:
    return " ".join(offer.key for offer in offered)


KEYS: dict[Reason, str] = {
    "review": "enter f r 1 m x q",
    "rounds": "enter f r 1 m x q",
    "output": "enter f r 1 m x q",
    "skipped": "enter f r 1 2 3 m x q",
    "back": "enter f r 1 2 3 m x q",
    "paused": "enter f r 1 2 3 m x q",
    "question": "enter m x q",
    "failed": "enter f r 1 m x q",
    "blocked": "enter f r 1 m x q",
    "left": "enter f r 1 m x q",
    "stuck": "enter f r 1 m x q",
    "invalid": "enter f r 1 m x q",
    "limit": "enter f r 1 m x q",
    "workflow": "1 2 3 m x q",
    "definition": "y n m x q",
    "redefined": "y n m x q",
    "checks": "y n m x q",
    "setup": "enter n m x q",
    "missing": "enter f r 1 m x q",
    "session": "enter f r 1 m x q",
    "writes": "enter f r 1 m x q",
    "baseline": "enter m x q",
    "clarify": "enter f r 1 m x q",
}


def test_every_reason_has_a_policy_and_a_row_here() -> None:
    assert set(POLICIES) == set(REASONS) == set(KEYS)


@pytest.mark.parametrize("reason", REASONS)
def test_what_each_reason_offers(reason: Reason) -> None:
    assert keys(found(reason)) == KEYS[reason]
    assert found(reason)[-1] == Offer("q", "Quit marathon", "quit")


def test_going_back_is_offered_for_every_earlier_phase_and_no_later_one() -> None:
    assert keys(found(at="research")) == "enter f r m x q"
    assert keys(found(at="implement")) == "enter f r 1 2 m x q"
    assert [offer.label for offer in found(at="implement") if offer.key.isdigit()] == [
        "Go back to research, saying why",
        "Go back to plan, saying why",
    ]


def test_a_loop_is_offered_where_the_workflow_allows_it_but_not_beside_a_question_or_an_agreement() -> None:
    assert "l" in keys(found(can_loop=True))
    assert "l" not in keys(found("question", can_loop=True))
    assert "l" not in keys(found("checks", can_loop=True))


def test_no_more_phases_are_offered_than_there_are_digits() -> None:
    many = tuple(f"phase-{number}" for number in range(1, 13))
    assert keys(found("workflow", phases=many)) == "1 2 3 4 5 6 7 8 9 m x q"


def test_the_keys_of_the_contract_are_worded_as_promised() -> None:
    enter, feedback, *_, leave = found(onward="next")
    assert (enter.key, enter.label) == ("enter", "Continue to next phase (plan)")
    assert feedback.key == "f"
    assert feedback.label == "Add feedback first (writes to human.md)"
    assert (leave.key, leave.label) == ("q", "Quit marathon")


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"onward": "next"}, "Continue to next phase (plan)"),
        ({"onward": "next", "next_phase": DONE}, "Accept (this was the last phase)"),
        ({"onward": "again"}, "Continue with plan"),
        ({"reason": "limit"}, "Continue and allow the same amount again"),
        ({"reason": "checks"}, "Agree to exactly these"),
        ({"reason": "session"}, "Continue with the next session"),
        ({"reason": "question"}, "Answer the question"),
    ],
)
def test_enter_says_what_it_does(more: dict[str, Any], label: str) -> None:
    assert found(**more)[0].label == label


def test_at_a_proposal_to_go_back_enter_goes_back_and_nothing_goes_forward_by_a_plain_yes() -> None:
    enter, feedback, *_ = offered = found("back", onward="next")
    assert (enter.label, enter.choice, enter.phase) == ("Go back to research", "redo", "research")
    assert (feedback.key, feedback.choice, feedback.phase, feedback.words) == ("f", "redo", "research", "required")
    assert not any(offer.choice == "continue" for offer in offered)
    assert commands(offered, TASK)[0] == f"pi-marathon redo {TASK} --phase research"
    assert len(set(commands(offered, TASK))) == len(commands(offered, TASK))


@pytest.mark.parametrize("reason", ["stuck", "blocked"])
def test_accepting_is_offered_where_criteria_are_unmet_and_names_them(reason: Reason) -> None:
    names = ["tests", "lint\x1b[2J", "docs", "fast"]
    assert keys(found(reason, about=names)) == "enter f r 1 a m x q"
    accept = next(offer for offer in found(reason, about=names) if offer.key == "a")
    assert "tests, lint, docs, …" in accept.label
    assert accept.command(TASK) == f'pi-marathon approve {TASK} --anyway "why"'


def test_auto_approve_goes_back_twice_in_a_run_and_accepts_nothing() -> None:
    back = Gate(reason="back", phase="plan", back_to="research")
    assert [auto_answer(back, times) for times in range(4)] == [
        Answer(choice="redo", phase="research", by="auto"),
        Answer(choice="redo", phase="research", by="auto"),
        None,
        None,
    ]
    for reason in ("stuck", "blocked", "missing"):
        assert auto_answer(Gate(reason=reason, phase="plan", onward="next", about=["tests"]), 0) is None


@pytest.mark.parametrize("reason", REASONS)
def test_auto_approve_passes_no_gate_with_a_comment_that_must_be_answered(reason: Reason) -> None:
    assert auto_answer(Gate(reason=reason, phase="plan", onward="next", unanswered=["c1"]), 0) is None


def test_feedback_stands_beside_sending_back_and_a_problem_with_a_file_is_not_agreed_to() -> None:
    _, feedback, redo, *_ = found()
    assert feedback.label == "Add feedback first (writes to human.md)"
    assert redo.label == "Send back: say why, plan is done again"
    problem, *_ = offers(Gate(reason="checks", phase="plan", message="checks.toml: no"), where())
    assert (problem.key, problem.label) == ("enter", "Look at the files again")


def test_what_is_hard_to_take_back_is_asked_twice() -> None:
    heavy = [offer.key for offer in found("skipped", can_loop=True) if offer.heavy]
    assert heavy == ["1", "2", "3", "l", "x"]


# Which answers are taken

ANSWERS = [
    *(("continue", None, text) for text in ("", "a note")),
    *(("answer", None, text) for text in ("", "postgres")),
    *(("loop", None, text) for text in ("", "once more")),
    *(("redo", phase, text) for phase, text in product((*PHASES, "gone"), ("", "why"))),
    *(("cancel", None, text) for text in ("", "why")),
    *(("accept", None, text) for text in ("", "why")),
]


def takes(reason: Reason, choice: str, phase: str | None, text: str, can_loop: bool, unmet: bool) -> bool:
    """The contract in its own words, apart from the table of policies."""
    at = "plan"
    about_workflow = reason in ("definition", "redefined")
    match choice:
        case "answer":
            return reason == "question"
        case "continue":
            if reason in ("question", "workflow", "back"):
                return False
            return not text if reason in ("checks", "baseline", "setup") or about_workflow else True
        case "loop":
            return can_loop and bool(text) and reason not in ("question", "checks") and not about_workflow
        case "cancel":
            return not text
        case "accept":
            return reason in ("stuck", "blocked") and unmet and bool(text)
        case "redo":
            if reason in ("question", "baseline"):
                return False
            if about_workflow:
                return (reason, phase, text) == ("redefined", at, "")
            if reason in ("skipped", "back", "paused", "workflow"):
                return phase in PHASES
            known = (at,) if reason in ("checks", "setup") else ("research", at)
            return phase in known and bool(text)
    return False


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("can_loop", [False, True])
@pytest.mark.parametrize("about", [[], ["tests"]], ids=["all met", "unmet"])
def test_an_answer_is_taken_only_if_the_gate_offered_it(reason: Reason, can_loop: bool, about: list[str]) -> None:
    offered = found(reason, can_loop=can_loop, about=about)
    for choice, phase, text in ANSWERS:
        answer = Answer(choice=choice, phase=phase, text=text)  # type: ignore[arg-type]
        refused = refusal(offered, answer, TASK)
        assert bool(refused) is not takes(reason, choice, phase, text, can_loop, bool(about)), (choice, phase, text)
        if refused:
            assert choice in refused
            assert all(command in refused for command in commands(offered, TASK)), "it names what is offered"


def test_the_same_offers_are_commands_for_a_shell() -> None:
    assert commands(found(), TASK) == [
        "pi-marathon approve docs/tasks/one",
        'pi-marathon approve docs/tasks/one -m "note"',
        'pi-marathon redo docs/tasks/one -m "why"',
        'pi-marathon redo docs/tasks/one --phase research -m "why"',
        "pi-marathon cancel docs/tasks/one",
    ]
    assert commands(found("question"), TASK)[0] == 'pi-marathon answer docs/tasks/one "your answer"'
    assert [line.split()[4] for line in commands(found("workflow"), TASK)[:3]] == list(PHASES)


@pytest.mark.parametrize("reason", REASONS)
def test_every_gate_can_be_answered_from_a_shell(reason: Reason) -> None:
    assert len(commands(found(reason), TASK)) > 1


def test_a_command_can_be_pasted_whatever_the_task_is_called() -> None:
    name = "my task; rm -rf $(x)"
    assert shlex.split(commands(found(), name)[1]) == ["pi-marathon", "approve", name, "-m", "note"]


# What an answer does


@pytest.mark.parametrize("reason", REASONS)
def test_only_a_yes_lets_a_sessions_end_be_judged_again(reason: Reason) -> None:
    any_answer = reason in ("definition", "redefined", "setup")
    again = any_answer or reason in ("limit", "checks", "missing", "session", "blocked", "writes")
    records = [*after("implement", left("running/implement")), gate(reason, "implement", onward="again")]
    assert (fold([*records, verdict()]).ended is not None) is again
    assert (fold([*records, verdict()]).answered is None) is again
    assert (fold([*records, verdict("redo", phase="plan", text="why")]).answered is None) is any_answer


def test_what_a_workflow_allows_is_what_its_gate_offers() -> None:
    definitions = library(workflow("fixed", "a", {"id": "b", "gate": True}, loopable=False))
    records = after("b", left("paused/b"), definitions=definitions, key="fixed")
    there = Phases(definitions).where(fold(records, definitions))
    assert (there.phases, there.can_loop, there.next_phase) == (("a", "b"), False, DONE)
