"""Code in this process that dies as if killed: before a chosen change to a file, and after that it changes none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Killed(BaseException):
    """kill -9, as far as a process can play it to itself."""


class Life:
    """Lasts for so many changes to files below a folder, of which the last is not made, or up to a named moment."""

    def __init__(self, folder: Path, until: int | str | None = None) -> None:
        self._folder = str(folder)
        self._left = until if isinstance(until, int) else None
        self._last_moment = until

    def hear(self, subject: object) -> None:
        if isinstance(subject, int) or str(subject).startswith(self._folder):
            self.change()

    def change(self) -> None:
        """A change is about to be made: do or die."""
        if self._left is not None:
            self._left = max(0, self._left - 1)
            if self._left == 0:
                raise Killed

    def reach(self, moment: str) -> None:
        if moment == self._last_moment:
            self.end()

    def end(self) -> None:
        """Killed here and now."""
        self._left = 0
        raise Killed


_lives: list[Life | None] = []
_listening: list[bool] = []


@contextlib.contextmanager
def living(life: Life | None) -> Iterator[None]:
    """Inside, changes are made by this life; with None, by somebody who cannot die."""
    if not _listening:
        _listening.append(True)
        sys.addaudithook(_hear)
    _lives.append(life)
    try:
        yield
    finally:
        _lives.pop()


def _hear(event: str, args: tuple[Any, ...]) -> None:
    life = _lives[-1] if _lives else None
    if life is not None:
        opened_to_write = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
        if opened_to_write or event in _CHANGES:
            life.hear(args[0])
