"""The store in files: journal, lock and inbox in the task's home, outside of the project."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from marathon.core.records import Record, Torn
from marathon.core.text import utc
from marathon.errors import DiskFailed
from marathon.store.files import PRIVATE_FILE, append_durable, disk_errors, read_regular, unused_name, write_atomic
from marathon.store.inbox import Kind, Message
from marathon.store.journal import good_part, journal_bytes, records_in
from marathon.store.lock import Holder, TaskLock, last_holder
from marathon.store.task import Task

_STAMP = "%Y%m%d-%H%M%S"


class FileStore:
    """For the holder of the lease. Others use read_journal and the task's inbox."""

    def __init__(self, task: Task, clock: Callable[[], datetime], *, adopt: bool = False) -> None:
        self._task = task
        self._home = task.home
        self._clock = clock
        self._may_adopt = adopt  # a human said that a task from elsewhere may be taken over
        self._size = 0  # of the journal
        self._last = 0  # the number of the last record
        self._news: list[str] = []

    def lease(self, shown: Path, runner: str, resume: str, project: Path, boot: str = "") -> TaskLock:
        if said := self._home.settle(shown, adopt=self._may_adopt):
            self._news.append(said)
        return TaskLock(self._home.lock, self._task.folder, shown, runner, resume, project, boot)

    def last_holder(self) -> Holder | None:
        """The runner that last had the task."""
        return last_holder(self._home.lock)

    def replay(self) -> list[Record]:
        """What is there already, after closing a line that a crash left torn."""
        self._show()
        data = journal_bytes(self._home.journal)
        records, torn = records_in(self._home.journal, data)
        self._size = len(data)
        self._last = max((record.n for record in records), default=0)
        if torn:
            records.append(self._append(Torn(bytes=torn), before=b"" if data.endswith(b"\n") else b"\n"))
        return records

    def append(self, record: Record) -> Record:
        return self._append(record, before=b"")

    def news(self) -> list[str]:
        news, self._news = self._news, []
        return news

    def messages(self) -> list[Message]:
        return self._task.inbox.messages()

    def put(self, kind: Kind, **fields: Any) -> str:
        return self._task.inbox.put(kind, **fields)

    def remove(self, message_id: str) -> None:
        self._task.inbox.remove(message_id)

    def _append(self, record: Record, before: bytes) -> Record:
        path = self._home.journal
        if not self._task.exists():
            raise DiskFailed(f"Could not write {path}: the task directory is gone.")
        self._show()
        self._take_off_what_others_added()
        stamped = replace(record, n=self._last + 1, at=utc(self._clock()))
        line = before + stamped.to_json().encode("utf-8", "replace") + b"\n"
        append_durable(path, line, mode=PRIVATE_FILE)
        self._size += len(line)
        self._last = stamped.n
        return stamped

    def _take_off_what_others_added(self) -> None:
        """A process of the same user can write here. While a runner lives, its own word counts."""
        path, found = self._home.journal, _size_of(self._home.journal)
        if found == self._size:
            return
        if found < self._size:
            lost = f"something else cut or removed it (it has {found} bytes, and the runner wrote {self._size})"
            raise DiskFailed(f"Could not write {path}: {lost}. Nothing was added.")
        added = read_regular(path, offset=self._size) or b""
        kept = unused_name(path.with_name(f"{path.name}.added-{self._clock():{_STAMP}}"))
        write_atomic(kept, added)
        with disk_errors("cut", path):
            os.truncate(path, self._size)
        self._news.append(f"Something other than the runner added to {path.name}. It counts for nothing: see {kept}")

    def _show(self) -> None:
        if said := self._home.show(f"{self._clock():{_STAMP}}"):
            self._news.append(said)

    # Repair

    def repaired(self) -> tuple[bytes, bytes] | None:
        """The journal as it is found, and up to its last good record. None if there is nothing to repair."""
        found = journal_bytes(self._home.journal)
        good = good_part(self._home.journal, found)
        return None if found == good else (found, good)

    def restore(self, journal: bytes) -> str:
        """Replace the journal. Returns the name under which the old file is kept."""
        path = self._home.journal
        kept = unused_name(path.with_name(f"{path.name}.before-repair-{self._clock():{_STAMP}}"))
        with disk_errors("set aside", path):
            os.link(path, kept)
        write_atomic(path, journal)
        return kept.name


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
