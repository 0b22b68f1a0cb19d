"""Progress is a fold of the journal: what is under way, what was delivered, what is still to be judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from marathon.core.breakers import History, begun_anew, remember
from marathon.core.budgets import BUDGETS, Amounts, Used, with_amount
from marathon.core.courses.workflow import Position, Segment
from marathon.core.criteria import Criterion
from marathon.core.human_note import Answer, Words
from marathon.core.records import (
    Begun,
    Cancelled,
    Checked,
    CriteriaFound,
    FeedbackWritten,
    Finished,
    GateAnswered,
    GateOpened,
    HumanMark,
    LimitSet,
    Moved,
    Proposal,
    Record,
    RestartBegun,
    RunStarted,
    Scored,
    SessionEnded,
    SessionStarted,
    SteerTaken,
    WaitEnded,
    WaitStarted,
)
from marathon.core.streaks import CUT_SHORT, Streaks, after_checks, after_session, claims_end, is_review
from marathon.core.usage import Usage

# Gates after whose answer the session's end is judged as if there had been no gate.
JUDGED_AGAIN = ("limit", "session", "checks")
NOWHERE = Position(())
NOTHING_DELIVERED = HumanMark()
NOTHING_USED = Usage()


@dataclass(frozen=True)
class Steer:
    """A message of the human's for the agent, by the name of its inbox file."""

    id: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """A gate and what the human (or --auto-approve) said to it; the next act follows from both."""

    gate: GateOpened
    answer: GateAnswered


# A tuple: the fold copies it for every record, and copying a frozen dataclass of this size takes ten times as long.
class Progress(NamedTuple):
    """Where a task is. One of session, ended, gate, verdict, wait is set while something is open; beside a limit gate,
    `ended` waits to be judged once more is allowed."""

    last: int = 0
    workflow: str = ""
    position: Position = NOWHERE
    phase: str = ""
    run: int = 0
    iteration: int = 0
    started: str = ""
    session: SessionStarted | None = None
    ended: SessionEnded | None = None
    gate: GateOpened | None = None
    verdict: Verdict | None = None
    wait: WaitStarted | None = None
    waited: WaitStarted | None = None
    round_mark: str | None = None
    in_round: bool = False
    rounds: tuple[tuple[str, int], ...] = ()
    gates: tuple[str, ...] = ()  # the phases that had one when the task began
    guidance: tuple[str, ...] = ()
    steer: tuple[Steer, ...] = ()
    answer: Answer | None = None
    delivered: HumanMark = NOTHING_DELIVERED
    unwritten: Words | None = None
    restart: RestartBegun | None = None
    restarted_with: str = ""  # the words that began this run
    streaks: Streaks = Streaks()
    used: Used = Used()
    warned: tuple[str, ...] = ()
    limits: Amounts = ()  # typed for this task
    added: Amounts = ()  # the same, until the next go-ahead
    scored: Scored | None = None
    looked: bool = False  # a human has looked at the session that ended
    criteria: CriteriaFound | None = None
    agreed: tuple[Criterion, ...] = ()  # those that stood before anything was lost
    refused: bool = False  # the human said no to changed criteria: one session may mend them
    checked: Checked | None = None
    contents: History = ()
    steps: tuple[int, int] | None = None
    seconds: float = 0
    run_seconds: float = 0
    usage: Usage = NOTHING_USED
    finished: bool = False
    cancelled: bool = False

    def round_of(self, phase: str) -> int:
        """How often this phase has come to a gate in this run."""
        return dict(self.rounds).get(phase, 0)


def fold(records: Iterable[Record]) -> Progress:
    progress = Progress()
    for record in records:
        progress = apply(progress, record)
    return progress


def apply(before: Progress, record: Record) -> Progress:
    """The progress after one more record."""
    now = before._replace(last=record.n)
    match record:
        case Begun():
            return _begun(now, record)
        case SessionStarted():
            return _session_started(now, record)
        case SessionEnded():
            return _session_ended(now, record)
        case GateOpened():
            rounds = dict(now.rounds)
            rounds[record.phase] = rounds.get(record.phase, 0) + is_review(record)
            kept = record.kind in JUDGED_AGAIN or (record.kind == "failed" and now.checked is not None)
            ended = now.ended if kept else None
            return now._replace(gate=record, ended=ended, wait=None, verdict=None, rounds=tuple(rounds.items()))
        case GateAnswered():
            return _gate_answered(now, record)
        case FeedbackWritten():
            return now._replace(unwritten=None)
        case Moved():
            return _at_rest(now)._replace(
                position=Position(_path(record.path), record.steps),
                phase=record.phase,
                in_round=False,
                round_mark=None,
                guidance=(),
                streaks=Streaks(),
                checked=None,
            )
        case WaitStarted():
            return now._replace(wait=record, ended=None, verdict=None)
        case WaitEnded():
            return now._replace(wait=None, waited=now.wait)
        case SteerTaken():
            return now._replace(steer=(*now.steer, Steer(record.id, record.text)))
        case RestartBegun():
            return now._replace(restart=record)
        case RunStarted():
            return _run_started(now, record)
        case Scored():
            return now._replace(scored=record)
        case CriteriaFound():
            agreed = tuple(record.criteria) if record.agreed else now.agreed
            return now._replace(criteria=record, agreed=agreed, checked=None)
        case Checked():
            return now._replace(checked=record, streaks=after_checks(now.streaks, record, now.iteration))
        case LimitSet():
            if record.added:
                return now._replace(added=with_amount(now.added, record.name, record.value))
            return now._replace(
                limits=with_amount(now.limits, record.name, record.value),
                added=with_amount(now.added, record.name, None),
            )
        case Finished():
            return _at_rest(now)._replace(finished=True)
        case Cancelled():
            return _at_rest(now)._replace(cancelled=True)
        case _:
            return now


def _at_rest(now: Progress) -> Progress:
    """Nothing open any more."""
    return now._replace(session=None, ended=None, gate=None, verdict=None, wait=None, waited=None)


def _path(raw: list[tuple[str, int]]) -> tuple[Segment, ...]:
    return tuple(Segment(*segment) for segment in raw)


def _begun(now: Progress, record: Begun) -> Progress:
    return now._replace(
        workflow=record.workflow,
        position=Position(_path(record.path)),
        phase=record.phase,
        run=1,
        iteration=record.iteration,
        started=record.at,
        in_round=record.review,
        gates=tuple(record.gates),
        ended=_adopted_end(record) if record.review else None,
        finished=record.over,
    )


def _adopted_end(record: Begun) -> SessionEnded:
    """An adopted task whose phase is complete is judged as if its session had just ended."""
    proposal = Proposal(state="paused", phase=record.phase, note=record.note)
    return SessionEnded(ending="ended", proposal=proposal, output="fresh")


def _session_started(now: Progress, record: SessionStarted) -> Progress:
    return _at_rest(now)._replace(
        session=record,
        iteration=record.iteration,
        guidance=tuple(record.guidance),
        round_mark=now.round_mark if now.in_round else record.output_mark,
        in_round=True,
        used=now.used._replace(sessions=now.used.sessions + 1),
        warned=(*now.warned, *record.warned),
        looked=False,
        refused=False,
        checked=None,
        unwritten=None,  # all was, before an agent is started; journals of old have answers that never were
    )


def _session_ended(now: Progress, record: SessionEnded) -> Progress:
    started = now.session
    now = now._replace(
        session=None,
        ended=record,
        used=_used(now.used, record),
        seconds=now.seconds + record.seconds,
        run_seconds=now.run_seconds + record.seconds,
        usage=now.usage.plus(record.usage) if record.usage else now.usage,
        streaks=after_session(now.streaks, record, now.phase, now.iteration),
        contents=remember(now.contents, dict(record.files)) if record.files else now.contents,
        steps=record.steps or now.steps,
    )
    if started is None or not _was_heard(record, now.phase):
        return now
    given = {*started.steer, *record.steered}
    return now._replace(
        delivered=started.human,
        answer=None,
        guidance=(),
        steer=tuple(steer for steer in now.steer if steer.id not in given),
    )


def _used(before: Used, ended: SessionEnded) -> Used:
    spent = ended.usage or NOTHING_USED
    return before._replace(
        seconds=before.seconds + ended.seconds,
        cost=before.cost + spent.cost,
        tokens=before.tokens + spent.tokens,
    )


def _was_heard(ended: SessionEnded, phase: str) -> bool:
    """The prompt counts as delivered; also to a session cut off after its work was done, or it would be told twice."""
    return ended.ending not in CUT_SHORT or (ended.output == "fresh" and claims_end(ended, phase))


def _gate_answered(now: Progress, record: GateAnswered) -> Progress:
    gate = now.gate
    if gate is None:
        return now
    now = now._replace(gate=None, verdict=Verdict(gate, record), waited=None, looked=True)
    if gate.kind not in ("session", "checks"):  # a look in passing is no new start
        now = now._replace(streaks=Streaks(), contents=begun_anew(now.contents))
    if gate.kind == "limit":
        now = _allowed_again(now, gate)
    mended = gate.kind == "failed" and now.checked is not None and not record.text  # words are the agent's to heed
    judged_again = gate.kind in JUDGED_AGAIN or mended
    if judged_again and now.ended is not None and record.choice == "continue":
        now = now._replace(verdict=None, checked=None)
    if gate.kind == "clarify" and now.scored is not None:
        now = now._replace(scored=replace(now.scored, shape="colleague"))
    shown = now.criteria is not None and now.criteria.digest == gate.digest
    if gate.kind == "checks" and now.criteria is not None and shown and record.choice == "continue":
        now = now._replace(criteria=replace(now.criteria, agreed=True), agreed=tuple(now.criteria.criteria))
    if gate.kind == "checks" and record.choice == "redo":
        now = now._replace(refused=True)
    if record.choice == "answer":
        answer = Answer(gate.message, record.text, record.heading)
        return now._replace(answer=answer, unwritten=answer.words if record.text.strip() else None)
    return now._replace(unwritten=Words(record.heading, record.text) if record.text else None)


def _allowed_again(now: Progress, gate: GateOpened) -> Progress:
    """As much again of what was used up; the other budgets go on as they are."""
    budget = next((each for each in BUDGETS if gate.more.startswith(f"{each.flag} ")), None)
    if budget is None:
        return now._replace(used=Used(), warned=(), added=())
    return now._replace(
        used=now.used._replace(**{budget.counter: 0}),
        warned=tuple(name for name in now.warned if name != budget.field),
        added=with_amount(now.added, budget.field, None),
    )


def _run_started(now: Progress, record: RunStarted) -> Progress:
    return Progress(
        last=now.last,
        workflow=now.workflow,
        position=Position(_path(record.path)),
        phase=record.phase,
        run=record.run,
        restarted_with=now.restart.text if now.restart else "",
        started=record.at,
        delivered=now.delivered,
        steer=now.steer,
        seconds=now.seconds,
        usage=now.usage,
        limits=now.limits,
        scored=now.scored,
        criteria=now.criteria,
        agreed=now.agreed,
        gates=now.gates,
    )
