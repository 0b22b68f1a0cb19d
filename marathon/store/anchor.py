"""Keeps a copy of a task's journal outside of the project, where `git clean` and most agents do not reach.

Every record goes into the copy first and into the task's own file after that. So a runner that is killed between the
two leaves the copy at most one record ahead. Every other difference means that something else wrote the task's file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from marathon.store.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    append_durable,
    disk_errors,
    read_regular,
    unused_name,
    write_atomic,
)
from marathon.store.journal import records_in, task_id

_JOURNAL, _PLACE = "journal.jsonl", "place"


class Anchor:
    """The folder of one task, found by the path of the task directory."""

    def __init__(self, anchors: Path, task: Path) -> None:
        self._anchors = anchors
        self.task = task
        self.folder = anchors / hashlib.sha256(os.fsencode(task)).hexdigest()[:32]
        self.lock_path = self.folder / "lock"
        self.journal_path = self.folder / _JOURNAL

    def prepare(self) -> None:
        """Make the folder. A power cut that takes it away again costs a question, so nothing is flushed here."""
        with disk_errors("create", self.folder):
            for folder in reversed([self.folder, *self.folder.parents]):
                if not folder.is_dir():
                    folder.mkdir(PRIVATE_DIR, exist_ok=True)
        if not (self.folder / _PLACE).exists():
            write_atomic(self.folder / _PLACE, os.fsencode(self.task), durable=False)

    def read(self) -> bytes | None:
        """The copy. None if no runner of this version has had the task here."""
        with disk_errors("read", self.journal_path):
            return read_regular(self.journal_path)

    def write(self, data: bytes) -> None:
        self.prepare()
        write_atomic(self.journal_path, data)

    def append(self, line: bytes) -> None:
        append_durable(self.journal_path, line, mode=PRIVATE_FILE)

    def cut(self, size: int) -> None:
        """Take back what the task's own file could not take."""
        with disk_errors("cut back", self.journal_path):
            os.truncate(self.journal_path, size)

    def forget(self) -> None:
        """The task has gone elsewhere."""
        with disk_errors("remove", self.journal_path):
            self.journal_path.unlink(missing_ok=True)

    def move_to(self, task: Path) -> None:
        """The task directory was moved here by us. Another task may have its place from now on."""
        if (data := self.read()) is not None:
            Anchor(self._anchors, task).write(data)
        shutil.rmtree(self.folder, ignore_errors=True)

    def replace(self, data: bytes, suffix: str) -> None:
        """Put another journal in the place of the copy, which is kept under a name with this suffix."""
        before = self.read()
        if before == data:
            return
        if before is not None:
            with disk_errors("set aside", self.journal_path):
                os.link(self.journal_path, unused_name(self.journal_path.with_name(f"{_JOURNAL}.{suffix}")))
        if data:
            self.write(data)
        else:
            self.forget()

    def elsewhere(self, data: bytes) -> Anchor | None:
        """The anchor under which this very journal was kept while the task directory had another path."""
        known = task_id(records_in(self.journal_path, data)[0])
        for place in self._anchors.glob(f"*/{_PLACE}") if known else ():
            other = Anchor(self._anchors, Path(os.fsdecode(place.read_bytes())))
            copy = other.read() if other.folder == place.parent else None
            if copy is not None and missing_in(data, copy) is not None and not os.path.lexists(other.task):
                return other
        return None


def missing_in(found: bytes, copy: bytes) -> bytes | None:
    """What a killed runner left to be added to the task's file; None if a kill does not explain the difference."""
    whole = copy[: copy.rfind(b"\n") + 1]  # a line that was cut off in the copy never reached the task's file
    if found in (copy, whole):
        return b""
    rest = whole[len(found) :]
    return rest if whole.startswith(found) and rest.count(b"\n") == 1 else None
