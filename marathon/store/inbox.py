"""The inbox: messages from other shells to the runner, each in a file of its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import StrictBool
from pydantic_core import from_json

from marathon.core.comments import Comment
from marathon.core.text import size
from marathon.core.validation import read
from marathon.errors import WrongUsage
from marathon.store.files import make_private_directory, opened, read_regular, write_atomic

MAX_BYTES = 8_000_000
Kind = Literal["steer", "feedback", "comment", "verdict", "stop", "cancel", "go on"]


@dataclass(frozen=True)
class Message:
    """One message. `to` is the gate's token (verdict), the runner's id (stop) or the number of the run (cancel).

    "go on" ends the wait that the runner counts down.
    """

    id: str
    kind: Kind
    text: str = ""
    to: str = ""
    choice: str = ""
    code: str = ""  # of the gate (verdict)
    by: str = ""  # where it was given (verdict)
    agreement: str = ""  # that several tasks ask for: the only thing it says yes to (verdict)
    phase: str | None = None
    files: list[str] = field(default_factory=list)  # to undo (verdict)
    head: StrictBool = False  # and whether the branch moves back too
    now: StrictBool = False
    later: StrictBool = False  # steering for the next session, not for the one that runs
    at: str = ""  # when feedback was given
    comment: Comment | None = None  # as it is to be from now on


class Inbox:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, kind: Kind, **fields: Any) -> str:
        """Store a message durably and return its id. Ids sort in the order of sending."""
        make_private_directory(self.folder)
        message = Message(f"{time.time_ns():020d}-{secrets.token_hex(4)}.json", kind, **fields)
        data = json.dumps(asdict(message), ensure_ascii=False).encode("utf-8", "replace")
        if len(data) > MAX_BYTES:
            raise WrongUsage(f"The message has {size(len(data))}. At most {size(MAX_BYTES)} can be sent.")
        write_atomic(self.folder / message.id, data)
        return message.id

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For who looks before putting: one at a time."""
        make_private_directory(self.folder)
        with opened(self.folder, os.O_RDONLY) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield

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
