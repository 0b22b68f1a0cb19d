"""The log of a session, one JSON line per event: written as it happens, replayed from the start or followed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from marathon.core.budgets import Usage
from marathon.core.events import (
    START,
    Event,
    Logged,
    Notice,
    Output,
    SessionBegan,
    Text,
    Ticked,
    ToolCalled,
    ToolEnded,
    Used,
    decode,
    encode,
    usage_of,
)
from marathon.core.text import one_line
from marathon.store.files import PRIVATE_DIR, PRIVATE_FILE, disk_errors, read_regular, write_all

_LONGEST_JOINED = 16 * 1024  # characters of text that wait to be written
_LONGEST_HELD = 0.1  # seconds that text waits, for someone who follows the log
_AT_ONCE = 4 * 1024 * 1024  # bytes that a reader holds at most
_OF_THE_AGENT = Output | Text | ToolCalled | ToolEnded
_APPEND = os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
OLD = "has lines in the format of an earlier version of pi-marathon, which are not shown here. Open it as text."


class EventLog:
    """A consumer of events. A session's log stays open until the next session begins: its gate belongs there too.

    Every line is written whole and at the end of the file, because pi's extension appends to it as well.
    """

    def __init__(self) -> None:
        self._path = ""
        self._fd = -1
        self._text = Text("")  # pieces that are not written yet, because a line per word would be hard to read
        self._since = 0.0  # when the first of them came

    def __call__(self, event: Event) -> None:
        if isinstance(event, Text):
            if event.thinking != self._text.thinking or len(self._text.text) > _LONGEST_JOINED:
                self._write_text()
            if not self._text.text:
                self._since = time.monotonic()
            self._text = Text(self._text.text + event.text, event.thinking)
        if not isinstance(event, Logged | Ticked):
            return  # only for the screen
        if isinstance(event, Text | Ticked) and time.monotonic() < self._since + _LONGEST_HELD:
            return
        self._write_text()
        if isinstance(event, SessionBegan) and event.log:
            self._create(event.log)
        if isinstance(event, Logged) and not isinstance(event, Text):
            self._write(event)

    def resume(self, path: str) -> None:
        """Continue the log of the last session, if there is one: the answer at its gate belongs there."""
        self.close()
        with contextlib.suppress(OSError):
            if not (read_regular(path, len(START)) or b"").startswith(START):
                return  # the log of an older version stays as it is
            self._path, self._fd = path, os.open(path, os.O_WRONLY | _APPEND)
            if read_regular(path, 0, os.path.getsize(path) - 1) != b"\n":  # the runner was killed while it wrote
                write_all(self._fd, b"\n")

    def close(self) -> None:
        self._write_text()
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _create(self, path: str) -> None:
        self.close()
        with disk_errors("create", path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), PRIVATE_DIR)  # no parents: a task that was removed does not come back
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # whatever an agent may have put there
            self._path, self._fd = path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _APPEND, PRIVATE_FILE)

    def _write_text(self) -> None:
        text, self._text = self._text, Text("")
        if text.text:
            self._write(text)

    def _write(self, event: Logged) -> None:
        if self._fd < 0:
            return
        try:
            with disk_errors("write", self._path):
                write_all(self._fd, encode(event, time.time()))
        except BaseException:
            self.close()  # a full disk is said once; what follows is only for the screen
            raise


def read_events(path: Path | str, offset: int = 0) -> tuple[list[Logged], int]:
    """The events of a log from a byte offset on, and the offset to read from next.

    A long log comes in several parts. The end is reached when the offset stays the same. A line that is still being
    written is left for the next time.
    """
    data = _read(path, offset)
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) > _AT_ONCE:
        whole = data  # a part of an endless line, which is not an event of ours
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


class TaskLogs:
    """The logs of a task, followed from one session to the next, across its runs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._at = (self._sessions() or [(1, 0)])[-1]
        self._offset = self._skipped = 0

    @property
    def path(self) -> str:
        """The log that is read now, which may not exist yet."""
        return self._path(*self._at)

    def from_start(self) -> None:
        """Begin with the first log of the current run that is still there."""
        self._at = next((at for at in self._sessions() if at[0] == self._at[0]), self._at)

    def from_recent(self, most: int, little: int) -> list[Logged]:
        """Begin near the end. Where the last log is `little` yet, the one before is shown too.

        Returns what began the log, where that lies further back.
        """
        if _size(self.path) < little:
            self._at = (self._sessions() or [self._at])[-2:][0]
        size = _size(self.path)
        if size <= most:
            return []
        first = decode((read_regular(self.path, 4096) or b"").partition(b"\n")[0])
        end = read_regular(self.path, most, size - most) or b""
        self._offset = self._skipped = size - most + end.find(b"\n") + 1
        return [first] if first else []

    def skipped_usage(self) -> list[Logged]:
        """What was used in the part of the log before the recent one. This takes longer than to show the rest."""
        if not self._skipped:
            return []
        size, found = 0, []
        with disk_errors("read", self.path), open(self.path, "rb") as file:
            for line in file:
                size += len(line)
                if size > self._skipped:
                    break
                if b'"usage"' in line[:60] and (event := decode(line)):
                    found.append(event)
        return found

    def new(self) -> list[Logged]:
        """The events since the last call. A long log comes in several parts."""
        events, after = read_events(self.path, self._offset)
        if after == self._offset and (later := self._next()):
            events, after = read_events(self.path, self._offset)  # the last it got before the next one was begun
            if after == self._offset:
                self._at, self._offset = later, 0
                return self.new()
        self._offset = after
        return events

    def _next(self) -> tuple[int, int] | None:
        run, iteration = self._at
        if not os.path.exists(self.path):
            return next((at for at in self._sessions() if at > self._at), None)
        return next((at for at in ((run, iteration + 1), (run + 1, 1)) if os.path.exists(self._path(*at))), None)

    def _path(self, run: int, iteration: int) -> str:
        return str(self._runs / f"{run:03d}" / "events" / f"{iteration:03d}.jsonl")

    def _sessions(self) -> list[tuple[int, int]]:
        """Every log that is there, by its run and its number."""
        found = (path.relative_to(self._runs).parts for path in self._runs.glob("*/events/*.jsonl"))
        return sorted((int(run), int(name[:-6])) for run, _, name in found if run.isdigit() and name[:-6].isdigit())


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.isfile(path) else 0


def has_output(path: Path | str) -> bool:
    """Whether the log holds anything of the agent's own."""
    return any(isinstance(event, _OF_THE_AGENT) for event in follow(path))


def last_activity(path: Path | str) -> float:
    """When the agent last did something, as far as its log tells. 0 if the log does not tell."""
    events = follow(path)
    return max((event.at for event in events if isinstance(event, SessionBegan | Used | _OF_THE_AGENT)), default=0)


class Activity(NamedTuple):
    """What a session has done so far, as its log tells."""

    usage: Usage
    tool: str = ""  # the calls that run now
    tool_began: float = 0  # when the oldest of them began
    last_tool: str = ""
    last_line: str = ""


def activity(path: Path | str) -> Activity:
    usage, tool, said = Usage(), "", ""
    running: dict[str, tuple[str, float]] = {}
    for event in follow(path):
        match event:
            case Used():
                usage = usage.plus(usage_of([event]))
            case ToolCalled():
                usage = usage.plus(usage_of([event]))
                tool = f"{event.name} {event.summary}".rstrip()
                running[event.id] = tool, event.at
            case ToolEnded():
                running.pop(event.id, None)
            case Text(thinking=False) | Output():
                said = event.text if event.text.strip() else said
    lines = [line for line in said.splitlines() if line.strip()]
    now = one_line(" + ".join(name for name, _ in running.values()), 200)
    began = min((at for _, at in running.values()), default=0.0)
    return Activity(usage, now, began, one_line(tool, 200), one_line(lines[-1], 200) if lines else "")


def _read(path: Path | str, offset: int) -> bytes:
    """Nothing where there is no log, or where an agent has put something else in its place."""
    with disk_errors("read", path):
        if os.path.islink(path) or not os.path.isfile(path):
            return b""
        return read_regular(path, _AT_ONCE, offset) or b""
