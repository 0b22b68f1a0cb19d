"""Ends the run of a task for good while no runner has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from marathon.core.courses.base import Course
from marathon.core.records import Cancelled
from marathon.core.state import StateInvalid
from marathon.runner.journal import at_rest
from marathon.store.base import Store
from marathon.store.task import Task


def cancel_at_rest(store: Store, course: Course, task: Task, shown: Path, clock: Callable[[], datetime]) -> None:
    """Take the lease, leave STATE.json paused, and record it. TaskBusy if a runner has the task after all."""
    with at_rest(store, course, task, shown) as journal:
        if journal.life.finished or journal.life.cancelled:
            return
        with contextlib.suppress(StateInvalid):
            if state := task.read_state():
                task.write_state(state.written(clock(), state="paused"))
        journal.record(Cancelled())
