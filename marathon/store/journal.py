"""Reads the runner's record of a task: one line per record, of which a crash may have cut off the last."""

from __future__ import annotations

import json
from pathlib import Path

from marathon.core.records import Record, Torn, parse_record
from marathon.core.text import clean, one_line
from marathon.errors import TaskInvalid
from marathon.store.files import disk_errors, read_regular


class Damaged(TaskInvalid):
    """A line of the journal is no record, and no crash explains it."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        cure = "To see what would be lost, and to repair it after a yes: pi-marathon repair TASK"
        super().__init__(f"{path} line {line} is damaged: {reason}. {cure}")
        self.line = line


def read_journal(path: Path) -> list[Record]:
    """Every record that counts. A line that a crash cut off does not count."""
    return records_in(path, journal_bytes(path))[0]


def journal_bytes(path: Path) -> bytes:
    with disk_errors("read", path):
        return read_regular(path) or b""


def records_in(path: Path, data: bytes) -> tuple[list[Record], int]:
    """The records that count, and how many bytes a crash left behind the last of them.

    A record `torn` says that the line before it was cut off. The lines are read from the end, because a `torn` that
    was itself cut off says nothing. A crash leaves no whole JSON that is not a record: that is damage.
    """
    *lines, tail = data.split(b"\n")
    records: list[Record] = []
    left_over = len(tail)
    next_record: Record | None = None
    for number, line in reversed(list(enumerate(lines, start=1))):
        record: Record | None = None
        if not isinstance(next_record, Torn):
            try:
                record = parse_record(line)
            except ValueError as error:
                if next_record is not None or not _is_cut_off(error):
                    raise Damaged(path, number, _reason(error)) from error
        if record is not None:
            records.append(record)
        elif not records:
            left_over += len(line) + 1
        next_record = record
    return records[::-1], left_over


def good_part(path: Path, data: bytes) -> bytes:
    """Everything before the first damaged line."""
    while True:
        try:
            records_in(path, data)
        except Damaged as damage:
            data = b"".join(line + b"\n" for line in lines_of(data)[: damage.line - 1])
        else:
            return data


def lines_of(data: bytes) -> list[bytes]:
    """The lines as they stand between newlines. Others, such as U+2028, may stand in a text."""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def line_name(line: bytes) -> str:
    """A line for a human: the kind of record and its time, or how the line begins."""
    try:
        raw = json.loads(line)
        return one_line(f"{raw['type']} {raw.get('at', '')}".rstrip(), 60)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return one_line(clean(line[:60].decode("utf-8", "replace")), 60) or "an empty line"


def _is_cut_off(error: ValueError) -> bool:
    return isinstance(error, json.JSONDecodeError | UnicodeDecodeError)


def _reason(error: ValueError) -> str:
    from pydantic import ValidationError

    from marathon.core.validation import first_mistake

    if _is_cut_off(error):
        return "it is not JSON"
    return clean(first_mistake(error) if isinstance(error, ValidationError) else str(error))
