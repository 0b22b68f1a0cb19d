"""A course decides how a task continues. The engine does the rest: sessions, gates, waits, budgets, recovery.

A course is pure. To add one, subclass Course, and name it in courses/table.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from marathon.core.budgets import Limits
from marathon.core.courses.where import Where
from marathon.core.life import Life
from marathon.core.records import Begun, Gate, Record, RunStarted, SessionEnded
from marathon.core.steps import RunSession, Step


class Course(ABC):
    """What every course answers. The methods with a body have a usual answer."""

    name: ClassVar[str]

    @abstractmethod
    def begin(self) -> Begun:
        """The first record of a new task."""

    def apply(self, before: Life, now: Life, record: Record) -> Any:
        """The course's own state (`life.own`) after one more record."""
        return now.own

    @abstractmethod
    def where(self, life: Life) -> Where:
        """Where the task stands."""

    @abstractmethod
    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        """What follows from a session's end. With None, the rows that all tasks share decide."""

    def session(self, life: Life, guidance: tuple[str, ...]) -> Step:
        """The next session."""
        phase = self.where(life).phase
        assert phase is not None
        return RunSession(phase, guidance)

    def answered(self, life: Life) -> Step:
        """What follows from the human's answer to a gate (`life.answered`)."""
        return self.session(life, life.guidance)

    def pinned(self, life: Life) -> Course:
        """This course by the definition that the task keeps, whatever the files say now."""
        return self

    def misfit(self, life: Life) -> Step | None:
        """What to do where the journal and the course's definition no longer fit."""
        return None

    def lacking(self, life: Life) -> Gate | None:
        """A gate of the course's own that closes by itself once its cause is gone."""
        return None

    def hint(self, life: Life) -> tuple[str, ...]:
        """What the next session of the same work is told, although nothing was wrong."""
        return ()

    def outputs(self, life: Life) -> list[str]:
        """The files that a restart with feedback archives."""
        return []

    def restart(self, life: Life) -> RunStarted:
        """The first record of a new run."""
        return RunStarted(run=life.run + 1, path=[], phase=life.phase)
