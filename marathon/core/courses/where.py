"""Where a task stands in its course, in the form that people and gates need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from marathon.core.courses.workflow import DONE, Phase


class Review(NamedTuple):
    """A phase that passed its review, who let it pass, and the file that was reviewed."""

    phase: str
    by: str
    output: str | None

    @property
    def by_human(self) -> bool:
        return self.by != "auto"


@dataclass(frozen=True)
class Where:
    phase: Phase | None  # the work at hand; None where the definition no longer fits the journal
    next_phase: str = DONE
    breadcrumb: str = ""
    phases: tuple[str, ...] = ()  # where a human may send the task, in order
    steps: tuple[str, ...] = ()  # every step of the whole workflow, in order; the same phase may come more than once
    at: int = 0  # which of them is at hand
    iteration: int = 0  # where the course counts otherwise than by sessions
    round: int = 1  # how often this phase has been worked on
    can_loop: bool = False
    reviews: tuple[Review, ...] = ()  # that were passed in this run and still stand
    problem: str = ""  # why the definition no longer fits the journal
