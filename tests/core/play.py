"""Plays a marathon without files, agent or human: the steps are the real ones, what comes back to them is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from marathon.core.budgets import Limits
from marathon.core.courses.workflow import Definitions, Phase, current, enter
from marathon.core.decide import next_step
from marathon.core.life import Progress, apply
from marathon.core.records import (
    Begun,
    Checked,
    Finished,
    GateAnswered,
    GateOpened,
    Moved,
    Record,
    SessionEnded,
    SessionStarted,
    WaitEnded,
    WaitStarted,
    parse_record,
)
from marathon.core.steps import Finish, Gate, Halt, Move, RunSession, Step, Verify, Wait


@dataclass
class Play:
    """Sessions end, and the human answers, in the order given; the play is over when either has nothing more to say."""

    definitions: Definitions
    key: str
    endings: Iterator[SessionEnded]
    verdicts: Iterator[GateAnswered]
    limits: Limits = field(default_factory=Limits)
    checks: Iterator[Checked] = field(default_factory=lambda: iter(()))
    records: list[Record] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        first = enter(self.definitions, self.key)
        phase = current(self.definitions, first).id
        self.record(Begun(workflow=self.key, path=list(first.path), phase=phase))

    @property
    def phase(self) -> Phase:
        return current(self.definitions, self.progress.position)

    def record(self, record: Record) -> None:
        stamped = replace(record, n=len(self.records) + 1)
        self.records.append(parse_record(stamped.to_json().encode()))
        self.progress = apply(self.progress, self.records[-1])

    def steps(self) -> Iterator[Step]:
        """Every step before it is carried out."""
        while True:
            step = next_step(self.progress, self.definitions, self.limits)
            yield step
            if isinstance(step, Finish | Halt):
                return
            try:
                for record in self._act(step):
                    self.record(record)
            except StopIteration:
                return

    def _act(self, step: Step) -> list[Record]:
        """The records a runner would write for this step."""
        match step:
            case RunSession():
                return [self._session(step), next(self.endings)]
            case Gate(opened=None):
                return [
                    GateOpened(kind=step.kind, token="t", phase=step.phase, message=step.message, onward=step.onward)
                ]
            case Gate():
                return [next(self.verdicts)]
            case Wait(started=None):
                return [WaitStarted(kind=step.kind, seconds=step.seconds, reason=step.reason, until=0)]
            case Wait():
                return [WaitEnded()]
            case Verify():
                return [next(self.checks)]
            case Move():
                return [Moved(path=list(step.position.path), steps=step.position.steps, phase=step.phase)]
            case _:
                return [Finished()]

    def _session(self, step: RunSession) -> SessionStarted:
        progress = self.progress
        return SessionStarted(
            iteration=progress.iteration + 1,
            phase=step.phase.id,
            agent="rehearsal",
            steer=[steer.id for steer in progress.steer],
            guidance=list(step.guidance),
        )
