"""What no agent, no file and no sequence of accidents can bring about: a review passed that nobody passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.core.budgets import Limits
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import Path, Workflow, current, places
from marathon.core.criteria import Criterion
from marathon.core.decide import next_step
from marathon.core.records import (
    Answer,
    Begun,
    CriteriaFound,
    DefinitionFound,
    FilesMissing,
    Gate,
    Moved,
    Record,
    RunStarted,
    SessionEnded,
    SessionStarted,
    WaitEnded,
    WaitStarted,
)
from marathon.core.steps import Finish, Note, RunSession, Step, Wait
from tests.core.making import RPI, after, begun, fold, left, thorough
from tests.core.play import Play
from tests.core.strategies import IDS, any_record, endings, sound_definitions, verdicts

ENDINGS = st.lists(endings(IDS), max_size=25)
ANY_VERDICTS = st.lists(verdicts(IDS), max_size=25)
ONLY_ONWARD = st.lists(verdicts(IDS, ("continue", "answer")), max_size=25)
# What stands in the way of the next session: gone files, and what a human has to agree to.
OBSTACLES: st.SearchStrategy[Record] = st.sampled_from(
    [
        FilesMissing(names=["plan.md"]),
        FilesMissing(names=["plan.md", "instructions.md"]),
        CriteriaFound(digest="c", criteria=[Criterion(name="tests", command="make test")], agreed=False),
        CriteriaFound(agreed=False, problem="it is not a table"),
        DefinitionFound(workflow="rpi", definitions=RPI, digest="d", agreed=False, shown="other phases"),
    ]
)
FAILED = st.just(left("running/implement", ending="crashed", cause="exit code 1"))
WAITING = st.just(left("running/implement", wait={"seconds": 600.0, "reason": "CI"}))
LIMITS = st.builds(
    Limits, max_iterations=st.integers(0, 6), max_seconds=st.sampled_from([0.0, 9000.0]), retries=st.integers(0, 3)
)
RPI_ENDINGS = st.lists(endings(("research", "plan", "implement")), max_size=25)


def answered(records: Iterable[Record], phase: str) -> bool:
    """Whether, since the last session or move, a gate of this phase was opened and then answered."""
    opened, said = False, False
    for record in records:
        match record:
            case Begun() | SessionStarted() | Moved() | RunStarted():
                opened, said = False, False
            case Gate():
                opened, said = record.phase == phase, False
            case Answer():
                said = said or opened
    return said


def leaves(step: Step) -> bool:
    """Whether the step ends the phase the task is in."""
    return isinstance(step, Note) or (isinstance(step, Finish) and not step.recorded)


@settings(thorough, max_examples=600)
@given(st.lists(any_record(RPI, "rpi"), max_size=25), LIMITS)
def test_no_sequence_of_records_leads_past_a_gate_without_an_answer_to_it(
    records: list[Record], limits: Limits
) -> None:
    journal: list[Record] = [begun("research"), *records]
    life = fold(journal)
    step = next_step(life, Phases(RPI), limits)
    if leaves(step) and current(RPI, life.own.position).gate:
        assert answered(journal, life.phase)


@settings(thorough, max_examples=250)
@given(sound_definitions(), ENDINGS, ANY_VERDICTS, LIMITS)
def test_no_agent_gets_past_a_gate_without_an_answer_to_it(
    definitions: dict[str, Workflow], ended: list[SessionEnded], said: list[Answer], limits: Limits
) -> None:
    play = Play(definitions, next(iter(definitions)), iter(ended), iter(said), limits)
    for step in play.steps():
        if leaves(step) and play.phase.gate:
            assert answered(play.records, play.life.phase)


@thorough
@given(sound_definitions(), ENDINGS, ONLY_ONWARD)
def test_phases_are_done_in_their_order_and_none_is_left_out(
    definitions: dict[str, Workflow], ended: list[SessionEnded], said: list[Answer]
) -> None:
    """Whatever agents propose: as long as the human says no more than "go on", it is the workflow's order."""
    key = next(iter(definitions))
    order = [path for path, _ in places(definitions, key)]
    play = Play(definitions, key, iter(ended), iter(said))
    visited: list[Path] = []
    for step in play.steps():
        if isinstance(step, RunSession) and play.place.position.path not in visited[-1:]:
            visited.append(play.place.position.path)
        if leaves(step) and isinstance(step, Finish):
            assert visited == order
    assert visited == order[: len(visited)]


@thorough
@given(RPI_ENDINGS, st.lists(verdicts(("research", "plan", "implement")), max_size=25), LIMITS)
def test_no_more_sessions_than_allowed_without_a_human(
    ended: list[SessionEnded], said: list[Answer], limits: Limits
) -> None:
    play = Play(
        RPI, "rpi", (replace(each, outage=False, retry_after=None) for each in ended), iter(said), limits
    )  # that uses up none
    sessions = 0
    for step in play.steps():
        if isinstance(step, RunSession):
            sessions += 1
            assert not limits.max_iterations or sessions <= limits.max_iterations
        if isinstance(step, Gate) and step.reason == "limit" and step.token:
            sessions = 0


@thorough
@given(RPI_ENDINGS, st.lists(verdicts(("research", "plan", "implement")), max_size=25))
def test_nothing_goes_wrong_more_than_a_few_times_before_a_human_is_asked(
    ended: list[SessionEnded], said: list[Answer]
) -> None:
    """Restart storms and endless idling end at a gate: at most retries + 1 failures and 3 idle sessions in a row."""
    play = Play(RPI, "rpi", iter(ended), iter(said))
    for _ in play.steps():
        streaks = play.life.streaks
        assert streaks.failed <= play.limits.retries + 1
        assert streaks.invalid <= 2
        assert streaks.without_output <= 3


@thorough
@given(RPI_ENDINGS, ANY_VERDICTS)
def test_a_step_that_is_not_carried_out_is_the_next_one_again(ended: list[SessionEnded], said: list[Answer]) -> None:
    """Killed at any point, the next runner decides the same."""
    play = Play(RPI, "rpi", iter(ended), iter(said))
    for step in play.steps():
        assert next_step(fold(list(play.records)), Phases(RPI), play.limits) == step


@thorough
@given(st.lists(any_record(RPI, "rpi"), max_size=25), LIMITS, sound_definitions())
def test_every_journal_has_a_next_step_whatever_the_definitions_are_now(
    records: list[Record], limits: Limits, others: dict[str, Workflow]
) -> None:
    life = fold([begun("research"), *records])
    renamed = {"rpi": replace(next(iter(others.values())), key="rpi"), **others}
    for definitions in (RPI, {}, others, renamed):
        step = next_step(life, Phases(definitions), limits)
        assert not isinstance(step, Wait) or step.seconds >= 0


@settings(thorough, max_examples=400)
@given(
    st.lists(any_record(RPI, "rpi"), max_size=3),
    st.lists(FAILED | WAITING | endings(("research", "plan", "implement")), min_size=1, max_size=2),
    st.lists(OBSTACLES, max_size=2),
    st.builds(Limits, max_iterations=st.integers(0, 2), retries=st.integers(0, 3)),
)
def test_with_nothing_new_from_outside_no_gate_is_opened_twice(
    before: list[Record], ended: list[SessionEnded], obstacles: list[Record], limits: Limits
) -> None:
    """Whatever has happened: the runner alone comes to rest, at a gate, a session, a check or an end."""
    journal: list[Record] = [begun("implement"), *before, *after("implement", *ended)[1:], *obstacles]
    opened: list[tuple[str, str, str]] = []
    for _ in range(30):
        match next_step(fold(journal), Phases(RPI), limits):
            case Gate(token="") as gate:
                opened.append((gate.reason, gate.message, gate.digest))
                journal.append(replace(gate, token="t"))
            case Note() as step:
                journal.append(step.record)
            case Wait(started=None) as step:
                journal.append(WaitStarted(kind=step.kind, seconds=step.seconds, reason=step.reason, until=0))
            case Wait():
                journal.append(WaitEnded())
            case _:
                break
    else:
        raise AssertionError(f"it goes on by itself: {opened}")
    assert len(opened) == len(set(opened)), opened
