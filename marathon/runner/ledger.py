"""The journal and the progress it amounts to, kept in step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from marathon.core.journal import Progress, apply
from marathon.core.records import Record
from marathon.disk.journal import Journal
from marathon.disk.task import Task


class Ledger:
    """Everything recorded goes through here: to disk first, then into the progress."""

    def __init__(self, task: Task, clock: Callable[[], datetime]) -> None:
        self._journal = Journal(task.journal_path, clock)
        self.progress = Progress()
        for record in self._journal.replay():
            self.progress = apply(self.progress, record)

    def record(self, record: Record) -> Progress:
        self.progress = apply(self.progress, self._journal.append(record))
        return self.progress

    def current(self) -> Progress:
        return self.progress

    def close(self) -> None:
        self._journal.close()
