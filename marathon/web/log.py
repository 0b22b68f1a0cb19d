"""The log of a session as text, from its end or as it grows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

from marathon.core.budgets import Usage
from marathon.core.events import Logged, ToolCalled, usage_of
from marathon.core.records import SessionStarted
from marathon.core.text import duration, one_line, steps_line
from marathon.errors import MarathonError
from marathon.show.screen import Screen
from marathon.store.events import read_events
from marathon.store.task import Task


class Watch:
    """The session that runs, or the last one: what its log says since an offset, and what it used in all."""

    def __init__(self, task: Task, session: SessionStarted | None, log: Path, offset: int) -> None:
        self._task = task
        self._session = session
        self._log = log
        self._told_to, self._counted_to = offset, 0
        self._usage, self._tool, self._said = Usage(), "", ""

    def news(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        told, self._told_to = log_text(self._log, self._told_to)
        if told:
            found["log"] = told
        doing = self._doing() if self._session else ""
        if doing != self._said:
            found["doing"] = self._said = doing
        return found

    def _doing(self) -> str:
        """Session 3 (plan) for 4m 10s · $0.12 · 2/9 steps · bash make test"""
        assert self._session
        for events, after in _since(self._log, self._counted_to):
            self._counted_to = after
            self._usage = self._usage.plus(usage_of(events))
            calls = [event for event in events if isinstance(event, ToolCalled)]
            self._tool = one_line(f"{calls[-1].name} {calls[-1].summary}", 120) if calls else self._tool
        seconds = time.time() - datetime.fromisoformat(self._session.at).timestamp()
        session = f"Session {self._session.iteration} ({self._session.phase}) for {duration(seconds)}"
        cost = f"${self._usage.cost:.2f}" if self._usage.cost else ""
        return " · ".join(filter(None, [session, cost, steps_line(self._task.steps(None)), self._tool]))


def log_text(log: Path, offset: int) -> tuple[str, int]:
    """A log as the screen shows it, from an offset on, and the offset to read from next."""
    out = StringIO()
    screen = Screen(out, live=False, notify=False, color=False)
    for events, after in _since(log, offset):
        offset = after
        for event in events:
            screen(event)
    screen.close()
    return out.getvalue(), offset


def _since(log: Path, offset: int) -> Iterator[tuple[list[Logged], int]]:
    """What a log holds from an offset on, in parts, each with the offset behind it."""
    with contextlib.suppress(MarathonError, OSError):
        while True:
            events, after = read_events(log, offset)
            if after == offset:
                return
            yield events, after
            offset = after
