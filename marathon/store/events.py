"""The log of a session, one JSON line per event: written as it happens, replayed from the start or followed.

A log that becomes too long goes on in a new file. `001.jsonl` is always the one that is written, `001.part1.jsonl` the
oldest one. Of the oldest ones only the calls and the usage stay. An offset names the part and the byte in it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from marathon.core.budgets import Usage
from marathon.core.events import (
    PATHS,
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
from marathon.store.files import PRIVATE_DIR, PRIVATE_FILE, disk_errors, read_regular, write_all, write_atomic

PART = 8 * 1024 * 1024  # bytes after which a log goes on in a new file
WHOLE_PARTS = 4  # that stay as they are, with the one that is written
_LEFT_OUT = "What the agent said and printed here was removed, because its log became too long (%d MB are kept)."
_OFFSET = 1 << 40  # an offset is a part times this, and a byte
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

    def __init__(self, part: int = PART) -> None:
        self._part = part
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
            goes_on = os.O_CREAT if _parts(path) else 0
            if not goes_on and not (read_regular(path, len(START)) or b"").startswith(START):
                return  # the log of an older version stays as it is
            self._path, self._fd = path, os.open(path, os.O_WRONLY | goes_on | _APPEND, PRIVATE_FILE)
            size = os.path.getsize(path)
            if size and read_regular(path, 0, size - 1) != b"\n":  # the runner was killed while it wrote
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
            remove_log(path)  # whatever an agent may have put there
            self._path, self._fd = path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _APPEND, PRIVATE_FILE)

    def turn_over(self) -> None:
        """Go on in a new file where this one is full, whoever has filled it."""
        if self._fd < 0 or os.fstat(self._fd).st_size < self._part:
            return
        path, parts = self._path, _parts(self._path) + 1
        with disk_errors("write", path):
            os.close(self._fd)
            self._fd = -1
            os.replace(path, _older(path, parts))
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | _APPEND, PRIVATE_FILE)
            if (oldest := parts - WHOLE_PARTS + 1) > 0:
                _shorten(_older(path, oldest), WHOLE_PARTS * self._part)

    def _write_text(self) -> None:
        text, self._text = self._text, Text("")
        if text.text:
            self._write(text)

    def _write(self, event: Logged) -> None:
        if self._fd < 0:
            return
        try:
            self.turn_over()
            with disk_errors("write", self._path):
                write_all(self._fd, encode(event, time.time()))
        except BaseException:
            self.close()  # a full disk is said once; what follows is only for the screen
            raise


def _older(path: Path | str, part: int) -> str:
    return f"{str(path).removesuffix('.jsonl')}.part{part}.jsonl"


def _parts(path: Path | str) -> int:
    """How many files of a log are full."""
    return next(part for part in count() if not os.path.exists(_older(path, part + 1)))


def left_out_of(path: Path | str) -> str:
    """A sentence about what is no longer in a log. Empty for most logs."""
    short = _parts(path) - WHOLE_PARTS + 1
    return f"too long; of the first {short * PART >> 20} MB only the calls and their cost are kept" if short > 0 else ""


def remove_log(path: Path | str) -> None:
    for each in (*(_older(path, part + 1) for part in range(_parts(path))), path):
        Path(each).unlink(missing_ok=True)


def _shorten(path: str, kept: int) -> None:
    """Leave of a part what a session used and which calls it made. Readers that are past it do not notice."""
    short = b""
    with open(path, "rb") as file:
        for line in file:
            match decode(line):
                case SessionBegan() | Used() as event:
                    short += encode(event, event.at)
                case ToolCalled() as event:
                    paths = {name: value for name, value in event.arguments.items() if name in PATHS}
                    short += encode(replace(event, arguments=paths), event.at)
                case ToolEnded() as event:
                    short += encode(replace(event, text="", diff=""), event.at)
    write_atomic(Path(path), short + encode(Notice(_LEFT_OUT % (kept >> 20), "warning"), time.time()), durable=False)


def offset_near_end(path: Path | str, most: int) -> int:
    """From where on a log holds its last bytes, so many or somewhat fewer, and whole lines."""
    part = _parts(path)
    file, size = str(path), _size(str(path))
    if size < most and part:
        file, part = _older(path, part), part - 1
        size = _size(file)
    if size <= most:
        return part * _OFFSET
    end = read_regular(file, most, size - most) or b""
    return part * _OFFSET + size - most + end.find(b"\n") + 1


def read_events(path: Path | str, offset: int = 0) -> tuple[list[Logged], int]:
    """The events of a log from a byte offset on, and the offset to read from next.

    A long log comes in several parts. The end is reached when the offset stays the same. A line that is still being
    written is left for the next time.
    """
    part, start = divmod(offset, _OFFSET)
    older = _older(path, part + 1)
    data = b"" if (full := os.path.exists(older)) else _read(path, start)
    if full or os.path.exists(older):  # it became full while it was read
        data, full = _read(older, start), True
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) > _AT_ONCE:
        whole = data  # a part of an endless line, which is not an event of ours
    if full and not whole:
        return read_events(path, (part + 1) * _OFFSET)
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
        self._offset = self._skipped = offset_near_end(self.path, most)
        if not self._skipped:
            return []
        first = decode((read_regular(_file(self.path, 0), 4096) or b"").partition(b"\n")[0])
        return [first] if first else []

    def skipped_usage(self) -> list[Logged]:
        """What was used in the part of the log before the recent one. This takes longer than to show the rest."""
        if not self._skipped:
            return []
        found, (last, size) = [], divmod(self._skipped, _OFFSET)
        for part in range(last + 1):
            path = _file(self.path, part)
            with disk_errors("read", path), open(path, "rb") as file:
                for line in file:
                    size -= len(line) if part == last else 0
                    if size < 0:
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
        moved, self._offset = after > self._offset, after
        return events if events or not moved else self.new()

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


def _file(path: str, part: int) -> str:
    return older if os.path.exists(older := _older(path, part + 1)) else path


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
