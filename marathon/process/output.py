"""The output of a child: read as it comes, cut into lines or kept in a file, not waited for once it is gone."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Callable
from functools import partial
from pathlib import Path

from marathon.store.files import PRIVATE_FILE, disk_errors, write_all

LINE_LIMIT = 64 * 1024
_CHUNK = 64 * 1024
_TAIL = 4000
_LOG_LIMIT = 10 * 1024 * 1024
_LEFT_OUT = b"\n[more than 10 MiB: the rest of the output was left out]\n"
_INSIDE_A_CHARACTER = bytes(range(0x80, 0xC0))

Piece = tuple[bytes, bool]


class Pipes:
    """Hands on the bytes of each stream in pieces as they come."""

    def __init__(self, streams: dict[str, int], take: Callable[[str, bytes], None]) -> None:
        self._open = streams
        self._take = take

    def files(self) -> dict[int, Callable[[], None]]:
        """What to read from, and how."""
        return {fd: partial(self._read, name) for name, fd in self._open.items()}

    def drain(self) -> None:
        """What is in the pipes now, and no more: a process outside the tree may hold them open."""
        for name, fd in self._open.items():
            (waiting,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
            while waiting > 0 and (data := os.read(fd, min(waiting, _CHUNK))):
                waiting -= len(data)
                self._take(name, data)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _read(self, name: str) -> None:
        if data := os.read(self._open[name], _CHUNK):
            self._take(name, data)
        else:
            os.close(self._open.pop(name))


class Lines:
    """Cuts both streams into lines: deliver(stream, line, complete)."""

    def __init__(self, deliver: Callable[[str, bytes, bool], None]) -> None:
        self._deliver = deliver
        self._framers = {"out": Framer(), "err": Framer()}

    def take(self, stream: str, data: bytes) -> None:
        for line, complete in self._framers[stream].feed(data):
            self._deliver(stream, line, complete)

    def flush(self) -> None:
        """The streams are over."""
        for stream, framer in self._framers.items():
            for line, complete in framer.flush():
                self._deliver(stream, line, complete)


class Framer:
    """Lines end at LF, CRLF or a lone CR. A piece is complete when the line ends with it.

    A line longer than LINE_LIMIT comes as several pieces of which only the last one is complete.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._after_cr = False

    def feed(self, data: bytes) -> list[Piece]:
        if not data:
            return []
        # A CR ends its line at once, so that progress bars move; an LF right after it is no second line.
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return []
        self._after_cr = data.endswith(b"\r")
        whole, self._tail = self._tail + data, b""
        return [piece for line in whole.splitlines(keepends=True) for piece in self._cut(line)]

    def flush(self) -> list[Piece]:
        """The unterminated rest: the stream is over, so its line is too."""
        rest, self._tail = self._tail, b""
        return [(rest, True)] if rest else []

    def _cut(self, line: bytes) -> list[Piece]:
        body = line.rstrip(b"\r\n")
        ended = len(body) < len(line)
        last = max(0, (len(body) - 1) // LINE_LIMIT * LINE_LIMIT)
        pieces = [(body[at : at + LINE_LIMIT], False) for at in range(0, last, LINE_LIMIT)]
        if ended:
            return [*pieces, (body[last:], True)]
        self._tail = body[last:]
        return pieces


class Transcript:
    """Both streams in a file as they come, and the end of them in memory; both bounded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self._last = b""
        with disk_errors("create", path):
            path.unlink(missing_ok=True)  # a new file: no one has it open, and its mode is ours
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
