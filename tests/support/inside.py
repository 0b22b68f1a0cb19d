"""A marathon in this process: opened as the command line does it, on real files; its life, agent, human and time are
handed in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from marathon.agents.base import Agent
from marathon.core import life as lives
from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import Definitions
from marathon.core.events import Event
from marathon.core.records import Record
from marathon.core.steps import Now
from marathon.process.signals import Signals
from marathon.runner.loop import run as run_marathon
from marathon.runner.marathon import RunOptions
from marathon.runner.marathon import open as open_marathon
from marathon.store.file_store import FileStore
from marathon.store.home import home_of
from marathon.store.task import Task
from marathon.surfaces.base import GateSurface
from tests.support.mortal import Killed, Life, living


class MortalStore(FileStore):
    """Dies before it writes a record, too, and is then known for the record it owes."""

    def __init__(self, task: Task, clock: Callable[[], datetime], life: Life) -> None:
        super().__init__(task, clock)
        self._life = life
        self.owes: Record | None = None

    def append(self, record: Record) -> Record:
        self.owes = record
        self._life.change()
        self._life.reach(f"before {record.type}")
        self.owes = None
        stored = super().append(record)
        self._life.reach(f"after {record.type}")
        return stored


@dataclass(frozen=True)
class Place:
    """What stays the same from one start of the runner to the next."""

    project: Path
    task: Path
    states: Path
    definitions: Definitions
    workflow: str
    clock: Callable[[], datetime]
    now: Callable[[], Now]

    @property
    def course(self) -> Course:
        return Phases(self.definitions, self.workflow)


@dataclass(frozen=True)
class Start:
    """What one start of the runner is given."""

    agent: Agent
    surface: GateSurface
    life: Life
    emit: Callable[[Event], None]
    feedback: str | None = None
    auto_approve: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Ran:
    """How it ended: an exit code, or None if it was killed; the record it was killed at, if it was at one."""

    code: int | None
    life: lives.Life | None
    owed: Record | None


def run(place: Place, start: Start, course: Course | None = None) -> Ran:
    """As `pi-marathon --task` does it."""
    store: MortalStore | None = None

    try:
        with living(start.life), Signals() as signals:
            task = Task.open(place.task)
            store = MortalStore(task, place.clock, start.life)
            options = RunOptions(
                task=task,
                shown=place.task,
                limits=start.limits,
                feedback=start.feedback,
                auto_approve=start.auto_approve,
                adopt=True,
            )
            opened = open_marathon(
                options,
                place.project,
                start.agent,
                start.surface,
                store,
                course or place.course,
                signals=signals,
                show=start.emit,
                states=place.states,
                trusted=place.task.parent / "agreed",
                codes=place.task.parent / "codes",
                clock=place.clock,
                now=place.now,
            )
            with opened as marathon:
                code = run_marathon(marathon)
                return Ran(code, marathon.life, None)
    except Killed:
        return Ran(None, None, store.owes if store else None)
    finally:
        close_all_below(place.task)
        close_all_below(home_of(place.task))


def close_all_below(folder: Path) -> None:
    """As the kernel does it for the dead: one killed while it made its lock had no chance to close it."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder)):
                os.close(int(fd))
