"""The inbox: messages from other shells to the runner, each in a file of its own."""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import StrictBool
from pydantic_core import from_json

from marathon.core.validation import read
from marathon.store.files import make_private_directory, read_regular, write_atomic

MAX_BYTES = 4 * 1024 * 1024
Kind = Literal["steer", "verdict", "stop", "feedback"]


@dataclass(frozen=True)
class Message:
    """One message. `to` is the gate's token (verdict) or the runner's id (stop)."""

    id: str
    kind: Kind
    text: str = ""
    to: str = ""
    choice: str = ""
    phase: str | None = None
    now: StrictBool = False
    later: StrictBool = False  # steering for the next session, not for the one that runs
    at: str = ""  # when feedback was given


class Inbox:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, kind: Kind, **fields: Any) -> str:
        """Store a message durably and return its id. Ids sort in the order of sending."""
        make_private_directory(self.folder)
        message = Message(f"{time.time_ns():020d}-{secrets.token_hex(4)}.json", kind, **fields)
        write_atomic(self.folder / message.id, json.dumps(asdict(message)).encode())
        return message.id

    def messages(self) -> list[Message]:
        """All messages, the oldest first. Files that are not messages are left alone."""
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json") and name[0] != ".")
        except FileNotFoundError:
            return []
        return [message for name in names if (message := self._read(name)) is not None]

    def remove(self, message_id: str) -> None:
        (self.folder / message_id).unlink(missing_ok=True)

    def _read(self, name: str) -> Message | None:
        try:
            value = from_json(read_regular(self.folder / name, MAX_BYTES) or b"")
            return read(Message, {**value, "id": name})
        except (OSError, ValueError, TypeError):
            return None
