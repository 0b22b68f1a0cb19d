"""Colours for a terminal that shows them. What is coloured was cleaned before."""

from __future__ import annotations

import os
from pathlib import Path

from marathon.process.terminal import on_terminal

_HEAD = {"╔": "1;33", "║": "1;33", "╚": "1;33", "⏸": "1;33", "Phase: ": "1", "⚠️": "33", "Review the output": "36"}
_DIFF = {"diff --git": "1", "--- ": "1", "+++ ": "1", "@@": "36", "+": "32", "-": "31", "━━": "1;33", "┃": "33"}
YES, ASKS_TWICE, HINT = "1;32", "33", "36"


def colored() -> bool:
    """Whether colours are wanted. See no-color.org."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def paint(text: str, style: str) -> str:
    """Every line of the text in this style, so that nothing of the style is left over after a line."""
    if not style or not colored():
        return text
    return "\n".join(f"\x1b[{style}m{line}\x1b[0m" if line else line for line in text.split("\n"))


def link(text: str, path: Path) -> str:
    """The text as a link to a file (OSC 8). FORCE_HYPERLINK=0 turns links off."""
    if not on_terminal() or os.environ.get("FORCE_HYPERLINK") == "0":
        return text
    target = path.absolute().as_uri().replace("//", f"//{os.uname().nodename}", 1)
    return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


def paint_head(text: str) -> str:
    """The part of a gate above its options."""
    return _by_start(text, _HEAD)


def paint_diff(text: str) -> str:
    return _by_start(text, _DIFF)


def _by_start(text: str, styles: dict[str, str]) -> str:
    def style(line: str) -> str:
        return next((style for start, style in styles.items() if line.startswith(start)), "")

    return "\n".join(paint(line, style(line)) for line in text.split("\n"))
