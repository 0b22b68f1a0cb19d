"""The store in a task's own directory: `.marathon/journal.jsonl`, `lock` and `inbox/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from marathon.core.records import Record, Torn
from marathon.core.text import utc
from marathon.store.files import PRIVATE_FILE, append_durable
from marathon.store.inbox import Kind, Message
from marathon.store.journal import journal_bytes, records_in
from marathon.store.lock import TaskLock
from marathon.store.task import Task


class FileStore:
    """For the holder of the lease. Others use read_journal and the task's inbox."""

    def __init__(self, task: Task, clock: Callable[[], datetime]) -> None:
        self._task = task
        self._clock = clock
        self._last = 0  # the number of the last record

    def lease(self, shown: Path, runner: str, resume: str, project: Path) -> TaskLock:
        self._task.prepare()
        return TaskLock(self._task.lock_path, shown, runner, resume, project)

    def replay(self) -> list[Record]:
        """What is there already, after closing a line that a crash cut off."""
        data = journal_bytes(self._task.journal_path)
        records, torn = records_in(self._task.journal_path, data)
        self._last = max((record.n for record in records), default=0)
        if torn:
            records.append(self._append(Torn(bytes=torn), before=b"" if data.endswith(b"\n") else b"\n"))
        return records

    def append(self, record: Record) -> Record:
        return self._append(record, before=b"")

    def _append(self, record: Record, before: bytes) -> Record:
        stamped = replace(record, n=self._last + 1, at=utc(self._clock()))
        line = before + stamped.to_json().encode("utf-8", "replace") + b"\n"
        append_durable(self._task.journal_path, line, mode=PRIVATE_FILE)
        self._last = stamped.n
        return stamped

    def messages(self) -> list[Message]:
        return self._task.inbox.messages()

    def put(self, kind: Kind, **fields: Any) -> str:
        return self._task.inbox.put(kind, **fields)

    def remove(self, message_id: str) -> None:
        self._task.inbox.remove(message_id)
