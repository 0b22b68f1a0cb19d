"""Claude Code's transcript (JSON lines): what the assistant said last, and nothing that anybody else said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from marathon.core.hook import as_object


def last_said(tail: bytes) -> str:
    """The text of the last message, from the end of a transcript; empty where the last word is the user's or a tool's.

    A message takes a line for each of its parts; the lines of a subagent (a side chain) are not the session's own.
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


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
            yield part["text"]
