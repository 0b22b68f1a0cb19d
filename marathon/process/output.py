"""The output of a child: read as it comes, cut into lines or kept in a file, not waited for once it is gone."""

from __future__ import annotations

import fcntl
import os
import selectors
import struct
import termios
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from marathon.process.lines import Framer, Piece
from marathon.store.files import PRIVATE_FILE, disk_errors, write_all

_CHUNK = 64 * 1024
_TAIL = 4000
_LOG_LIMIT = 10 * 1024 * 1024
_LEFT_OUT = b"\n[more than 10 MiB: the rest of the output was left out]\n"
_INSIDE_A_CHARACTER = bytes(range(0x80, 0xC0))


class Pipes:
    """Delivers the bytes of each stream in pieces as they come."""

    def __init__(self, streams: Mapping[str, int], take: Callable[[str, bytes], None]) -> None:
        self._streams = streams
        self._take = take

    def register(self, selector: selectors.BaseSelector) -> None:
        for name, fd in self._streams.items():
            selector.register(fd, selectors.EVENT_READ, partial(self._read, selector, name, fd))

    def drain(self) -> None:
        """What is in the pipes now, and no more: somebody outside the tree may hold them open."""
        for name, fd in self._streams.items():
            (waiting,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
            while waiting > 0 and (data := os.read(fd, min(waiting, _CHUNK))):
                waiting -= len(data)
                self._take(name, data)

    def _read(self, selector: selectors.BaseSelector, name: str, fd: int) -> None:
        if data := os.read(fd, _CHUNK):
            self._take(name, data)
        else:
            selector.unregister(fd)


class Output(Pipes):
    """Delivers lines: deliver(stream, line, complete)."""

    def __init__(self, streams: Mapping[str, int], deliver: Callable[[str, bytes, bool], None]) -> None:
        super().__init__(streams, lambda name, data: self._emit(name, self._framers[name].feed(data)))
        self._deliver = deliver
        self._framers = {name: Framer() for name in streams}

    def drain(self) -> None:
        super().drain()
        for name, framer in self._framers.items():
            self._emit(name, framer.flush())

    def _emit(self, name: str, pieces: list[Piece]) -> None:
        for line, complete in pieces:
            self._deliver(name, line, complete)


class Transcript:
    """Both streams in a file as they come, and the end of them in memory; both bounded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self._last = b""
        with disk_errors("create", path):
            path.unlink(missing_ok=True)  # a new file: nobody has it open, and its mode is ours
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)

    def take(self, stream: str, data: bytes) -> None:
        room = _LOG_LIMIT - self._seen
        self._seen += len(data)
        self._last = (self._last + data)[-_TAIL:]
        if room >= 0:
            with disk_errors("write", self._path):
                write_all(self._fd, data[:room] + (_LEFT_OUT if len(data) > room else b""))

    def tail(self) -> str:
        cut = self._seen > len(self._last)
        return (self._last.lstrip(_INSIDE_A_CHARACTER) if cut else self._last).decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._fd)
