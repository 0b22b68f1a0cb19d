"""Reads a journal as a story: its sessions, and its way through the workflow, where nobody may skip a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from marathon.core.courses.workflow import DONE, Definitions, Phase, Position, Segment, advance, current, locate, loop
from marathon.core.records import (
    Answer,
    Begun,
    Cancelled,
    Finished,
    Gate,
    Moved,
    Proposal,
    Record,
    RunStarted,
    SessionEnded,
    SessionStarted,
)

_STANDING = ("limit", "missing")  # closed by what they wait for, too


@dataclass(frozen=True)
class Told:
    """A session as the journal tells of it."""

    run: int
    started: SessionStarted
    ended: SessionEnded | None

    @property
    def number(self) -> tuple[int, int]:
        return self.run, self.started.iteration

    @property
    def heard(self) -> bool:
        """It came to its own end, or was cut off only after it had left a new output and called its phase complete."""
        if self.ended is None:
            return False
        proposal, going_on = self.ended.proposal, ("running", self.started.phase)
        done = self.ended.output == "fresh" and proposal and (proposal.state, proposal.phase) != going_on
        return self.ended.ending in ("ended", "left") or bool(done)


def sessions_of(records: Sequence[Record]) -> list[Told]:
    """Every session that was begun, in order."""
    found: list[Told] = []
    run = 1
    for record in records:
        match record:
            case RunStarted():
                run = record.run
            case SessionStarted():
                unfinished = found and found[-1].ended is None and found[-1].run == run
                assert not unfinished, "a session was begun before the last one was looked at"
                found.append(Told(run, record, None))
            case SessionEnded():
                assert found, "an end without a beginning"
                assert found[-1].ended is None, "one session ended twice"
                found[-1] = Told(found[-1].run, found[-1].started, record)
    numbers = [told.number for told in found]
    assert len(set(numbers)) == len(numbers), f"a session's number was used twice: {numbers}"
    return found


@dataclass
class Way:
    """Follows a task through its workflow and refuses every step that nobody allowed."""

    definitions: Definitions
    workflow: str = ""
    position: Position = field(default_factory=lambda: Position(()))
    gate: Gate | None = None
    verdict: tuple[Gate, Answer] | None = None
    ended: SessionEnded | None = None
    over: bool = False
    sent_back: int = 0  # unseen, in this run
    claimed: set[str] = field(default_factory=set)  # what the folder said is done: judged once more, without a session
    answered: list[tuple[Gate, Answer]] = field(default_factory=list)

    @property
    def phase(self) -> Phase:
        return current(self.definitions, self.position)

    def follow(self, records: Sequence[Record]) -> Way:
        for record in records:
            self._step(record)
        return self

    def _step(self, record: Record) -> None:
        match record:
            case Begun():
                self.workflow = record.workflow
                self.claimed = set(record.claimed or ([record.phase] if record.review else []))
                self._go(record.path)
                self.over = record.over
            case RunStarted():
                self.claimed = set()
                self._go(record.path)
                self.over, self.sent_back = False, 0
            case SessionStarted():
                self._nothing_stands_in_the_way()
                assert record.phase == self.phase.id
                self.gate = self.verdict = self.ended = None
                self.claimed = set()
            case SessionEnded():
                self.ended = record
            case Gate():
                self._nothing_stands_in_the_way()
                assert record.phase == self.phase.id
                if record.reason == "review":
                    self._complete()
                self.gate, self.verdict = record, None
            case Answer():
                assert self.gate is not None, "an answer without a gate"
                verdict = self.gate, record
                self.answered.append(verdict)
                self.sent_back += (self.gate.reason, record.by) == ("back", "auto")
                self.verdict = None if self.gate.reason in _STANDING and record.choice == "continue" else verdict
                self.gate = None
            case Moved():
                self._nothing_stands_in_the_way()
                assert [tuple(segment) for segment in record.path] == list(self._expected().path)
                self._go(record.path)
            case Finished():
                self._finish()
            case Cancelled():
                assert self.gate is not None, "cancelled without a gate"
                self.over = True

    def _go(self, path: list[tuple[str, int]]) -> None:
        self.position = Position(tuple(Segment(*segment) for segment in path))
        self.gate = self.verdict = self.ended = None
        if self.phase.id in self.claimed:
            self.claimed.remove(self.phase.id)
            self.ended = _adopted(self.phase.id)

    def _nothing_stands_in_the_way(self) -> None:
        assert not self.over, "something happened after the end"
        assert self.gate is None or self.gate.reason in _STANDING, f"nobody answered the gate of {self.gate.phase}"

    def _expected(self) -> Position:
        """Where a human sent the task, or where a phase without a gate leads."""
        if self.verdict is None:
            assert not self.phase.gate, f"{self.phase.id} was left without a review"
            self._complete()
            return advance(self.definitions, self.position)[0]
        gate, answer = self.verdict
        if answer.choice == "loop":
            return loop(self.definitions, self.position)
        if answer.choice == "redo":
            path = locate(self.definitions, self.workflow, answer.phase or gate.phase, self.position.path)
            assert path
            return Position(path)
        assert answer.choice == "continue"
        assert gate.onward == "next"
        return advance(self.definitions, self.position)[0]

    def _finish(self) -> None:
        self._nothing_stands_in_the_way()
        assert advance(self.definitions, self.position)[1], "finished before the last phase"
        if self.verdict is None and self.ended is not None:
            self._complete()
        self.over = True

    def _complete(self) -> None:
        """The phase's output is new, and STATE.json said what an agent may say at the end of this phase."""
        assert self.ended is not None
        assert self.phase.output is None or self.ended.output == "fresh"
        after, over = advance(self.definitions, self.position)
        following = DONE if over else current(self.definitions, after).id
        may_say = {("completed", self.phase.id), ("completed", DONE)} if over else set()
        may_say |= set() if over else {("paused", following), ("running", following)}
        may_say |= set() if self.phase.repeats else {("paused", self.phase.id)}
        assert self.ended.proposal is not None
        assert (self.ended.proposal.state, self.ended.proposal.phase) in may_say


def _adopted(phase: str) -> SessionEnded:
    """A task somebody else paused: its phase is complete."""
    return SessionEnded(ending="ended", output="fresh", proposal=Proposal(state="paused", phase=phase))
