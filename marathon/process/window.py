"""The title and the progress of the terminal's window, for a human who looks elsewhere.

Whether they are shown stands in memory that forks share, so that a guardian clears them after a runner that was killed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from typing import Literal

_KEEP_TITLE, _OLD_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_CLEAR = f"\x1b]9;4;0\x1b\\\x1b]2;\x1b\\{_OLD_TITLE}"
_PROGRESS = {"working": "3;0", "waiting": "4;100"}

_marks: Marks | None = None  # of this process: it has one terminal


class Marks:
    """What to write for a title and a progress, and to clear them."""

    def __init__(self, terminal: str) -> None:
        self._terminal = terminal
        self._shown = mmap.mmap(-1, 1)

    def show(self, title: str, progress: Literal["working", "waiting"]) -> str:
        keep = "" if self._shown[0] else _KEEP_TITLE
        self._shown[0] = 1
        return f"{keep}\x1b]2;{title}\x1b\\\x1b]9;4;{_PROGRESS[progress]}\x1b\\"

    def clear(self) -> str:
        shown, self._shown[0] = self._shown[0], 0
        return _CLEAR if shown else ""

    def clear_after_the_dead(self) -> None:
        with contextlib.suppress(OSError):
            terminal = os.open(self._terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            os.write(terminal, self.clear().encode())
            os.close(terminal)


def marks_of(out: object) -> Marks | None:
    """Those of this process's terminal, if that is where it writes."""
    global _marks
    with contextlib.suppress(OSError, ValueError):
        if out is sys.stdout and os.isatty(1):
            _marks = _marks or Marks(os.ttyname(1))
            return _marks
    return None


def clear_after_the_dead() -> None:
    """Whoever showed something is gone without having cleared it."""
    if _marks:
        _marks.clear_after_the_dead()
