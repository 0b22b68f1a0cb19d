"""Reads the runner's record of a task: one line per record, of which a crash may have cut off the last."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from marathon.core.records import Begun, Record, Torn, parse_record
from marathon.core.text import clean, one_line
from marathon.errors import TaskInvalid
from marathon.store.files import disk_errors, read_regular

_NAMED = 5  # records that a sentence names


class Damaged(TaskInvalid):
    """A line of the journal is no record, and no crash explains it."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path} line {line} is damaged: {reason}. {repair_advice(path)}")
        self.line = line
        self.reason = reason


def repair_advice(journal: Path) -> str:
    task = shlex.quote(str(journal.parents[1]))
    return f"To see what would be lost, and to repair it after a yes: pi-marathon repair {task}"


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


def task_id(records: list[Record]) -> str:
    return next((record.id for record in records if isinstance(record, Begun)), "")


def difference(recorded: bytes, found: bytes) -> str:
    """How a journal that was found differs from the one that the runner recorded."""
    ours, theirs = lines_of(recorded), lines_of(found)
    changed = next((at for at, (one, other) in enumerate(zip(ours, theirs, strict=False), 1) if one != other), None)
    if not found:
        return "it is missing or empty"
    if changed is not None:
        return f"line {changed} is not what the runner wrote"
    if len(theirs) > len(ours):
        return f"it has {_named(theirs[len(ours) :])} more than the runner wrote"
    return f"it has {_named(ours[len(theirs) :])} less than the runner wrote"


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


def _named(lines: list[bytes]) -> str:
    names = [line_name(line).split(" ")[0] for line in lines[:_NAMED]]
    named = ", ".join([*names, *(["…"] if len(lines) > _NAMED else [])])
    return f"{len(lines)} {'line' if len(lines) == 1 else 'lines'} ({named})"


def _is_cut_off(error: ValueError) -> bool:
    return isinstance(error, json.JSONDecodeError | UnicodeDecodeError)


def _reason(error: ValueError) -> str:
    from pydantic import ValidationError

    from marathon.core.validation import first_mistake

    if _is_cut_off(error):
        return "it is not JSON"
    return clean(first_mistake(error) if isinstance(error, ValidationError) else str(error))
