"""Plays a marathon without files, agent or human: the steps are the real ones, what comes back to them is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from marathon.core.budgets import Limits
from marathon.core.courses.phases import Phases, Place
from marathon.core.courses.workflow import Definitions, Phase, current
from marathon.core.decide import next_step
from marathon.core.life import Life, apply
from marathon.core.records import (
    Answer,
    Checked,
    Finished,
    Gate,
    Record,
    SessionEnded,
    SessionStarted,
    WaitEnded,
    WaitStarted,
    parse_record,
)
from marathon.core.steps import Finish, Halt, Note, RunSession, Step, Verify, Wait


@dataclass
class Play:
    """Sessions end, and the human answers, in the order given; the play is over when either has nothing more to say."""

    definitions: Definitions
    key: str
    endings: Iterator[SessionEnded]
    verdicts: Iterator[Answer]
    limits: Limits = field(default_factory=Limits)
    checks: Iterator[Checked] = field(default_factory=lambda: iter(()))
    records: list[Record] = field(default_factory=list)
    life: Life = field(default_factory=Life)

    def __post_init__(self) -> None:
        self.course = Phases(self.definitions, self.key)
        self.record(replace(self.course.begin(), gates=[]))

    @property
    def phase(self) -> Phase:
        return current(self.definitions, self.place.position)

    @property
    def place(self) -> Place:
        assert isinstance(self.life.own, Place)
        return self.life.own

    def record(self, record: Record) -> None:
        stamped = replace(record, n=len(self.records) + 1)
        self.records.append(parse_record(stamped.to_json().encode()))
        self.life = apply(self.life, self.records[-1], self.course)

    def steps(self) -> Iterator[Step]:
        """Every step before it is carried out."""
        while True:
            step = next_step(self.life, self.course, self.limits)
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
            case Gate(token=""):
                return [replace(step, token="t")]
            case Gate():
                return [next(self.verdicts)]
            case Wait(started=None):
                return [WaitStarted(kind=step.kind, seconds=step.seconds, reason=step.reason, until=0)]
            case Wait():
                return [WaitEnded()]
            case Verify():
                return [next(self.checks)]
            case Note():
                return [step.record]
            case _:
                return [Finished()]

    def _session(self, step: RunSession) -> SessionStarted:
        life = self.life
        return SessionStarted(
            iteration=life.iteration + 1,
            phase=step.phase.id,
            agent="rehearsal",
            steer=[steer.id for steer in life.steer],
            guidance=list(step.guidance),
        )
