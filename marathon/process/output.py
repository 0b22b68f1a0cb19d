"""The output pipes of a child: read as it comes, cut into lines, not waited for once it is gone."""

from __future__ import annotations

import fcntl
import os
import selectors
import struct
import termios
from collections.abc import Callable, Mapping
from functools import partial

from marathon.process.lines import Framer, Piece

_CHUNK = 64 * 1024


class Output:
    def __init__(self, streams: Mapping[str, int], deliver: Callable[[str, bytes, bool], None]) -> None:
        self._streams = streams
        self._deliver = deliver
        self._framers = {name: Framer() for name in streams}

    def register(self, selector: selectors.BaseSelector) -> None:
        for name, fd in self._streams.items():
            selector.register(fd, selectors.EVENT_READ, partial(self._read, selector, name, fd))

    def drain(self) -> None:
        """What is in the pipes now, and no more: somebody outside the tree may hold them open."""
        for name, fd in self._streams.items():
            (waiting,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
            while waiting > 0 and (data := os.read(fd, min(waiting, _CHUNK))):
                waiting -= len(data)
                self._emit(name, self._framers[name].feed(data))
            self._emit(name, self._framers[name].flush())

    def _read(self, selector: selectors.BaseSelector, name: str, fd: int) -> None:
        if data := os.read(fd, _CHUNK):
            self._emit(name, self._framers[name].feed(data))
        else:
            selector.unregister(fd)

    def _emit(self, name: str, pieces: list[Piece]) -> None:
        for line, complete in pieces:
            self._deliver(name, line, complete)
