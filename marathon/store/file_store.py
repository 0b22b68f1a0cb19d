"""The store in a task's own directory: `.marathon/journal.jsonl`, `lock` and `inbox/`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from marathon.core.records import Record
from marathon.store.inbox import Kind, Message
from marathon.store.journal import Journal
from marathon.store.lock import TaskLock
from marathon.store.task import Task


class FileStore:
    def __init__(self, task: Task, clock: Callable[[], datetime]) -> None:
        self._task = task
        self._journal = Journal(task.journal_path, clock)

    def lease(self, shown: Path, runner: str, resume: str, project: Path) -> TaskLock:
        self._task.prepare()
        return TaskLock(self._task.lock_path, shown, runner, resume, project)

    def replay(self) -> list[Record]:
        """For the holder of the lease. Others use read_journal, which changes nothing."""
        return self._journal.replay()

    def append(self, record: Record) -> Record:
        return self._journal.append(record)

    def messages(self) -> list[Message]:
        return self._task.inbox.messages()

    def put(self, kind: Kind, **fields: Any) -> str:
        return self._task.inbox.put(kind, **fields)

    def remove(self, message_id: str) -> None:
        self._task.inbox.remove(message_id)
