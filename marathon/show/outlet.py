"""Writes to a reader who may have stopped reading. A full pipe or Ctrl+S must not hold up the marathon."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

_MOST_HELD = 256 * 1024
_PATIENCE = 2.0  # seconds to wait for a slow reader once that much is held
_LAST_PATIENCE = 60.0  # at the end, when nothing else waits and a human may be paging through the output
_LEFT_OUT = b"\n[some output was left out: no one read it]\n"
_PIECE_FOR_A_PIPE = select.PIPE_BUF  # a pipe that has room at all takes this much
_PIECE_FOR_A_TERMINAL = 256


class Outlet:
    """Writes what a stream takes at once, holds the rest, and leaves some out when too much is held."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._fd = _descriptor(out)
        self._held = bytearray()
        self._waited = False
        terminal = self._fd is not None and os.isatty(self._fd)
        self._piece = _PIECE_FOR_A_TERMINAL if terminal else _PIECE_FOR_A_PIPE

    def write(self, text: str) -> None:
        """A closed window or pipe ends the view, not the marathon. No text means to try what is held again."""
        if self._out is None or not (text or self._held):
            return
        try:
            if self._fd is None:
                self._out.write(text)
                self._out.flush()
            else:
                self._held += text.encode(self._out.encoding or "utf-8", "replace")
                self._push(0)
                if len(self._held) > _MOST_HELD:
                    self._make_room()
        except (OSError, ValueError):
            self._out = None

    @property
    def behind(self) -> bool:
        """Whether the reader has still to read something."""
        return bool(self._held)

    def close(self) -> None:
        """Write what is held, if someone reads it now."""
        if self._out is not None and self._held:
            try:
                self._push(_LAST_PATIENCE)
            except (OSError, ValueError):
                self._out = None

    def _push(self, patience: float) -> None:
        assert self._fd is not None
        while self._held and select.select([], [self._fd], [], patience)[1]:
            del self._held[: os.write(self._fd, self._held[: self._piece])]
            self._waited = False

    def _make_room(self) -> None:
        """Wait once for a slow reader. A reader who does not read at all misses something."""
        if not self._waited:
            self._push(_PATIENCE)
            self._waited = bool(self._held)
        if len(self._held) > _MOST_HELD:
            self._held[:-_PIECE_FOR_A_PIPE] = _LEFT_OUT


def _descriptor(out: TextIO | None) -> int | None:
    """The flushed file behind standard output or error, or None for any other stream."""
    if out is None or out not in (sys.stdout, sys.stderr):
        return None
    try:
        out.flush()
        return out.fileno()
    except (OSError, ValueError):
        return None
