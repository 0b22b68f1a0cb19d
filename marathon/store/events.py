"""Keeps everything the agent printed, as it comes: one JSON line a line, never held in memory."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from typing import IO

from marathon.core.events import Event, Output, Raw, SessionBegan, SessionOver, Ticked
from marathon.store.files import PRIVATE_DIR, PRIVATE_FILE, disk_errors

_ENCODER = json.JSONEncoder(ensure_ascii=False)


class EventLog:
    """A consumer of events that writes runs/NNN/events/NNN.jsonl."""

    def __init__(self) -> None:
        self._file: IO[str] | None = None
        self._path = ""
        self._first = ""

    def __call__(self, event: Event) -> None:
        match event:
            case SessionBegan() if event.log:
                self.close()
                self._path = event.log
                began = {"event": "began", "phase": event.phase, "iteration": event.iteration, "agent": event.agent}
                self._first = _stamped(began)
            case Output():
                partial = {} if event.complete else {"partial": True}
                self._line(_stamped({"event": event.stream, "text": event.text, **partial}))
            case Raw():
                self._line(event.line.decode("utf-8", "replace") + "\n")
            case Ticked() if self._path:
                with disk_errors("write", self._path):
                    self._opened(self._path).flush()
            case SessionOver():
                over = {"event": "over", "ending": event.ending, "cause": event.cause, "seconds": event.seconds}
                self._line(_stamped(over))
                self.close()

    def close(self) -> None:
        if self._path and self._file:
            with disk_errors("write", self._path):
                self._file.close()
        self._path, self._file = "", None

    def _line(self, line: str) -> None:
        if self._path:
            with disk_errors("write", self._path):
                self._opened(self._path).write(line)

    def _opened(self, path: str) -> IO[str]:
        """Made only when more comes than the first line: by then the agent is at work, and nobody waits for us."""
        if self._file is None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), PRIVATE_DIR)  # and no more: a task that was removed stays so
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # whatever the agent may have put there
            self._file = open(path, "x", encoding="utf-8", opener=_private)  # noqa: SIM115 — closed when it is over
            self._file.write(self._first)
        return self._file


def _stamped(line: Mapping[str, object]) -> str:
    return _ENCODER.encode({"at": round(time.time(), 3), **line}) + "\n"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)
