"""Claude Code's transcript (JSON lines): what the assistant said last, and nothing that anyone else said."""

from __future__ import annotations

import os
import stat
from typing import Any

from marathon.agents.claude.state import as_object

TAIL = 1024 * 1024


def last_said(tail: bytes) -> str:
    """The text of the last message in a transcript, or nothing if the last word was the user's or a tool's.

    A message has a line for each of its parts. The lines of a subagent (a side chain) are not the session's own.
    """
    parts: list[str] = []
    message_id: object = None
    for line in reversed(tail.splitlines()):
        entry = as_object(line)
        if entry is None or entry.get("isSidechain") is True:
            continue
        if entry.get("type") == "user":
            break
        message = entry.get("message")
        if entry.get("type") != "assistant" or not isinstance(message, dict):
            continue
        if parts and message.get("id") != message_id:
            break
        message_id = message.get("id")
        parts[:0] = _texts(message.get("content"))
    return "\n".join(parts)


def tail_of(path: str) -> bytes:
    """The last full lines of a regular file, at most TAIL bytes. A pipe or a device is never waited for."""
    try:
        with open(
            os.path.expanduser(path), "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        ) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return b""
            before = max(0, found.st_size - TAIL)
            data = os.pread(file.fileno(), TAIL, before)
    except (OSError, ValueError):
        return b""
    return data.partition(b"\n")[2] if before else data


def _texts(content: Any) -> list[str]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [part["text"] for part in texts if part.get("type") == "text" and isinstance(part.get("text"), str)]
