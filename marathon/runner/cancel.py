"""Ends the run of a task for good while no runner has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from marathon.core.courses.base import Course
from marathon.core.records import Cancelled
from marathon.core.state import StateInvalid
from marathon.runner.journal import Journal
from marathon.store.base import Store
from marathon.store.lock import last_holder
from marathon.store.task import Task


def cancel_at_rest(store: Store, course: Course, task: Task, shown: Path, clock: Callable[[], datetime]) -> None:
    """Take the lease, leave STATE.json paused, and record it. TaskBusy if a runner has the task after all."""
    before = last_holder(task.lock_path)  # its command stays the one that continues
    runner, resume, project = (before.runner, before.resume, before.cwd) if before else ("", "", "")
    lease = store.lease(shown, runner, resume, Path(project))
    try:
        journal = Journal(store, course, task)
        if journal.life.finished or journal.life.cancelled:
            return
        with contextlib.suppress(StateInvalid):
            if state := task.read_state():
                task.write_state(state.written(clock(), state="paused"))
        journal.record(Cancelled())
    finally:
        lease.release()
