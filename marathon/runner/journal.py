"""The task's records and the life they amount to, kept in step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from marathon.core.courses.base import Course
from marathon.core.events import Notice, Sink
from marathon.core.life import Life, apply
from marathon.core.records import FeedbackWritten, Record, Remark, SessionEnded
from marathon.core.sessions import session_facts, sessions_of
from marathon.errors import MarathonError
from marathon.store.base import Store
from marathon.store.lock import last_holder
from marathon.store.task import Task


class Journal:
    """Everything recorded goes through here: into the store first, then into the life."""

    def __init__(self, store: Store, course: Course, task: Task, emit: Sink = lambda event: None) -> None:
        self._store = store
        self._course = course
        self._task = task
        self._emit = emit
        self.life = Life()
        records = store.replay()
        for text in store.news():
            emit(Notice(text))
        for record in records:
            self.life = apply(self.life, record, course)
        self._unfiled = task.runs.unfiled(list(sessions_of(records)))
        self._file_sessions()

    def record(self, record: Record) -> Life:
        started = self.life.session
        stored = self._store.append(record)
        self.life = apply(self.life, stored, self._course)
        for text in self._store.news():
            self._emit(Notice(text, "warning"))
            self.life = apply(self.life, self._store.append(Remark(text=text)), self._course)
        if isinstance(stored, SessionEnded) and started is not None:
            self._unfiled.append(session_facts(self.life.run, started, stored))
            self._file_sessions()
        return self.life

    def write_owed_words(self) -> None:
        """What a human said goes into human.md after the journal has it."""
        if self.life.unwritten is not None:
            self._task.append_human(self.life.unwritten)
            self.record(FeedbackWritten())

    def _file_sessions(self) -> None:
        """These files are only for readers. A failure is tried again with the next session."""
        with contextlib.suppress(MarathonError):
            while self._unfiled:
                self._task.runs.write_iteration(self._unfiled[0])
                del self._unfiled[0]


@contextlib.contextmanager
def at_rest(store: Store, course: Course, task: Task, shown: Path) -> Iterator[Journal]:
    """The journal of a task that no runner has, for as long as this takes. TaskBusy if one has it after all."""
    before = last_holder(task.lock_path)  # its command stays the one that continues
    runner, resume, project = (before.runner, before.resume, before.cwd) if before else ("", "", "")
    lease = store.lease(shown, runner, resume, Path(project))
    try:
        yield Journal(store, course, task)
    finally:
        lease.release()
