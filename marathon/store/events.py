"""The log of a session, one JSON line per event: written as it happens, replayed from the start or followed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from marathon.core.budgets import Usage
from marathon.core.events import (
    START,
    Event,
    Logged,
    Notice,
    Output,
    SessionBegan,
    Text,
    ToolCalled,
    ToolEnded,
    Used,
    decode,
    encode,
    usage_of,
)
from marathon.store.files import PRIVATE_DIR, PRIVATE_FILE, disk_errors, write_all

_JOINED = 16 * 1024  # characters of text that are written at the latest
_AT_ONCE = 4 * 1024 * 1024  # bytes that a reader holds at most
_TAIL = 512 * 1024  # bytes in which an event of the agent is surely found
_OF_THE_AGENT = Output | Text | ToolCalled | ToolEnded
_OURS = os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OLD = "has lines in the format of an earlier version of pi-marathon, which are not shown here. Open it as text."


class EventLog:
    """A consumer of events. A session's log stays open until the next session begins: its gate belongs there too.

    Every line is written whole and at the end of the file, because pi's extension appends to it as well.
    """

    def __init__(self) -> None:
        self._path = ""
        self._fd = -1
        self._text = Text("")  # pieces that are not written yet: a line per word would be hard to read

    def __call__(self, event: Event) -> None:
        if isinstance(event, Text):
            self._join(event)
            return
        self._write_text()
        if isinstance(event, SessionBegan) and event.log:
            self.close()
            self._create(event.log)
        if isinstance(event, Logged):
            self._write(event)

    def resume(self, path: str) -> None:
        """Continue the log of the last session, if there is one: the answer at its gate belongs there."""
        self.close()
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDWR | _OURS)
            found = os.fstat(fd)
            ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1  # it may have another name elsewhere
            if not ours or os.pread(fd, len(START), 0) != START:  # a log of an older version stays as it is
                os.close(fd)
                return
            self._path, self._fd = path, fd
            if found.st_size and os.pread(fd, 1, found.st_size - 1) != b"\n":  # the runner was killed while it wrote
                write_all(fd, b"\n")

    def close(self) -> None:
        self._write_text()
        if self._fd >= 0:
            os.close(self._fd)
        self._path, self._fd = "", -1

    def _join(self, event: Text) -> None:
        if event.thinking != self._text.thinking:
            self._write_text()
        self._text = Text(self._text.text + event.text, event.thinking)
        if len(self._text.text) > _JOINED:
            self._write_text()

    def _write_text(self) -> None:
        text, self._text = self._text, Text("")
        if text.text:
            self._write(text)

    def _create(self, path: str) -> None:
        with disk_errors("create", path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), PRIVATE_DIR)  # and no more: a task that was removed stays so
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # whatever an agent may have put there
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OURS, PRIVATE_FILE)
        self._path = path

    def _write(self, event: Logged) -> None:
        if self._fd < 0:
            return
        path = self._path
        try:
            with disk_errors("write", path):
                write_all(self._fd, encode(event, time.time()))
        except BaseException:
            os.close(self._fd)  # once is enough: what follows is for the screen
            self._path, self._fd = "", -1
            raise


def read_events(path: Path | str, offset: int = 0) -> tuple[list[Logged], int]:
    """The events of a log from a byte offset on, and the offset to read from next.

    Of a long log this is only a part: all is read when the offset stays the same. A line that is still being written
    is left for the next time.
    """
    data = _read(path, offset)
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) == _AT_ONCE:
        whole = data  # of one endless line, which is no event of ours
    lines = [line for line in whole.split(b"\n") if line]
    events = [event for line in lines if (event := decode(line))]
    if offset == 0 and not all(line.startswith(START) for line in lines):
        events.insert(0, Notice(f"{path} {OLD}", "warning"))
    return events, offset + len(whole)


def follow(path: Path | str, offset: int = 0, *, more: Callable[[], bool] = lambda: False) -> Iterator[Logged]:
    """Every event from an offset on. At the end of the log `more` waits a little and says whether to look again."""
    while True:
        events, after = read_events(path, offset)
        yield from events
        if after == offset and not more():
            return
        offset = after


def usage_in_log(path: Path | str) -> Usage:
    """What a session used, as far as its log tells; also of a session whose end no one saw."""
    return usage_of(follow(path))


def has_output(path: Path | str) -> bool:
    """Whether the log holds anything of the agent's own."""
    return any(isinstance(event, _OF_THE_AGENT) for event in follow(path))


def last_activity(path: Path | str) -> float:
    """When the agent last did something, as far as the end of its log tells; 0 if it does not."""
    try:
        size = os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0
    events = follow(path, max(0, size - _TAIL))
    return max((event.at for event in events if isinstance(event, SessionBegan | Used | _OF_THE_AGENT)), default=0)


def _read(path: Path | str, offset: int) -> bytes:
    """Nothing where there is no log, or something that only an agent can have put in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return b""
        with disk_errors("read", path):
            raise
    try:
        with disk_errors("read", path):
            return os.pread(fd, _AT_ONCE, offset) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)
