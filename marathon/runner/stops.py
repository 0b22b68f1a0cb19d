"""Whether somebody asked this runner to stop; the inbox is read only when it changed."""

from __future__ import annotations

from marathon.core.events import Notice, Sink
from marathon.errors import TaskInvalid
from marathon.store.task import Task


class Stops:
    def __init__(self, task: Task, runner: str, emit: Sink = lambda event: None) -> None:
        self._emit = emit
        self._task = task
        self._runner = runner
        self._seen: int | None = None
        self._after_session = False
        self._now = False

    def asked(self) -> bool:
        """Stop before the next session. TaskInvalid if there is no task any more to go on with."""
        if not self._task.exists():
            raise TaskInvalid(f"{self._task.folder} was removed while the marathon ran.")
        self._look()
        return self._after_session

    def now(self) -> bool:
        """Stop in the middle of this one: somebody said so, or there is no task any more."""
        self._look()
        return self._now or not self._task.exists()

    def _look(self) -> None:
        stamp = self._task.inbox.stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        for message in self._task.inbox.messages():
            if message.kind == "stop":
                self._task.inbox.remove(message.id)
                if message.to == self._runner:
                    self._emit(
                        Notice("Stopping, as asked." if message.now else "Stopping after this session, as asked.")
                    )
                    self._after_session = True
                    self._now = self._now or message.now
