"""Reads the runner's record of a task: one line per record, of which a crash may have cut off the last."""

from __future__ import annotations

from pathlib import Path

from marathon.core.records import Record, Torn, parse_record
from marathon.errors import TaskInvalid
from marathon.store.files import disk_errors, read_regular


def read_journal(path: Path) -> list[Record]:
    """Every record that counts. A line that a crash cut off does not count."""
    return records_in(path, journal_bytes(path))[0]


def journal_bytes(path: Path) -> bytes:
    with disk_errors("read", path):
        return read_regular(path) or b""


def records_in(path: Path, data: bytes) -> tuple[list[Record], int]:
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
