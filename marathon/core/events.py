"""What happens during a marathon, as a few typed events: emitted by agents and the runner, read by screen and log.

A logged event has one JSON form, a line of `runs/NNN/events/NNN.jsonl`:
`{"v": 1, "at": <epoch seconds>, "type": "notice", …its fields}`. A reader skips the types and fields it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

from marathon.core.budgets import Usage, usage_in
from marathon.core.text import one_line

VERSION = 1
LONGEST_TEXT = 64 * 1024  # characters of one text in the log
_LONGEST_ARGUMENT = 4000  # of one argument, where all of them together are too long
_MOST_ARGUMENTS = 20
_TELLING_ARGUMENTS = ("command", "path", "file_path", "pattern", "query", "url")
_ENCODER = json.JSONEncoder(default=vars, ensure_ascii=False)
START = b'{"v":'  # of every line


@dataclass(frozen=True)
class Logged:
    """An event that stands in the log. Its time is set when it is written there."""

    type: ClassVar[str]
    at: float = field(default=0.0, kw_only=True, compare=False)


@dataclass(frozen=True)
class SessionBegan(Logged):
    type = "session_began"
    run: int
    iteration: int
    phase: str
    agent: str
    emoji: str = ""
    log: str = ""  # the file for this session's events; a path of this machine, so the log does not repeat it


@dataclass(frozen=True)
class Text(Logged):
    """A piece of what the agent says or thinks. Pieces follow each other directly; a line ends at its newline."""

    type = "text"
    text: str
    thinking: bool = False


@dataclass(frozen=True)
class ToolCalled(Logged):
    type = "tool_called"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The arguments on one line: the one that tells most, or all of them as JSON."""
        for key in _TELLING_ARGUMENTS:
            if isinstance(value := self.arguments.get(key), str):
                return one_line(value[:LONGEST_TEXT], 200)
        return one_line(_ENCODER.encode(_bounded(self.arguments)), 200) if self.arguments else ""


@dataclass(frozen=True)
class ToolEnded(Logged):
    """The result of a call. Calls may overlap, so the id says which one ended."""

    type = "tool_ended"
    id: str
    name: str
    text: str = ""
    failed: bool = False
    seconds: float = 0


@dataclass(frozen=True)
class Output(Logged):
    """A line the agent printed. A very long line comes as several pieces, of which only the last is complete."""

    type = "output"
    stream: str
    text: str
    complete: bool = True


@dataclass(frozen=True)
class Used(Logged):
    """What one message of the model used. Tool calls are counted from their own events."""

    type = "usage"
    usage: Usage


@dataclass(frozen=True)
class Notice(Logged):
    """A sentence for the human."""

    type = "notice"
    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True)
class WaitBegan(Logged):
    type = "wait_began"
    reason: str
    seconds: float


@dataclass(frozen=True)
class WaitEnded(Logged):
    type = "wait_ended"
    early: bool = False


@dataclass(frozen=True)
class CheckEnded(Logged):
    type = "check_ended"
    name: str
    met: bool
    seconds: float = 0
    reason: str = ""
    command: str = ""


@dataclass(frozen=True)
class GateOpened(Logged):
    type = "gate_opened"
    reason: str
    phase: str
    message: str = ""


@dataclass(frozen=True)
class GateAnswered(Logged):
    type = "gate_answered"
    choice: str
    by: str
    phase: str = ""


@dataclass(frozen=True)
class SessionEnded(Logged):
    type = "session_ended"
    iteration: int
    phase: str
    ending: str
    cause: str = ""
    seconds: float = 0
    usage: Usage | None = None
    steps: str = ""  # of the plan: 7/9 steps


# What follows is only for who watches now; it is not logged.


@dataclass(frozen=True)
class Typing:
    """What the human is typing to the agent; empty when it was sent."""

    text: str


@dataclass(frozen=True)
class Ticked:
    """Time passed: a chance to redraw."""


@dataclass(frozen=True)
class Checking:
    """A check is under way: which, and for how long."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Waiting:
    """A countdown's tick."""

    reason: str
    left: float
    skippable: bool


@dataclass(frozen=True)
class HumanNeeded:
    """The marathon cannot continue without a human: ring the bell."""

    text: str


Event = Logged | Typing | Ticked | Checking | Waiting | HumanNeeded
Sink = Callable[[Event], None]
_KINDS = {kind.type: kind for kind in Logged.__subclasses__()}


def encode(event: Logged, at: float) -> bytes:
    """The event as its line of the log. Nothing an agent sends makes this line longer than a few hundred kilobytes."""
    fields = {name: _bounded(value) for name, value in vars(event).items() if name not in ("at", "log")}
    line = _ENCODER.encode({"v": VERSION, "at": round(at, 3), "type": event.type, **fields})
    return line.encode("utf-8", "replace") + b"\n"


def decode(line: bytes) -> Logged | None:
    """The event on a line of the log; None for one that this version does not know."""
    try:
        raw = json.loads(line)
        if raw["v"] < VERSION:
            return None
        event: Logged = _adapter(raw["type"]).validate_python(raw)
        return event
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def usage_of(events: Iterable[Event]) -> Usage:
    """What the messages and tool calls among these events add up to."""
    total = Usage()
    for event in events:
        match event:
            case Used():
                total = total.plus(usage_in({**vars(event.usage), "toolCalls": 0}))
            case ToolCalled():
                total = total.plus(Usage(toolCalls=1))
    return total


@cache
def _adapter(kind: str) -> Any:
    from pydantic import TypeAdapter  # here, because it is slow to import and only readers need it

    return TypeAdapter(_KINDS[kind])


def _bounded(value: Any) -> Any:
    """A field that fits into a line of the log; what is left out is said."""
    if isinstance(value, str):
        return _cut(value, LONGEST_TEXT)
    if not isinstance(value, Mapping):
        return value
    try:
        if len(_ENCODER.encode(dict(value))) <= LONGEST_TEXT:
            return dict(value)
        texts = {name: each if isinstance(each, str) else _ENCODER.encode(each) for name, each in value.items()}
    except (ValueError, TypeError, RecursionError):
        return {}
    return {_cut(name, 200): _cut(texts[name], _LONGEST_ARGUMENT) for name in list(texts)[:_MOST_ARGUMENTS]}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters were left out]"
