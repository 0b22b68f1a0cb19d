"""Where a task stands in its course, in the form that people and gates need."""

from __future__ import annotations

from dataclasses import dataclass

from marathon.core.courses.workflow import DONE, Phase


@dataclass(frozen=True)
class Where:
    phase: Phase | None  # the work at hand; None where the definition no longer fits the journal
    next_phase: str = DONE
    breadcrumb: str = ""
    phases: tuple[str, ...] = ()  # where a human may send the task, in order
    round: int = 1  # how often this phase has been worked on
    can_loop: bool = False
    problem: str = ""  # why the definition no longer fits the journal
