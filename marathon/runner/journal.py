"""The journal, the progress it amounts to and a file for every session, kept in step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime

from marathon.core.life import Progress, apply
from marathon.core.records import FeedbackWritten, Record, SessionEnded, SessionStarted
from marathon.core.sessions import session_facts, sessions_of
from marathon.errors import MarathonError
from marathon.store.journal import Journal
from marathon.store.task import Task


class Ledger:
    """Everything recorded goes through here: into the journal first, then into the progress."""

    def __init__(self, task: Task, clock: Callable[[], datetime]) -> None:
        self._task = task
        self._journal = Journal(task.journal_path, clock)
        self.progress = Progress()
        records = self._journal.replay()
        for record in records:
            self.progress = apply(self.progress, record)
        self._unfiled = task.runs.unfiled(list(sessions_of(records)))

    def record(self, record: Record) -> Progress:
        started = self.progress.session
        # What a power cut takes of a session's start, it takes together with the agent, which has only just begun.
        store = self._journal.write if isinstance(record, SessionStarted) else self._journal.append
        stored = store(record)
        self.progress = apply(self.progress, stored)
        if isinstance(stored, SessionEnded) and started is not None:
            self._unfiled.append(session_facts(self.progress.run, started, stored))
        elif not isinstance(stored, SessionStarted):
            self._file_sessions()
        return self.progress

    def write_owed_words(self) -> None:
        """Into human.md goes what a human said and the journal has."""
        if self.progress.unwritten is not None:
            self._task.append_human(self.progress.unwritten)
            self.record(FeedbackWritten())

    def catch_up(self) -> None:
        """What the next session would have to wait for, if it were done between two of them: to be called while that
        one runs."""
        self._journal.settle()
        self._file_sessions()
        self._task.let_go()

    def _file_sessions(self) -> None:
        """Only for readers: the journal knows all of it, and whoever comes next tries again."""
        with contextlib.suppress(MarathonError):
            while self._unfiled:
                self._task.runs.write_iteration(self._unfiled[0])
                del self._unfiled[0]

    def current(self) -> Progress:
        return self.progress

    def close(self) -> None:
        with contextlib.suppress(MarathonError):
            self.catch_up()
        self._journal.close()
