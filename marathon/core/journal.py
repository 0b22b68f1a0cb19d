"""Progress is a fold of the journal: what is under way, what was delivered, what is still to be judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from marathon.core.records import (
    Begun,
    Cancelled,
    FeedbackWritten,
    Finished,
    GateAnswered,
    GateOpened,
    HumanMark,
    Moved,
    Record,
    RestartBegun,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SteerTaken,
    WaitEnded,
    WaitStarted,
)
from marathon.core.workflow import Position, Segment

# Endings after which the same prompt is owed once more: the session did not come to its own end.
CUT_SHORT = ("crashed", "timeout", "interrupted", "stopped", "lost")


NOWHERE = Position(())
NOTHING_DELIVERED = HumanMark()


@dataclass(frozen=True)
class Steer:
    """A message of the human's for the agent, by the name of its inbox file."""

    id: str
    text: str


@dataclass(frozen=True)
class Answer:
    """What the agent asked and what the human said."""

    question: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """A gate and what the human (or --auto-approve) said to it; the next act follows from both."""

    gate: GateOpened
    answer: GateAnswered


@dataclass(frozen=True)
class Streaks:
    """How often in a row something went wrong; a good session or a human's word sets them back."""

    failed: int = 0
    without_output: int = 0
    invalid: int = 0
    idle: int = 0


@dataclass(frozen=True)
class Progress:
    """Where a task is. Exactly one of session, ended, gate, verdict, wait is set while something is open."""

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
    guidance: tuple[str, ...] = ()
    steer: tuple[Steer, ...] = ()
    answer: Answer | None = None
    delivered: HumanMark = NOTHING_DELIVERED
    unwritten: GateAnswered | None = None
    restart: RestartBegun | None = None
    streaks: Streaks = Streaks()
    used_sessions: int = 0
    used_seconds: float = 0
    seconds: float = 0
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
    now = replace(before, last=record.n)
    match record:
        case Begun():
            return _begun(now, record)
        case SessionStarted():
            return _session_started(now, record)
        case SessionEnded():
            return _session_ended(now, record)
        case GateOpened():
            rounds = dict(now.rounds)
            rounds[record.phase] = rounds.get(record.phase, 0) + (record.kind == "review")
            return replace(now, gate=record, ended=None, wait=None, verdict=None, rounds=tuple(rounds.items()))
        case GateAnswered():
            return _gate_answered(now, record)
        case FeedbackWritten():
            return replace(now, unwritten=None)
        case Moved():
            return replace(
                _at_rest(now),
                position=Position(_path(record.path), record.steps),
                phase=record.phase,
                in_round=False,
                round_mark=None,
                guidance=(),
            )
        case WaitStarted():
            return replace(now, wait=record, ended=None, verdict=None)
        case WaitEnded():
            return replace(now, wait=None, waited=now.wait)
        case SteerTaken():
            return replace(now, steer=(*now.steer, Steer(record.id, record.text)))
        case RestartBegun():
            return replace(now, restart=record)
        case RunStarted():
            return _run_started(now, record)
        case Finished():
            return replace(_at_rest(now), finished=True)
        case Cancelled():
            return replace(_at_rest(now), cancelled=True)
        case _:
            return now


def _at_rest(now: Progress) -> Progress:
    """Nothing open any more."""
    return replace(now, session=None, ended=None, gate=None, verdict=None, wait=None, waited=None)


def _path(raw: list[tuple[str, int]]) -> tuple[Segment, ...]:
    return tuple(Segment(*segment) for segment in raw)


def _begun(now: Progress, record: Begun) -> Progress:
    return replace(
        now,
        workflow=record.workflow,
        position=Position(_path(record.path)),
        phase=record.phase,
        run=1,
        iteration=record.iteration,
        started=record.at,
        in_round=record.review,
        ended=_adopted_end(record) if record.review else None,
    )


def _adopted_end(record: Begun) -> SessionEnded:
    """An adopted task whose phase is complete is judged as if its session had just ended."""
    proposal = {"state": "paused", "phase": record.phase, "note": record.note}
    return SessionEnded.model_validate({"ending": "ended", "proposal": proposal, "output": "fresh"})


def _session_started(now: Progress, record: SessionStarted) -> Progress:
    return replace(
        _at_rest(now),
        session=record,
        iteration=record.iteration,
        guidance=tuple(record.guidance),
        round_mark=now.round_mark if now.in_round else record.output_mark,
        in_round=True,
        used_sessions=now.used_sessions + 1,
    )


def _session_ended(now: Progress, record: SessionEnded) -> Progress:
    started = now.session
    now = replace(
        now,
        session=None,
        ended=record,
        used_seconds=now.used_seconds + record.seconds,
        seconds=now.seconds + record.seconds,
        streaks=_streaks(now.streaks, record),
    )
    if started is None or record.ending in CUT_SHORT:
        return now
    given = set(started.steer)
    return replace(
        now,
        delivered=started.human,
        answer=None,
        guidance=(),
        steer=tuple(steer for steer in now.steer if steer.id not in given),
    )


def _streaks(before: Streaks, ended: SessionEnded) -> Streaks:
    if ended.ending in ("crashed", "timeout"):
        return replace(before, failed=before.failed + 1)
    if ended.ending in CUT_SHORT:
        return before
    waits = ended.wait is not None or ended.question is not None
    claims_end = ended.proposal is not None and ended.proposal.state != "running"
    return Streaks(
        failed=0,
        without_output=before.without_output + 1 if claims_end and ended.output != "fresh" else 0,
        invalid=before.invalid + 1 if ended.invalid else 0,
        idle=0 if ended.changed or waits else before.idle + 1,
    )


def _gate_answered(now: Progress, record: GateAnswered) -> Progress:
    gate = now.gate
    if gate is None:
        return now
    now = replace(now, gate=None, verdict=Verdict(gate, record), waited=None, streaks=Streaks())
    if gate.kind == "limit":
        now = replace(now, used_sessions=0, used_seconds=0)
    if record.choice == "answer":
        return replace(now, answer=Answer(gate.message, record.text))
    return replace(now, unwritten=record if record.text else None)


def _run_started(now: Progress, record: RunStarted) -> Progress:
    return Progress(
        last=now.last,
        workflow=now.workflow,
        position=Position(_path(record.path)),
        phase=record.phase,
        run=record.run,
        started=record.at,
        delivered=now.delivered,
        steer=now.steer,
        seconds=now.seconds,
    )
