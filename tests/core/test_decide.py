"""What the runner makes of a session: the table of the contract, row by row, and what a human's word changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from marathon.core.budgets import Limits
from marathon.core.courses.phases import Phases
from marathon.core.gates import auto_answer
from marathon.core.records import (
    Begun,
    Cancelled,
    Choice,
    FilesMissing,
    Finished,
    Gate,
    LimitSet,
    Moved,
    OversightSet,
    Reason,
    Record,
    RunStarted,
    SessionEnded,
    WaitEnded,
    WaitStarted,
)
from marathon.core.steps import Note, RunSession
from tests.core.making import (
    RPI,
    Onward,
    after,
    begun,
    decide,
    fold,
    gate,
    in_words,
    left,
    library,
    started,
    told,
    verdict,
    workflow,
)


@dataclass(frozen=True)
class Row:
    """In this phase the sessions ended like that, one after the other: the runner does this, and says that."""

    phase: str
    ended: tuple[SessionEnded, ...]
    step: str
    words: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def row(phase: str, *ended: SessionEnded, step: str, words: str | tuple[str, ...] = (), **limits: Any) -> Row:
    return Row(phase, ended, step, (words,) if isinstance(words, str) else words, Limits(**limits))


def crash(cause: str = "exit code 1") -> SessionEnded:
    return left(None, ending="crashed", cause=cause, output="missing")


def refused(cause: str) -> SessionEnded:
    return left(None, ending="refused", cause=cause, output="missing")


IDLE = left("running/implement", changed=False, output="missing")
CHUNK = left("running/implement", output="missing")
NO_RESULT = left("completed/done", output="missing")
UNREAD = left(None, invalid="field state: Field required", output="missing")

TABLE = {
    # running, phase P
    "more is left": row("implement", CHUNK, step="session implement"),
    "more is left of research": row("research", left("running/research", output="missing"), step="session research"),
    "many chunks": row("implement", *[CHUNK] * 20, step="session implement"),
    # paused, phase P or the one after P, and P's output file is there
    "complete, by its own phase": row("research", left("paused/research"), step="gate review research, then next"),
    "complete, by the next phase": row("research", left("paused/plan"), step="gate review research, then next"),
    "plan complete": row("plan", left("paused/plan"), step="gate review plan, then next"),
    "plan complete, by the next phase": row("plan", left("paused/implement"), step="gate review plan, then next"),
    # running, but with the phase after P: the same as paused
    "already in the next phase": row("research", left("running/plan"), step="gate review research, then next"),
    "already in the phase after plan": row("plan", left("running/implement"), step="gate review plan, then next"),
    # P's output is missing or untouched: told once, then a gate
    "output missing": row(
        "research",
        left("paused/research", output="missing"),
        step="session research",
        words="research.md is missing or empty",
    ),
    "output untouched": row(
        "plan", left("paused/implement", output="stale"), step="session plan", words="plan.md was not touched"
    ),
    "already in the next phase, output missing": row(
        "research", left("running/plan", output="missing"), step="session research", words="research.md is missing"
    ),
    "output missing twice": row(
        "research",
        *[left("paused/plan", output="missing")] * 2,
        step="gate output research, then again",
        words="research.md is missing",
    ),
    "already in the next phase twice, output missing": row(
        "research", *[left("running/plan", output="missing")] * 2, step="gate output research, then again"
    ),
    "output untouched twice: the human may accept it": row(
        "research", *[left("paused/research", output="stale")] * 2, step="gate output research, then next"
    ),
    "output missing, then more work, then missing": row(
        "research",
        left("paused/research", output="missing"),
        left("running/research", output="missing"),
        left("paused/research", output="missing"),
        step="session research",
        words="research.md is missing",
    ),
    # a question
    "a question": row(
        "research",
        left("running/research", question="Which DB?"),
        step="gate question research, then again",
        words="Which DB?",
    ),
    "a question, whatever else was left": row(
        "research", left("completed/done", question="Sure?"), step="gate question research, then again", words="Sure?"
    ),
    "a question before a crash": row(
        "plan", left(None, ending="crashed", question="Which?"), step="gate question plan, then again", words="Which?"
    ),
    "an empty question": row(
        "research", left("running/research", question=""), step="gate question research, then again"
    ),
    # a wait
    "a wait": row(
        "implement",
        left("running/implement", output="missing", wait={"seconds": 300, "reason": "CI"}),
        step="wait agent 300",
        words="CI",
    ),
    "a wait without any change is not idle": row(
        "implement",
        *[left("running/implement", output="missing", changed=False, wait={"seconds": 90})] * 5,
        step="wait agent 90",
    ),
    "a wait, and then the runner was killed": row(
        "implement",
        left("running/implement", ending="lost", output="missing", wait={"seconds": 300, "reason": "CI"}),
        step="wait agent 300",
        words="CI",
    ),
    "a wait, and then a crash": row(
        "implement", left(None, ending="crashed", output="missing", wait={"seconds": 300}), step="wait retry 2"
    ),
    "a wait in a phase that is complete": row(
        "research", left("paused/research", wait={"seconds": 300}), step="gate review research, then next"
    ),
    # paused in implement
    "the plan is wrong": row(
        "implement",
        left("paused/implement", output="missing"),
        step="gate paused implement, then again",
        words="the plan may be wrong",
    ),
    "the plan is wrong though a result is there": row(
        "implement", left("paused/implement"), step="gate paused implement, then again"
    ),
    # completed in the last phase, result.md there
    "done": row("implement", left("completed/done"), step="finish"),
    "done, by the phase's own name": row("implement", left("completed/implement"), step="finish"),
    "done after three chunks": row("implement", CHUNK, CHUNK, CHUNK, left("completed/done"), step="finish"),
    # completed, but result.md is missing: guidance; counts toward the breaker
    "called done without a result": row(
        "implement", NO_RESULT, step="session implement", words="result.md is missing or empty"
    ),
    "called done with an old result": row(
        "implement", left("completed/done", output="stale"), step="session implement", words="result.md was not touched"
    ),
    "called done twice without a result": row(
        "implement", NO_RESULT, NO_RESULT, step="session implement", words="result.md"
    ),
    "called done three times without a result": row(
        "implement", *[NO_RESULT] * 3, step="gate stuck implement, then again", words="3 times in a row"
    ),
    "called done three times, not in a row": row(
        "implement", NO_RESULT, NO_RESULT, CHUNK, NO_RESULT, step="session implement", words="result.md"
    ),
    # skipping ahead
    "research to implement": row(
        "research",
        left("paused/implement"),
        step="gate skipped research, then next",
        words=("paused/implement", "not accepted"),
    ),
    "research to implement, running": row(
        "research", left("running/implement"), step="gate skipped research, then next"
    ),
    "research to done": row("research", left("completed/done"), step="gate skipped research, then next"),
    "research, completed": row("research", left("completed/research"), step="gate skipped research, then next"),
    "plan to done": row(
        "plan", left("completed/done"), step="gate skipped plan, then next", words=("completed/done", "not accepted")
    ),
    "plan to done, without a plan": row(
        "plan", left("completed/done", output="missing"), step="gate skipped plan, then again"
    ),
    "research to implement, without research": row(
        "research", left("paused/implement", output="missing"), step="gate skipped research, then again"
    ),
    # back
    "back from plan": row(
        "plan", left("running/research"), step="gate back plan, then again", words="go back from plan to research"
    ),
    "back from plan, paused, though a plan is there": row(
        "plan", left("paused/research"), step="gate back plan, then again"
    ),
    "back from plan, without a plan": row(
        "plan", left("running/research", output="missing"), step="gate back plan, then again"
    ),
    "back from implement": row("implement", left("paused/plan"), step="gate back implement, then again"),
    "back from implement, running": row("implement", left("running/research"), step="gate back implement, then again"),
    "implement to done, paused": row("implement", left("paused/done"), step="gate skipped implement, then again"),
    "implement to done, running": row("implement", left("running/done"), step="gate skipped implement, then again"),
    "implement, completed in another phase": row(
        "implement", left("completed/plan"), step="gate skipped implement, then again"
    ),
    # STATE.json invalid
    "unreadable": row("research", UNREAD, step="session research", words="field state: Field required"),
    "unreadable twice in a row": row(
        "research", UNREAD, UNREAD, step="gate invalid research, then again", words="field state: Field required"
    ),
    "unreadable twice, not in a row": row(
        "implement", UNREAD, CHUNK, UNREAD, step="session implement", words="field state"
    ),
    # crashed, timed out: growing waits, then a gate with the cause
    "crashed": row("implement", crash(), step="wait retry 2", words="exit code 1"),
    "crashed twice": row("implement", crash(), crash(), step="wait retry 4"),
    "crashed three times": row("implement", *[crash()] * 3, step="wait retry 8"),
    "crashed four times": row(
        "implement",
        *[crash()] * 3,
        crash("killed by 9"),
        step="gate failed implement, then again",
        words=("4 times", "killed by 9"),
    ),
    "timed out": row("research", left(None, ending="timeout", cause="the session timed out"), step="wait retry 2"),
    "timed out and crashed": row(
        "research",
        left(None, ending="timeout"),
        crash(),
        *[left(None, ending="timeout")] * 2,
        step="gate failed research, then again",
    ),
    "crashed twice, not in a row": row("implement", crash(), CHUNK, crash(), step="wait retry 2"),
    "refused by the provider, which is no crash": row(
        "implement", refused("429: slow down"), step="wait retry 2", words="the provider refused (429: slow down)"
    ),
    "refused by the provider again and again": row(
        "implement",
        *[refused("429: slow down")] * 4,
        step="gate failed implement, then again",
        words="The provider refused 4 times in a row; last: 429: slow down",
    ),
    "no retries allowed": row("implement", crash(), step="gate failed implement, then again", retries=0),
    "one slow retry allowed": row("implement", crash(), step="wait retry 60", retries=1, retry_wait=60),
    "failed for good": row(
        "implement",
        left(None, ending="crashed", cause="no API key", permanent=True),
        step="gate failed implement, then again",
        words="cannot continue: no API key",
    ),
    "told when to come back": row(
        "implement", left(None, ending="crashed", cause="429", retry_after=90.5), step="wait retry 90.5", words="429"
    ),
    "told to come back too soon": row(
        "implement", crash(), *[left(None, ending="crashed", retry_after=1)] * 2, step="wait retry 4"
    ),
    "crashed after the phase was complete": row(
        "research", left("paused/research", ending="crashed"), step="gate review research, then next"
    ),
    "crashed after the work was done": row("implement", left("completed/done", ending="crashed"), step="finish"),
    "crashed and only claimed to be complete": row(
        "research", left("paused/research", ending="crashed", output="missing"), step="wait retry 2"
    ),
    "crashed with an unreadable state": row(
        "research", left(None, ending="crashed", invalid="it is empty"), step="wait retry 2"
    ),
    # cut short by the human or the machine: what it wrote is kept
    "interrupted": row(
        "implement", left("running/implement", ending="interrupted"), step="session implement", words="cut off"
    ),
    "stopped": row("implement", left("running/implement", ending="stopped"), step="session implement", words="cut off"),
    "lost with its runner": row(
        "research", left("running/research", ending="lost"), step="session research", words="cut off"
    ),
    "lost when the phase was complete": row(
        "research", left("paused/research", ending="lost"), step="gate review research, then next"
    ),
    "interrupted when all was done": row("implement", left("completed/done", ending="interrupted"), step="finish"),
    "interrupted, skipping ahead": row(
        "research", left("completed/done", ending="interrupted"), step="session research", words="cut off"
    ),
    # ended well but nothing changed
    "idle twice": row("implement", IDLE, IDLE, step="session implement"),
    "idle three times": row(
        "implement", IDLE, IDLE, IDLE, step="gate stuck implement, then again", words="last 3 sessions"
    ),
    "idle three times, not in a row": row("implement", IDLE, IDLE, CHUNK, IDLE, step="session implement"),
    "idle, but complete": row(
        "research",
        *[left("running/research", changed=False)] * 3,
        left("paused/research"),
        step="gate review research, then next",
    ),
    # the human closed the agent
    "closed before the phase was over": row(
        "research",
        left("running/research", ending="left", output="missing"),
        step="gate left research, then again",
        words="closed before the research phase was over",
    ),
    "closed when the phase was complete": row(
        "research", left("paused/research", ending="left"), step="gate review research, then next"
    ),
    "closed when all was done": row("implement", left("completed/done", ending="left"), step="finish"),
    # completion is judged before limits, and limits before anything else is started
    "complete with the last session allowed": row("implement", left("completed/done"), step="finish", max_iterations=1),
    "a review with the last session allowed": row(
        "research", left("paused/research"), step="gate review research, then next", max_iterations=1
    ),
    "complete when the time is up": row("implement", left("completed/done", seconds=99), step="finish", max_seconds=60),
    "a question with the last session allowed": row(
        "research", left(question="Which?"), step="gate question research, then again", max_iterations=1
    ),
    "the sessions are used up": row(
        "implement", CHUNK, CHUNK, step="gate limit implement, then again", words="--max-iterations", max_iterations=2
    ),
    "one session is left": row("implement", CHUNK, step="session implement", max_iterations=2),
    "the time is used up": row(
        "implement",
        left("running/implement", seconds=60),
        step="gate limit implement, then again",
        words="--max-time",
        max_seconds=60,
    ),
    "a wait with nothing left to wait for": row(
        "implement",
        left("running/implement", wait={"seconds": 300}),
        step="gate limit implement, then again",
        max_iterations=1,
    ),
    "a retry with no session left": row(
        "implement", crash(), step="gate limit implement, then again", max_iterations=1
    ),
    "no limit": row("implement", *[CHUNK] * 150, step="session implement", max_iterations=0),
    "the limit unless told": row("implement", *[CHUNK] * 100, step="gate limit implement, then again"),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_the_agent_left_and_what_the_runner_does(case: str) -> None:
    given = TABLE[case]
    step = decide(after(given.phase, *given.ended), limits=given.limits)
    assert in_words(step) == given.step
    for words in given.words:
        assert words in told(step)
    if not given.words and isinstance(step, RunSession):
        assert step.guidance == (), "guidance only where something was wrong"


def test_the_gates_show_the_agents_note_and_nothing_as_opened() -> None:
    for case in ("complete, by its own phase", "research to done", "the plan is wrong", "a question"):
        step = decide(after(TABLE[case].phase, *TABLE[case].ended))
        assert isinstance(step, Gate)
        assert (step.note, step.token) == ("a note", "")


# The beginning and the end


def test_a_new_task_starts_with_a_session_of_its_first_phase() -> None:
    assert in_words(decide([begun("research")])) == "session research"


def test_an_adopted_task_that_awaits_its_review_starts_with_the_gate() -> None:
    assert in_words(decide([begun("research", review=True)])) == "gate review research, then next"


def test_a_completed_task_stays_completed_whatever_is_allowed() -> None:
    records = [*after("implement", left("completed/done")), Finished()]
    assert in_words(decide(records, limits=Limits(max_iterations=1))) == "finished before"


def test_a_cancelled_run_goes_no_further() -> None:
    assert in_words(decide([*after("research", left("paused/research")), gate(), Cancelled()])) == "halt"


def test_a_restart_begins_again_after_the_end_or_a_cancel() -> None:
    for end in (Finished(), Cancelled()):
        again = RunStarted(run=2, path=[("rpi", 0)], phase="research")
        assert in_words(decide([*after("implement", left("completed/done")), end, again])) == "session research"


# Gates


WAITS_FOR_ITS_CAUSE = ("limit", "checks", "missing", "clarify", "definition", "redefined", "baseline", "setup")


@pytest.mark.parametrize("reason", [reason for reason in get_args(Reason) if reason not in WAITS_FOR_ITS_CAUSE])
@pytest.mark.parametrize("onward", get_args(Onward))
def test_an_open_gate_stays_as_it_was_opened(reason: Reason, onward: Onward) -> None:
    opened = gate(reason, onward=onward, message="why", note="note")
    limits = Limits(max_iterations=1)
    assert decide([*after("research", left("paused/research")), opened], limits=limits) is opened


@pytest.mark.parametrize(
    ("choice", "onward", "phase", "step"),
    [
        ("continue", "next", None, "move plan"),
        ("continue", "again", None, "session research"),
        ("answer", "again", None, "session research"),
        ("answer", "next", None, "session research"),
        ("redo", "next", None, "move research"),
        ("redo", "next", "research", "move research"),
        ("redo", "again", "plan", "move plan"),
        ("redo", "next", "implement", "move implement"),
        ("loop", "next", None, "move research"),
    ],
)
def test_what_a_verdict_leads_to(choice: Choice, onward: Onward, phase: str | None, step: str) -> None:
    records = [*after("research", left("paused/research")), gate(onward=onward), verdict(choice, phase=phase)]
    assert in_words(decide(records)) == step


def test_a_verdict_moves_by_one_step() -> None:
    reviewed = [*after("plan", left("paused/plan")), gate(phase="plan")]
    assert decide([*reviewed, verdict()]) == move(2, "implement")
    assert decide([*reviewed, verdict("redo", phase="research")]) == move(0, "research")
    assert decide([*reviewed, verdict("loop")]) == move(0, "research")


def move(place: int, phase: str) -> Note:
    return Note(Moved(path=[("rpi", place)], steps=1, phase=phase))


def test_accepting_the_last_phase_finishes() -> None:
    definitions = library(workflow("short", {"id": "only", "output": "only.md", "gate": True}))
    records = after("only", left("paused/only"), definitions=definitions, key="short")
    assert in_words(decide(records, definitions)) == "gate review only, then next"
    assert in_words(decide([*records, gate(phase="only"), verdict()], definitions)) == "finish"


def test_a_phase_without_a_gate_moves_on_by_itself() -> None:
    definitions = library(workflow("two", {"id": "first", "output": "first.md"}, "second"))
    complete = after("first", left("paused/first"), definitions=definitions, key="two")
    assert in_words(decide(complete, definitions)) == "move second"
    last = after("second", left("paused/second", output="missing"), definitions=definitions, key="two")
    assert in_words(decide(last, definitions)) == "finish"


def test_the_next_phase_may_lie_in_another_workflow() -> None:
    definitions = library(workflow("top", "@inner", "end"), workflow("inner", {"id": "deep", "gate": True}))
    records = after("deep", left("running/end"), definitions=definitions, key="top")
    assert in_words(decide(records, definitions)) == "gate review deep, then next"
    assert in_words(decide([*records, gate(phase="deep"), verdict()], definitions)) == "move end"


def test_a_phase_that_repeats_and_is_not_the_last_is_complete_by_the_next_ones_name() -> None:
    definitions = library(workflow("two", {"id": "build", "repeats": True, "output": "b.md"}, "ship"))
    for said, step in (
        ("paused/ship", "move ship"),
        ("running/ship", "move ship"),
        ("running/build", "session build"),
        ("paused/build", "gate paused build, then again"),
    ):
        assert in_words(decide(after("build", left(said), definitions=definitions, key="two"), definitions)) == step


def test_a_new_phase_does_not_inherit_the_doubts_about_the_last_one() -> None:
    """A phase without an output file is complete without one; the phase after it still gets its second chance."""
    definitions = library(workflow("two", "first", {"id": "second", "output": "second.md"}))
    records = after("first", left("paused/first", output="missing"), definitions=definitions, key="two")
    records += [Moved(path=[("two", 1)], steps=1, phase="second")]
    records += [started("second", 2), left("paused/second", output="missing")]
    assert in_words(decide(records, definitions)) == "session second"


@pytest.mark.parametrize("choice", ["continue", "redo", "loop", "answer"])
def test_a_verdict_for_another_phase_moves_nothing(choice: Choice) -> None:
    answer = verdict(choice, phase="implement" if choice == "redo" else None)
    records = [*after("research", left("paused/research")), gate(phase="plan"), answer]
    assert in_words(decide(records)) == "session research"


def test_a_loop_that_is_not_allowed_any_more_comes_back_as_the_gate_with_the_reason() -> None:
    fixed = library(workflow("rpi", "research", {"id": "plan", "gate": True}, loopable=False))
    records = [
        *after("plan", left("paused/plan")),
        gate(phase="plan", message="Read it.", note="note"),
        verdict("loop"),
    ]
    step = decide(records, fixed)
    assert step == Gate(reason="review", phase="plan", message=told(step), note="note", onward="next")
    assert told(step).startswith("Read it. ")
    assert "does not allow looping" in told(step)


def test_a_phase_that_is_gone_comes_back_as_the_gate_with_the_reason() -> None:
    shorter = library(workflow("rpi", {"id": "research", "gate": True}))
    records = [*after("research", left("paused/research")), gate(), verdict("redo", phase="plan")]
    step = decide(records, shorter)
    assert in_words(step) == "gate review research, then next"
    assert "there is no phase 'plan'" in told(step)


# --auto-approve

AUTO_APPROVED = {
    ("review", "next"): True,
    ("rounds", "next"): False,
    ("blocked", "again"): False,
    ("skipped", "next"): True,
    ("skipped", "again"): False,
    ("back", "again"): True,
    ("missing", "again"): False,
    ("output", "next"): False,
    ("output", "again"): False,
    ("paused", "again"): False,
    ("question", "again"): False,
    ("failed", "again"): False,
    ("left", "again"): False,
    ("stuck", "again"): False,
    ("invalid", "again"): False,
    ("limit", "again"): False,
    ("workflow", "again"): False,
    ("clarify", "again"): False,
    ("checks", "again"): False,
    ("definition", "again"): False,
    ("redefined", "again"): False,
    ("session", "again"): True,
    ("writes", "again"): False,
    ("baseline", "again"): False,
    ("setup", "again"): False,
}


@pytest.mark.parametrize(("reason", "onward"), AUTO_APPROVED)
def test_auto_approve_passes_reviews_in_order_and_no_problem(reason: Reason, onward: Onward) -> None:
    assert (auto_answer(gate(reason, onward=onward), 0) is not None) is AUTO_APPROVED[reason, onward]


def test_the_table_of_auto_approval_knows_every_gate() -> None:
    assert {reason for reason, _ in AUTO_APPROVED} == set(get_args(Reason))


@pytest.mark.parametrize("case", [case for case, given in TABLE.items() if given.step.startswith("gate")])
def test_auto_approval_never_skips_a_phase(case: str) -> None:
    """Whatever gate a session led to: if no one looks, the next phase in order follows, or the earlier one proposed."""
    given = TABLE[case]
    step = decide(after(given.phase, *given.ended), limits=given.limits)
    assert isinstance(step, Gate)
    answer = auto_answer(step, 0)
    if answer is not None:
        passed = decide([*after(given.phase, *given.ended), replace(step, token="t"), answer])
        onward = {"research": "move plan", "plan": "move implement", "implement": ""}[given.phase]
        assert in_words(passed) == (f"move {step.back_to}" if step.reason == "back" else onward)


# Waits and guidance


WAIT = WaitStarted(kind="agent", seconds=300, reason="CI", until=1300)
RETRY = WaitStarted(kind="retry", seconds=2, reason="exit code 1", until=1002)


@pytest.mark.parametrize("wait", [WAIT, RETRY])
def test_a_wait_that_was_begun_goes_on(wait: WaitStarted) -> None:
    step = decide([*after("implement", CHUNK), wait], limits=Limits(max_iterations=1))
    assert in_words(step) == f"wait {wait.kind} {wait.seconds:g}"
    assert getattr(step, "started", None) == wait


def test_after_a_wait_the_agent_is_told_what_it_waited_for() -> None:
    step = decide([*after("implement", CHUNK), WAIT, WaitEnded()])
    assert in_words(step) == "session implement"
    assert told(step) == "You asked to wait 5m 00s for: CI. That time is over."


def test_after_a_wait_cut_short_the_agent_is_told_so() -> None:
    step = decide([*after("implement", CHUNK), WAIT, WaitEnded(early=True)])
    assert told(step).startswith("You asked to wait 5m 00s for: CI. The human ended the wait early")
    assert "over." not in told(step).replace("not over.", "")
    assert told(decide([*after("implement", CHUNK), RETRY, WaitEnded(early=True)])) == ""


def test_after_a_retry_wait_the_agent_is_told_nothing_new() -> None:
    step = decide([*after("implement", crash()), RETRY, WaitEnded()])
    assert (in_words(step), told(step)) == ("session implement", "")


def test_guidance_is_given_again_after_a_crash_and_after_the_failed_gate() -> None:
    records: list[Record] = [begun("research"), started(guidance=["Write research.md."]), crash()]
    assert told(decide([*records, RETRY, WaitEnded()])) == "Write research.md."
    assert told(decide([*records, gate("failed", onward="again"), verdict()])) == "Write research.md."


def test_a_session_cut_off_again_and_again_is_told_so_once() -> None:
    records: list[Record] = [begun("research")]
    guidance = ["Write research.md."]
    for number in range(1, 5):
        records += [started("research", number, guidance=guidance), left("running/research", ending="stopped")]
        step = decide(records)
        assert isinstance(step, RunSession)
        guidance = list(step.guidance)
    assert len(guidance) == 2
    assert guidance[0] == "Write research.md."


# The agent's reason

WRONG = gate("paused", "implement", onward="again", note="no UserService exists")
IN_RESEARCH = Moved(path=[("rpi", 0)], steps=1, phase="research")


@pytest.mark.parametrize(
    "answered",
    [[verdict()], [verdict("redo", phase="research", text="why"), IN_RESEARCH], [verdict("loop"), IN_RESEARCH]],
    ids=["continue", "another phase", "loop"],
)
def test_the_note_that_led_to_a_gate_is_kept_until_a_session_has_heard_it(answered: list[Record]) -> None:
    records = [*after("implement", left("paused/implement")), WRONG, *answered]
    phase = fold(records).phase
    assert fold(records).stopped_by == WRONG
    lost = [*records, started(phase, 2), left(None, ending="crashed")]
    assert fold(lost).stopped_by == WRONG
    assert fold([*lost, started(phase, 3), left(f"running/{phase}")]).stopped_by is None


def test_a_note_that_only_asks_for_a_review_is_no_reason() -> None:
    assert fold([*after("plan", left("paused/plan")), gate(phase="plan", note="planned"), verdict()]).stopped_by is None


# Back

BACK = gate("back", "plan", onward="again", note="research is wrong", back_to="research")


def test_only_what_was_sent_back_unseen_is_counted_and_a_new_run_begins_at_none() -> None:
    unseen, seen = verdict("redo", phase="research", by="auto"), verdict("redo", phase="research")
    records = after("plan", left("running/research"))
    assert in_words(decide([*records, BACK, unseen])) == "move research"
    assert [fold([*records, BACK, each, BACK, each]).sent_back for each in (unseen, seen)] == [2, 0]
    again = RunStarted(run=2, path=[("rpi", 0)], phase="research")
    assert fold([*records, BACK, unseen, again]).sent_back == 0


def test_the_later_of_two_phases_with_one_name_is_not_earlier() -> None:
    definitions = library(workflow("top", "@inner", "mid", "@inner"), workflow("inner", "a"))
    records: list[Record] = [Begun(workflow="top", path=[("top", 1)], phase="mid"), started("mid"), left("running/a")]
    assert in_words(decide(records, definitions)) == "move a"


# What ends a phase by itself, and what starts the workflow again

LISTED = library(workflow("w", {"id": "work", "repeats": True, "checklist": "task.md"}))


@pytest.mark.parametrize(
    ("ending", "steps", "step"),
    [
        ("ended", None, "session work"),
        ("ended", (0, 0), "session work"),  # a list without boxes says nothing
        ("ended", (2, 3), "session work"),
        ("ended", (3, 3), "finish"),
        ("crashed", (3, 3), "wait retry 2"),
    ],
)
def test_a_phase_with_a_checklist_is_complete_once_every_box_is_ticked(
    ending: str, steps: tuple[int, int] | None, step: str
) -> None:
    ended = left("running/work", ending=ending, steps=steps)
    assert in_words(decide(after("work", ended, definitions=LISTED, key="w"), LISTED)) == step


@pytest.mark.parametrize(("steps", "asked"), [((0, 0), False), ((2, 3), False), ((3, 3), True)])
def test_an_agent_that_ticked_every_step_of_the_plan_is_asked_whether_it_is_done(
    steps: tuple[int, int], asked: bool
) -> None:
    assert ("Every step" in told(decide(after("implement", left("running/implement", steps=steps))))) == asked


@pytest.mark.parametrize(
    ("gate", "steps"),
    [(False, ["move a", "move a", "gate paused b, then next"]), (True, ["gate review b, then next"] * 3)],
)
def test_an_agent_starts_the_workflow_again_as_often_as_it_may_and_never_past_a_review(
    gate: bool, steps: list[str]
) -> None:
    twice = library(workflow("w", "a", {"id": "b", "may_loop": 2, "gate": gate}))
    records: list[Record] = [begun("b", twice, "w")]
    found = []
    for number in (1, 2, 3):
        records += [started("b", number), left("paused/b", loop=True)]
        step = decide(records, twice)
        found.append(in_words(step))
        if isinstance(step, Note):
            records += [step.record, Moved(path=[("w", 1)], steps=2 * number, phase="b")]
    assert found == steps


# Files that the work rests on

GONE = FilesMissing(names=["plan.md"])
LOST = gate("missing", "implement", onward="again", about=["plan.md"])


WAITS = left("running/implement", wait={"seconds": 300, "reason": "CI"})


@pytest.mark.parametrize(
    "ended", [CHUNK, left("completed/done"), WAITS], ids=["before a session", "before the end", "before a wait"]
)
def test_a_missing_file_is_a_gate_that_closes_when_the_file_is_back(ended: SessionEnded) -> None:
    records: list[Record] = after("implement", ended)
    meant = in_words(decide(records))
    step = decide([*records, GONE])
    assert in_words(step) == "gate missing implement, then again"
    assert "plan.md is missing or blank" in told(step)
    assert isinstance(step, Gate)
    opened = replace(step, token="t")
    assert decide([*records, GONE, opened]) is opened
    assert in_words(decide([*records, GONE, opened, FilesMissing()])) == meant
    assert in_words(decide([*records, GONE, opened, verdict()])) == meant, "the human continues without it"


def test_a_yes_counts_for_the_files_that_were_named_and_until_they_are_back() -> None:
    records = [*after("implement", CHUNK), GONE, LOST, verdict()]
    assert in_words(decide(records)) == "session implement"
    both = [*records, FilesMissing(names=["instructions.md", "plan.md"])]
    assert told(decide(both)).startswith("instructions.md is missing or blank")
    assert in_words(decide([*records, FilesMissing(), GONE])) == "gate missing implement, then again"


@pytest.mark.parametrize("ended", [CHUNK, WAITS], ids=["before a session", "before a wait"])
def test_a_colleague_is_asked_after_each_session_and_once(ended: SessionEnded) -> None:
    meant = in_words(decide(after("implement", ended)))
    records: list[Record] = [begun("implement"), OversightSet(oversight="colleague"), started("implement"), ended]
    step = decide(records)
    assert isinstance(step, Gate)
    assert step.reason == "session"
    assert in_words(decide([*records, replace(step, token="t"), verdict()])) == meant


@pytest.mark.parametrize(
    ("phase", "writes", "asks"),
    [
        ("research", {"tree": "t", "files": ["a.py"], "count": 1}, False),
        ("research", {"tree": "t", "files": ["a.py"], "count": 1, "by_agent": ["a.py"]}, False),  # its review tells it
        ("implement", {"tree": "t", "files": ["a.py"], "count": 1}, False),
        ("implement", {"tree": "t", "files": ["a.py"], "count": 1, "by_agent": ["a.py"]}, True),
        ("research", {"left": "a.py is open"}, True),
    ],
)
def test_what_was_written_elsewhere_is_asked_about_where_no_review_tells_it_and_once(
    phase: str, writes: dict[str, Any], asks: bool
) -> None:
    records: list[Record] = after(phase, left(f"running/{phase}", writes=writes))
    step = decide(records)
    assert (isinstance(step, Gate) and step.reason == "writes") == asks
    if isinstance(step, Gate):
        assert in_words(decide([*records, replace(step, token="t"), verdict()])) == f"session {phase}"


def test_reviews_stand_until_their_phase_is_done_again() -> None:
    reviewed = [*after("research", left("paused/research")), gate(), verdict(by="auto"), move(1, "plan").record]
    reviewed += [started("plan", 2), left("paused/plan"), gate(phase="plan"), verdict(), move(2, "implement").record]
    course = Phases(RPI)
    unseen, seen = course.where(fold(reviewed)).reviews
    assert (unseen, unseen.by_human) == (("research", "auto", "research.md"), False)
    assert (seen, seen.by_human) == (("plan", "terminal", "plan.md"), True)
    assert [each.phase for each in course.where(fold([*reviewed, move(1, "plan").record])).reviews] == ["research"]
    assert course.where(fold([*reviewed, move(0, "research").record])).reviews == ()
    assert course.where(fold([*reviewed, RunStarted(run=2, path=[("rpi", 0)], phase="research")])).reviews == ()


# Limits

ONE = Limits(max_iterations=1)
USED_UP = "The limit of 1 session (--max-iterations) is reached."
LIMIT = gate("limit", "implement", onward="again", message=USED_UP, more="--max-iterations +10")


def test_a_limit_gate_dissolves_once_more_is_allowed() -> None:
    records = [*after("implement", CHUNK), LIMIT]
    assert in_words(decide(records, limits=ONE)) == "gate limit implement, then again"
    assert in_words(decide(records, limits=Limits(max_iterations=2))) == "session implement"
    assert in_words(decide(records, limits=Limits(max_iterations=0))) == "session implement"


def test_a_limit_of_the_project_is_held_until_a_human_allows_more() -> None:
    step = decide(after("implement", CHUNK), limits=replace(ONE, by_project=frozenset({"max_iterations"})))
    assert isinstance(step, Gate)
    assert step.held == {"max_iterations": 1}
    records = [*after("implement", CHUNK), step]
    for project in (replace(ONE, max_iterations=9, by_project=frozenset({"max_iterations"})), Limits(max_iterations=0)):
        assert in_words(decide(records, limits=project)) == "gate limit implement, then again"
    typed = [*records, LimitSet(name="max_iterations", value=2)]
    assert in_words(decide(typed, limits=ONE)) == "session implement"


@pytest.mark.parametrize("reason", [reason for reason in get_args(Reason) if reason not in WAITS_FOR_ITS_CAUSE])
def test_no_other_gate_dissolves(reason: Reason) -> None:
    records = [*after("implement", CHUNK), gate(reason, "implement", onward="again")]
    assert in_words(decide(records, limits=Limits(max_iterations=0))) == f"gate {reason} implement, then again"


def test_a_gate_over_unclear_instructions_in_an_older_journal_closes_by_itself() -> None:
    assert in_words(decide([begun("research"), gate("clarify", onward="again")])) == "session research"


def test_a_human_who_says_go_on_allows_as_much_again() -> None:
    records = [*after("implement", CHUNK), LIMIT, verdict()]
    assert in_words(decide(records, limits=ONE)) == "session implement"
    records += [started("implement", 2), CHUNK]
    assert in_words(decide(records, limits=ONE)) == "gate limit implement, then again"


@pytest.mark.parametrize("case", ["called done without a result", "a wait", "crashed", "stopped", "unreadable"])
def test_what_a_limit_held_up_is_done_once_more_is_allowed(case: str) -> None:
    given = TABLE[case]
    opened = gate("limit", given.phase, onward="again", message=USED_UP, more="--max-iterations +10")
    records = [*after(given.phase, *given.ended), opened]
    dissolved = decide(records, limits=Limits(max_iterations=2))
    assert in_words(dissolved) == given.step
    assert all(words in told(dissolved) for words in given.words)
    answered = decide([*records, verdict()], limits=ONE)
    assert in_words(answered).split()[:2] == given.step.split()[:2]
    assert all(words in told(answered) for words in given.words)


def test_a_session_that_starts_with_four_fifths_used_up_says_so_once() -> None:
    def warned(sessions: int, *told: str) -> list[str]:
        session: list[Record] = [started("implement", warned=list(told)), CHUNK]
        records = [begun("implement"), *session * sessions]
        step = decide(records, limits=Limits(max_iterations=5))
        assert isinstance(step, RunSession)
        return [budget for budget, _ in step.warnings]

    assert warned(3) == []
    assert warned(4) == ["max_iterations"]
    assert warned(4, "max_iterations") == []


def test_a_human_may_choose_another_phase_at_a_limit() -> None:
    records = [*after("implement", NO_RESULT), LIMIT, verdict("redo", phase="plan")]
    assert in_words(decide(records, limits=ONE)) == "move plan"


def test_moving_on_is_no_session_and_starting_one_is() -> None:
    moved = [*after("research", left("paused/research")), gate(), verdict()]
    assert in_words(decide(moved, limits=ONE)) == "move plan"
    assert in_words(decide([*moved, Moved(path=[("rpi", 1)], steps=1, phase="plan")], limits=ONE)) == (
        "gate limit plan, then again"
    )


# The definition changed under a running task (workflow vector 12)

CHANGED = {
    "the workflow is gone": ({}, "'rpi' is not there"),
    "the phase is gone": (library(workflow("rpi", "other")), "has no phase 2 any more"),
    "another phase stands there": (
        library(workflow("rpi", "research", "design", "plan")),
        "was 'plan' and is 'design'",
    ),
    "a workflow stands there": (
        library(workflow("rpi", "research", "@sub"), workflow("sub", "plan")),
        "is a workflow now",
    ),
}
IN_PLAN: dict[str, list[Record]] = {
    "at rest": [begun("plan")],
    "ended": after("plan", left("paused/plan")),
    "at a review": [*after("plan", left("paused/plan")), gate(phase="plan")],
    "approved": [*after("plan", left("paused/plan")), gate(phase="plan"), verdict()],
    "waiting": [*after("plan", left("running/plan")), WAIT],
}


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("where", IN_PLAN)
def test_a_changed_definition_is_explained_and_the_human_chooses(change: str, where: str) -> None:
    definitions, reason = CHANGED[change]
    step = decide(IN_PLAN[where], definitions)
    assert in_words(step) == "gate workflow plan, then again"
    assert reason in told(step)
    assert isinstance(step, Gate)
    assert step.token == ""
    opened = gate("workflow", "plan", onward="again", message=told(step))
    assert decide([*IN_PLAN[where], opened], definitions) is opened
    assert in_words(decide([*IN_PLAN[where], opened, verdict()], definitions)) == "gate workflow plan, then again"


@pytest.mark.parametrize("where", IN_PLAN)
def test_the_phase_the_human_chose_is_gone_on_with(where: str) -> None:
    definitions, _ = CHANGED["another phase stands there"]
    opened = gate("workflow", "plan", onward="again")
    chosen = decide([*IN_PLAN[where], opened, verdict("redo", phase="plan")], definitions)
    assert chosen == move(2, "plan")
    missing = decide([*IN_PLAN[where], opened, verdict("redo", phase="gone")], definitions)
    assert in_words(missing) == "gate workflow plan, then again"


def test_a_definition_that_changed_elsewhere_is_no_matter() -> None:
    longer = library(
        workflow("rpi", "research", {"id": "plan", "gate": True, "output": "plan.md"}, "extra", "implement")
    )
    assert in_words(decide(after("plan", left("paused/extra")), longer)) == "gate review plan, then next"
    assert in_words(decide(IN_PLAN["approved"], longer)) == "move extra"


@pytest.mark.parametrize("path", [[], [("rpi", -1)], [("rpi", 99)], [("nowhere", 0)]])
def test_a_recorded_place_that_makes_no_sense_is_asked_about(path: list[tuple[str, int]]) -> None:
    step = decide([Begun(workflow="rpi", path=path, phase="research")])
    assert in_words(step) == "gate workflow research, then again"


@pytest.mark.parametrize(("gates", "step"), [(["a"], "gate review a, then next"), ([], "move b")])
def test_a_review_that_a_task_began_with_stays_where_no_definition_is_pinned(gates: list[str], step: str) -> None:
    without = library(workflow("w", "a", "b"))
    records: list[Record] = [begun("a", without, "w", gates=gates), started("a"), left("paused/a")]
    assert in_words(decide(records, without)) == step


def test_the_phases_to_choose_from_are_those_of_the_workflow_each_once() -> None:
    assert Phases(RPI).phase_ids("rpi") == ["research", "plan", "implement"]
    twice = library(workflow("top", "@inner", "@inner", "end"), workflow("inner", "a", "b"))
    assert Phases(twice).phase_ids("top") == ["a", "b", "end"]
    assert Phases(RPI).phase_ids("gone") == []


def test_deciding_changes_nothing() -> None:
    records = after("research", left("paused/research"))
    assert decide(records) == decide(records)
    assert fold(records) == fold(list(records))
