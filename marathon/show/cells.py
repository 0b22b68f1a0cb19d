"""How much room text takes on a terminal."""

from __future__ import annotations

import shutil
from unicodedata import combining, east_asian_width

_JOINERS = "\u200d\ufe0f"


def width() -> int:
    """The columns of the terminal as it is now."""
    return shutil.get_terminal_size().columns


def cells(character: str) -> int:
    if combining(character) or character in _JOINERS:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def column_after(column: int, text: str) -> int:
    """Where the cursor stands after the text. At the very edge a terminal waits with the next line."""
    columns = width()
    if "\n" in text:
        column, text = 0, text.rpartition("\n")[2]
    for character in text:
        needed = cells(character)
        column = needed if column + needed > columns else column + needed
    return column


def fit(text: str, room: int) -> str:
    """As much of the text as fits into that many cells."""
    taken, kept = 0, 0  # so many characters leave a cell for the ellipsis
    for number, character in enumerate(text, start=1):
        taken += cells(character)
        if taken > room:
            return text[:kept] + "…"
        if taken < room:
            kept = number
    return text


def fit_end(text: str, room: int) -> str:
    """The end of the text, as much as fits."""
    return fit(text[::-1], room)[::-1]
