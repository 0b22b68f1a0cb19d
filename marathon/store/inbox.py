"""The inbox: messages from other shells to the runner, a file each, so that none overwrites another."""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from marathon.store.files import make_private_directory, read_regular, write_atomic

MAX_BYTES = 4 * 1024 * 1024
CLOCK_GRAIN = 2 * 10**9
Kind = Literal["steer", "verdict", "stop"]


@dataclass(frozen=True)
class Message:
    """One message; `to` is the gate's token (verdict) or the runner's id (stop)."""

    id: str
    kind: Kind
    text: str = ""
    to: str = ""
    choice: str = ""
    phase: str | None = None
    now: bool = False
    later: bool = False  # steering for the next session, not for the one that runs


class Inbox:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(
        self,
        kind: Kind,
        *,
        text: str = "",
        to: str = "",
        choice: str = "",
        phase: str | None = None,
        now: bool = False,
        later: bool = False,
    ) -> str:
        """Store a message durably; names sort in the order they were sent."""
        make_private_directory(self.folder)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
        body = {"kind": kind, "text": text, "to": to, "choice": choice, "phase": phase, "now": now, "later": later}
        write_atomic(self.folder / name, json.dumps(body).encode())
        return name

    def stamp(self) -> int:
        """Changes whenever a message comes or goes; -1 where there is no inbox yet."""
        try:
            changed = os.stat(self.folder).st_mtime_ns
        except FileNotFoundError:
            return -1
        # A file system's clock is coarse: the next message may bear the same time, so one this fresh says nothing yet.
        now = time.time_ns()
        return now if now - changed < CLOCK_GRAIN else changed

    def messages(self) -> list[Message]:
        """What is there, oldest first; files that are no messages are left alone."""
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json") and name[0] != ".")
        except FileNotFoundError:
            return []
        return [message for name in names if (message := self._read(name)) is not None]

    def remove(self, message_id: str) -> None:
        (self.folder / message_id).unlink(missing_ok=True)

    def _read(self, name: str) -> Message | None:
        try:
            data = read_regular(self.folder / name, MAX_BYTES)
            value = json.loads(data or b"")
            kind = value["kind"]
            if kind not in ("steer", "verdict", "stop"):
                return None
            texts = {key: value.get(key, "") for key in ("text", "to", "choice")}
            phase = value.get("phase")
            if not all(isinstance(text, str) for text in texts.values()) or not isinstance(phase, str | None):
                return None
            "".join((name, *texts.values(), phase or "")).encode()  # half a surrogate pair cannot be recorded
            now, later = value.get("now") is True, value.get("later") is True
            return Message(name, kind, phase=phase, now=now, later=later, **texts)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
