"""Whether someone asked this runner to stop."""

from __future__ import annotations

from collections.abc import Callable

from marathon.core.events import Notice, Sink
from marathon.core.life import Life
from marathon.errors import TaskInvalid
from marathon.store.base import Store
from marathon.store.task import Task


class Stops:
    def __init__(self, task: Task, store: Store, runner: str, life: Callable[[], Life], emit: Sink) -> None:
        self._task = task
        self._store = store
        self._runner = runner
        self._life = life
        self._emit = emit
        self._after_session = False
        self._now = False
        self.cancels = ""  # the message that ends this run for good
        self.word = ""  # what a measured loop is from now on, if someone said so

    def asked(self) -> bool:
        """Stop before the next session. TaskInvalid if the task is gone."""
        if not self._task.exists():
            raise TaskInvalid(f"{self._task.folder} was removed while the marathon ran.")
        self._read()
        return self._after_session

    def now(self) -> bool:
        """Stop in the middle of this session, because someone said so or the task is gone."""
        self._read()
        return self._now or not self._task.exists()

    def _read(self) -> None:
        for message in self._store.messages():
            if message.kind == "cancel" and message.to == str(self._life().run):
                if not self.cancels:
                    self._emit(Notice("Cancelling this run, as asked."))
                self.cancels, self._after_session, self._now = message.id, True, True
                continue
            if message.kind not in ("stop", "cancel"):
                continue
            self._store.remove(message.id)
            if message.to in (self._runner, ""):  # empty where the runner's note was changed
                when = "" if message.now or not self._life().session else " after this session"
                self._emit(Notice(f"Stopping{when}, as asked."))
                self._after_session, self.word = True, message.text or "paused"
                self._now = self._now or message.now
