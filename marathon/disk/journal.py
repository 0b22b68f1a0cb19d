"""The runner's append-only record on disk: a line a record, each on disk before anything follows from it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from marathon.core.records import Record, Torn, parse_record
from marathon.core.state import utc
from marathon.disk.files import PRIVATE_FILE, disk_errors, sync_directory, write_all
from marathon.errors import TaskInvalid


def read_journal(path: Path) -> Iterator[Record]:
    """Every record. A line cut off by a crash is passed over: at the end, or where the next record says so."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        broken: int | None = None
        for number, line in enumerate(file, start=1):
            try:
                record = parse_record(line) if line.endswith(b"\n") else None
            except ValueError:
                record = None
            if broken is not None and not isinstance(record, Torn):
                raise TaskInvalid(
                    f"{path} line {broken} is damaged. Move the file aside to start the task anew from its STATE.json."
                )
            broken = None
            if record is None:
                broken = number
            else:
                yield record


class Journal:
    """The one writer, for as long as the task's lock is held."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._path = path
        self._clock = clock
        with disk_errors("open", path):
            existed = path.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(path, flags, PRIVATE_FILE)
            if not existed:
                sync_directory(path.parent)
        self._last = 0

    def replay(self) -> Iterator[Record]:
        """What is there already, after closing a line that a crash cut off."""
        for record in read_journal(self._path):
            self._last = max(self._last, record.n)
            yield record
        torn = self._unfinished()
        if torn:
            yield self._write(b"\n", Torn(bytes=torn))

    def append(self, record: Record) -> Record:
        """Number, stamp and store a record; it is on disk when this returns."""
        return self._write(b"", record)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, before: bytes, record: Record) -> Record:
        stamped = record.model_copy(update={"n": self._last + 1, "at": utc(self._clock())})
        line = before + stamped.model_dump_json(exclude_defaults=False).encode() + b"\n"
        with disk_errors("append to", self._path):
            size = os.fstat(self._fd).st_size
            try:
                write_all(self._fd, line)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, size)
                raise
            os.fdatasync(self._fd)
        self._last = stamped.n
        return stamped

    def _unfinished(self) -> int:
        """How many bytes lie behind the last newline."""
        size = os.fstat(self._fd).st_size
        if size == 0:
            return 0
        tail = os.pread(self._fd, min(size, 1 << 20), max(0, size - (1 << 20)))
        return len(tail) - (tail.rfind(b"\n") + 1)
