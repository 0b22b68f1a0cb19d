"""Keeps everything the agent printed, as it comes: one JSON line a line, never held in memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from marathon.core.events import Event, Output, Raw, SessionBegan, SessionOver, Ticked
from marathon.disk.files import PRIVATE_FILE, disk_errors


class EventLog:
    """A consumer of events that writes runs/NNN/events/NNN.jsonl."""

    def __init__(self) -> None:
        self._file: IO[str] | None = None
        self._path = Path()

    def __call__(self, event: Event) -> None:
        match event:
            case SessionBegan() if event.log:
                self._path = Path(event.log)
                with disk_errors("open", self._path):
                    self._file = open(  # noqa: SIM115 — closed when the session is over
                        self._path, "w", encoding="utf-8", opener=_private
                    )
                began = {"event": "began", "phase": event.phase, "iteration": event.iteration, "agent": event.agent}
                self._write(began)
            case Output():
                partial = {} if event.complete else {"partial": True}
                self._write({"event": event.stream, "text": event.text, **partial})
            case Raw():
                self._line(event.line.decode("utf-8", "replace"))
            case Ticked() if self._file:
                with disk_errors("write", self._path):
                    self._file.flush()
            case SessionOver():
                self._write({"event": "over", "ending": event.ending, "cause": event.cause, "seconds": event.seconds})
                self.close()

    def close(self) -> None:
        if self._file:
            with disk_errors("write", self._path):
                self._file.close()
            self._file = None

    def _write(self, line: Mapping[str, object]) -> None:
        self._line(json.dumps({"at": round(time.time(), 3), **line}, ensure_ascii=False))

    def _line(self, line: str) -> None:
        if self._file:
            with disk_errors("write", self._path):
                self._file.write(line + "\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)
