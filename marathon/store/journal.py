"""The runner's append-only record on disk: a line a record, appended and synced before anything follows from it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from marathon.core.records import Record, Torn, parse_record
from marathon.core.text import utc
from marathon.errors import TaskInvalid
from marathon.store.files import PRIVATE_FILE, disk_errors, read_regular, sync_directory, write_all


def read_journal(path: Path) -> list[Record]:
    """Every record. A line cut off by a crash is passed over: at the end, or where the next record says so."""
    with disk_errors("read", path):
        return _sort_out(path, read_regular(path) or b"")[0]


def _sort_out(path: Path, data: bytes) -> tuple[list[Record], int]:
    """The records that count, and how many bytes were left behind the last of them. From the end, because a line is
    cut off if the next record that counts says so: one that was itself cut off says nothing."""
    *lines, tail = data.split(b"\n")
    records: list[Record] = []
    left_over = len(tail)
    is_torn, goes_on = False, False
    for number, line in reversed(list(enumerate(lines, start=1))):
        record = None if is_torn else _parsed(line)
        if record is None and goes_on:
            advice = "Move the file aside to start the task anew from its STATE.json."
            raise TaskInvalid(f"{path} line {number} is damaged. {advice}")
        if record is not None:
            records.append(record)
        elif not records:
            left_over += len(line) + 1
        is_torn = isinstance(record, Torn)
        goes_on = record is not None and not is_torn
    return records[::-1], left_over


def _parsed(line: bytes) -> Record | None:
    try:
        return parse_record(line)
    except ValueError:
        return None


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

    def replay(self) -> list[Record]:
        """What is there already, after closing a line that a crash cut off."""
        with disk_errors("read", self._path):
            data = read_regular(self._path) or b""
        records, torn = _sort_out(self._path, data)
        self._last = max((record.n for record in records), default=0)
        if torn:
            records.append(self._write(b"" if data.endswith(b"\n") else b"\n", Torn(bytes=torn)))
        return records

    def append(self, record: Record) -> Record:
        """Number, stamp and store a record. It is on disk when this returns."""
        return self._write(b"", record)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, before: bytes, record: Record) -> Record:
        stamped = replace(record, n=self._last + 1, at=utc(self._clock()))
        line = before + stamped.to_json().encode("utf-8", "replace") + b"\n"
        with disk_errors("append to", self._path):
            size = os.fstat(self._fd).st_size
            try:
                write_all(self._fd, line)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, size)
                raise
            os.fsync(self._fd)
        self._last = stamped.n
        return stamped
