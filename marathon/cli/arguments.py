"""Small readings of what a user typed, used by several commands."""

from __future__ import annotations

import sys
from pathlib import Path

from marathon.core.text import seconds_in
from marathon.errors import WrongUsage


def seconds_of(text: str, option: str) -> float:
    """90, 90s, 5m, 2h, 1d, 1.5h as seconds."""
    seconds = seconds_in(text)
    if seconds is None:
        raise WrongUsage(f"{option}: {text!r} is not a duration. Write it like 90s, 5m or 2h.")
    return seconds


def task_path(text: str) -> Path:
    """A task directory as typed, without what cannot be a path."""
    if "\0" in text or not text.strip():
        raise WrongUsage(
            "The task directory's name is empty or not a name. Give the directory that holds instructions.md."
        )
    return Path(text)


def message_text(text: str | None) -> str:
    """A human's words from the command line (or '-' for stdin), fit to be stored."""
    if text == "-":
        text = sys.stdin.read()
    text = (text or "").encode("utf-8", "replace").decode()
    if not text.strip():
        raise WrongUsage("The text is empty; nothing was recorded.")
    return text.strip()
