"""The rounds of a review: each version that a human was shown, and each that a human made, with what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from marathon.core.comments import Comment
from marathon.core.gates import POLICIES
from marathon.core.records import (
    Answer,
    Begun,
    Checked,
    CheckResult,
    Gate,
    HandEdited,
    Record,
    RunStarted,
    SessionEnded,
    SessionStarted,
)


@dataclass(frozen=True)
class Round:
    """One version of what a phase writes."""

    run: int
    phase: str
    number: int
    by: Literal["agent", "human"] = "agent"
    nth: int = 1  # of the human's versions in this round
    at: str = ""
    gate: str = ""  # the token of its gate
    kept: str = ""  # the copy of a human's version, below the task directory
    digest: str = ""  # by which a copy is known to be this version; an older journal does not tell
    file: str = ""  # what the human edited
    comments: int = 0  # how many there were before it was shown
    sessions: int = 0  # that led to it
    seconds: float = 0
    cost: float = 0
    checks: tuple[CheckResult, ...] = ()
    verdict: str = ""  # the choice that answered its gate; empty while the gate is open
    answered_by: str = ""
    feedback: str = ""

    @property
    def label(self) -> str:
        """As a human names it within its run: 2, or 2h for an edit by hand, 2h2 for the next one."""
        return str(self.number) + ("" if self.by == "agent" else "h" if self.nth == 1 else f"h{self.nth}")

    @property
    def looked_at(self) -> bool:
        """Whether a human saw it, and not only --auto-approve."""
        return self.by == "human" or self.answered_by not in ("", "auto")


_NOTHING = Round(0, "", 0)


def rounds_of(records: Iterable[Record]) -> list[Round]:
    """Every round of every run, in order."""
    found: list[Round] = []
    run, numbers = 0, Counter[tuple[int, str]]()
    work = _NOTHING  # the sessions of a phase since its last round
    gate: Gate | None = None
    for record in records:
        match record:
            case Begun() | RunStarted():
                run = record.run if isinstance(record, RunStarted) else 1
                work, gate = _NOTHING, None
            case SessionStarted():
                work, gate = work if work.phase == record.phase else replace(_NOTHING, phase=record.phase), None
            case SessionEnded():
                cost = work.cost + (record.usage.cost if record.usage else 0)
                work = replace(work, sessions=work.sessions + 1, seconds=work.seconds + record.seconds, cost=cost)
            case Checked():
                work = replace(work, checks=tuple(record.results))
            case Gate():
                gate = record
                if POLICIES[record.reason].review_round:
                    number = numbers[run, record.phase] = numbers[run, record.phase] + 1
                    made = replace(work, run=run, phase=record.phase, number=number, digest=record.output)
                    found.append(replace(made, at=record.at, gate=record.token, comments=record.comments))
                    work = _NOTHING
            case HandEdited() if gate and gate.token == record.gate:
                found = [each for each in found if each.by == "agent" or each.gate != record.gate]
                number = numbers[run, gate.phase] + (0 if POLICIES[gate.reason].review_round else 1)
                found += _by_hand(found, record, Round(run, gate.phase, number, "human", at=record.at, gate=gate.token))
            case Answer() if gate:
                for at, each in enumerate(found):
                    if each.gate == gate.token:
                        said = record.text
                        found[at] = replace(each, verdict=record.choice, answered_by=record.by, feedback=said)
                gate = None
    return found


def _by_hand(found: list[Round], record: HandEdited, made: Round) -> list[Round]:
    place = (made.run, made.phase, made.number, made.by)
    earlier = sum((each.run, each.phase, each.number, each.by) == place for each in found)
    numbered = enumerate(record.edits, start=earlier + 1)
    return [replace(made, nth=nth, kept=edit.kept, file=edit.name, digest=edit.digest) for nth, edit in numbered]


def comments_on(found: Sequence[Round], comments: Iterable[Comment]) -> dict[Round, list[Comment]]:
    """The comments on each round: those made after it was shown and before the next one was."""
    by_round: dict[Round, list[Comment]] = {each: [] for each in found}
    for before, comment in enumerate(comments):
        for last in [each for each in found if each.by == "agent" and each.comments <= before][-1:]:
            by_round[last].append(comment)
    return by_round
