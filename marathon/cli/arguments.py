"""Reads what a user typed; several commands share this."""

from __future__ import annotations

import sys
from pathlib import Path

from marathon.core.text import seconds_in
from marathon.errors import WrongUsage


def seconds_of(text: str, option: str) -> float:
    """Read 90, 90s, 5m, 2h, 1d or 1.5h as seconds."""
    seconds = seconds_in(text)
    if seconds is None:
        raise WrongUsage(f"{option}: {text!r} is not a duration. Write it like 90s, 5m or 2h.")
    return seconds


def task_path(text: str) -> Path:
    """A task directory as typed; what cannot be a path is refused."""
    if "\0" in text or not text.strip():
        raise WrongUsage(
            "The name of the task directory is empty or invalid. Give the directory that holds instructions.md."
        )
    return Path(text)


def message_text(text: str | None) -> str:
    """A human's text from the command line, or from stdin for '-', ready to be stored."""
    if text == "-":
        text = sys.stdin.read()
    text = (text or "").encode("utf-8", "replace").decode()
    if not text.strip():
        raise WrongUsage("The text is empty; nothing was recorded.")
    return text.strip()
