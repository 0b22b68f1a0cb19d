"""The store in a task's own directory: `.marathon/journal.jsonl`, `lock` and `inbox/`, with an anchor outside of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from marathon.core.records import Record, Torn
from marathon.core.text import utc
from marathon.errors import DiskFailed, MarathonError, NotAdopted, TaskInvalid
from marathon.store.anchor import Anchor, missing_in
from marathon.store.files import PRIVATE_FILE, append_durable, disk_errors, read_regular, unused_name, write_atomic
from marathon.store.inbox import Kind, Message
from marathon.store.journal import difference, good_part, journal_bytes, records_in, repair_advice, task_id
from marathon.store.lock import Held, Holder, TaskLock, last_holder
from marathon.store.places import anchors_folder
from marathon.store.task import OWN, Task

_STAMP = "%Y%m%d-%H%M%S"


def recorded_here(task: Task) -> list[Record]:
    """What runners of this machine recorded of a task. A journal that came with a project tells nothing here."""
    anchor, found = Anchor(anchors_folder(), task.folder), journal_bytes(task.journal_path)
    copy = anchor.read()
    if copy is None and anchor.elsewhere(found):
        copy = found
    return records_in(anchor.journal_path, copy or b"")[0]


class TwoLocks:
    """The lock in the task, which the agent inherits, and the one at the anchor, which no agent can let go."""

    def __init__(self, at_anchor: TaskLock, in_task: TaskLock) -> None:
        self._at_anchor = at_anchor
        self.in_task = in_task

    @property
    def fd(self) -> int:
        return self.in_task.fd

    @property
    def previous_runner(self) -> str:
        """From the anchor: an agent may have written any name into the task's own lock."""
        return self._at_anchor.previous_runner

    def sign(self) -> None:
        self.in_task.sign(background=True)
        self._at_anchor.sign(background=True)

    def release(self) -> None:
        self.in_task.release()
        self._at_anchor.release()


class FileStore:
    """For the holder of the lease. Others use read_journal and the task's inbox.

    While this runner lives, what it holds in memory is the journal, whatever else writes into the file.
    """

    def __init__(
        self, task: Task, clock: Callable[[], datetime], *, anchors: Path | None = None, adopt: bool = False
    ) -> None:
        self._task = task
        self._clock = clock
        self._anchor = Anchor(anchors or anchors_folder(), task.folder)
        self._may_adopt = adopt  # a human said that a journal from elsewhere may be taken over
        self._journal = b""  # every byte that counts
        self._last = 0  # the number of the last record
        self._news: list[str] = []
        self._renew_lock: Callable[[], None] | None = None

    def lease(self, shown: Path, runner: str, resume: str, project: Path, boot: str = "") -> TwoLocks:
        self._anchor.prepare()
        note = read_regular(self._anchor.lock_path) or b""
        at_anchor = TaskLock(self._anchor.lock_path, shown, runner, resume, project, boot)
        try:
            self._task.prepare()
            in_task = TaskLock(self._task.lock_path, shown, runner, resume, project, boot)
        except Held as held:
            self._anchor.lock_path.write_bytes(note)  # so that the next start still knows who had the task
            at_anchor.release()
            # Only the anchor's word on who had the task counts: by this name processes are found and ended.
            holder = held.holder and replace(held.holder, runner=at_anchor.previous_runner)
            raise Held(shown, holder) from held
        except BaseException:
            at_anchor.release()
            raise
        locks = TwoLocks(at_anchor, in_task)

        def renew() -> None:
            if locks.in_task.renew(self._task.lock_path):
                return
            _keep_aside(self._task.lock_path, f"changed-{self._clock():{_STAMP}}")
            locks.in_task.release()
            locks.in_task = TaskLock(self._task.lock_path, shown, runner, resume, project, boot)

        self._renew_lock = renew
        return locks

    def last_holder(self) -> Holder | None:
        """The runner that last had the task, as the anchor knows it."""
        return last_holder(self._anchor.lock_path)

    def replay(self) -> list[Record]:
        """What is there already, after adding what a crash cut off or closing a line that it left torn."""
        self._anchor.prepare()
        path = self._task.journal_path
        found, copy = journal_bytes(path), self._anchor.read()
        if copy is None:
            self._adopt_journal(found)
            missing: bytes | None = b""
        else:
            missing = missing_in(found, copy)
        if missing is None:
            records_in(path, found)  # a damaged line is told by its number
            changed = difference(copy or b"", found)
            raise TaskInvalid(f"{path} was changed while no runner had the task: {changed}. {repair_advice(path)}")
        self._journal = found + missing
        records, torn = records_in(path, self._journal)
        if missing:
            append_durable(path, missing, mode=PRIVATE_FILE)
        self._last = max((record.n for record in records), default=0)
        if torn:
            before = b"" if self._journal.endswith(b"\n") else b"\n"
            records.append(self._append(Torn(bytes=torn), before))
        return records

    def append(self, record: Record) -> Record:
        return self._append(record, before=b"")

    def news(self) -> list[str]:
        news, self._news = self._news, []
        return news

    def _append(self, record: Record, before: bytes) -> Record:
        self._put_right()
        stamped = replace(record, n=self._last + 1, at=utc(self._clock()))
        line = before + stamped.to_json().encode("utf-8", "replace") + b"\n"
        self._anchor.append(line)
        try:
            append_durable(self._task.journal_path, line, mode=PRIVATE_FILE)
        except MarathonError:
            self._anchor.cut(len(self._journal))
            raise
        self._journal += line
        self._last = stamped.n
        return stamped

    def messages(self) -> list[Message]:
        return self._task.inbox.messages()

    def put(self, kind: Kind, **fields: Any) -> str:
        return self._task.inbox.put(kind, **fields)

    def remove(self, message_id: str) -> None:
        self._task.inbox.remove(message_id)

    # A journal that this runner did not write

    def _adopt_journal(self, found: bytes) -> None:
        """Begin a copy of a journal of which none is kept for this place."""
        if not found:
            return
        records, _ = records_in(self._task.journal_path, found)
        moved_from = self._anchor.elsewhere(found)
        if moved_from is not None:
            self._news.append(f"This task was moved here from {moved_from.task}. Its journal is as its runner left it.")
        elif not task_id(records):
            self._news.append("An earlier version began this task. From now on a copy of its journal is kept.")
        elif not self._may_adopt:
            raise NotAdopted(
                f"{self._task.folder} was copied here or comes from another machine: its journal tells of reviews "
                "that are not on record here. If you trust this journal, continue with: --adopt"
            )
        self._anchor.write(found)
        if moved_from is not None:
            moved_from.forget()

    def _put_right(self) -> None:
        """Make the files what this runner wrote, whatever happened to them since the last record."""
        if not self._task.exists():
            raise DiskFailed(f"Could not write {self._task.journal_path}: the task directory is gone.")
        self._own_folder()
        path, found = self._task.journal_path, self._found()
        if found != self._journal:
            changed = "it is not a regular file" if found is None else difference(self._journal, found)
            kept = _keep_aside(path, f"changed-{self._clock():{_STAMP}}")
            write_atomic(path, self._journal)
            said = f"Something other than the runner changed {OWN}/{path.name}: {changed}."
            self._news.append(f"{said} What the runner recorded is restored.{_kept(kept)}")
        if (self._anchor.read() or b"") != self._journal:
            self._anchor.write(self._journal)
        if self._renew_lock is not None:
            self._renew_lock()

    def _own_folder(self) -> None:
        own = self._task.own
        if own.is_symlink():
            own.unlink()  # what is behind it stays
        elif not own.is_dir():
            _keep_aside(own, f"changed-{self._clock():{_STAMP}}")
        self._task.prepare()

    def _found(self) -> bytes | None:
        """What lies where the journal should be. None if that is not a regular file."""
        try:
            return read_regular(self._task.journal_path) or b""
        except OSError:
            return None

    # Repair

    def repaired(self, *, as_is: bool) -> tuple[bytes, bytes] | None:
        """The journal as it is found, and as a repair would make it. None if there is nothing to repair.

        A repair goes back to the last good record of the copy, or, if there is none or with `as_is`, of the file.
        """
        path, found, copy = self._task.journal_path, self._found(), self._anchor.read()
        known = found if copy is None else copy
        if found is not None and known is not None:
            explained = copy is None or missing_in(found, copy) is not None
            if explained and good_part(path, known) == known:
                return None
        source = found if as_is or copy is None else copy
        return found or b"", good_part(path, source or b"")

    def restore(self, journal: bytes) -> str:
        """Replace the task's journal and the copy. Returns the name under which the old file is kept, if any."""
        stamp = f"before-repair-{self._clock():{_STAMP}}"
        self._own_folder()
        self._anchor.replace(journal, stamp)  # first: a kill after it leaves a difference, which is told again
        kept = _keep_aside(self._task.journal_path, stamp)
        if journal:
            write_atomic(self._task.journal_path, journal)
        return kept


def _keep_aside(path: Path, suffix: str) -> str:
    """Rename what is there, if anything is, to a free name and return that name."""
    if not os.path.lexists(path):
        return ""
    kept = unused_name(path.with_name(f"{path.name}.{suffix}"))
    with disk_errors("set aside", path):
        os.rename(path, kept)
    return kept.name


def _kept(name: str) -> str:
    return f" What was found is kept as {OWN}/{name}." if name else ""
