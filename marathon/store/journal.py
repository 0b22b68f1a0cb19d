"""The runner's append-only record on disk: one line per record, synced before anything follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from marathon.core.names import utc
from marathon.core.records import Record, Torn, parse_record
from marathon.errors import TaskInvalid
from marathon.store.files import PRIVATE_FILE, append_durable, disk_errors, read_regular


def read_journal(path: Path) -> list[Record]:
    """Every record that counts. A line that a crash cut off does not count."""
    return _records(path, _bytes(path))[0]


class Journal:
    """The one writer, for as long as the task's lock is held."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._path = path
        self._clock = clock
        self._last = 0

    def replay(self) -> list[Record]:
        """What is there already, after closing a line that a crash cut off."""
        data = _bytes(self._path)
        records, torn = _records(self._path, data)
        self._last = max((record.n for record in records), default=0)
        if torn:
            records.append(self.append(Torn(bytes=torn), before=b"" if data.endswith(b"\n") else b"\n"))
        return records

    def append(self, record: Record, *, before: bytes = b"") -> Record:
        """Number, stamp and store a record. The record is on disk when this returns."""
        stamped = replace(record, n=self._last + 1, at=utc(self._clock()))
        line = before + stamped.to_json().encode("utf-8", "replace") + b"\n"
        append_durable(self._path, line, mode=PRIVATE_FILE)
        self._last = stamped.n
        return stamped


def _bytes(path: Path) -> bytes:
    with disk_errors("read", path):
        return read_regular(path) or b""


def _records(path: Path, data: bytes) -> tuple[list[Record], int]:
    """The records that count, and how many bytes a crash left behind the last of them.

    A record `torn` says that the line before it was cut off. The lines are read from the end, because a `torn` that
    was itself cut off says nothing.
    """
    *lines, tail = data.split(b"\n")
    records: list[Record] = []
    left_over = len(tail)
    next_record: Record | None = None
    for number, line in reversed(list(enumerate(lines, start=1))):
        record = None if isinstance(next_record, Torn) else _parsed(line)
        if record is not None:
            records.append(record)
        elif next_record is not None and not isinstance(next_record, Torn):
            advice = "Move the file aside to start the task anew from its STATE.json."
            raise TaskInvalid(f"{path} line {number} is damaged. {advice}")
        elif not records:
            left_over += len(line) + 1
        next_record = record
    return records[::-1], left_over


def _parsed(line: bytes) -> Record | None:
    try:
        return parse_record(line)
    except ValueError:
        return None
