"""What happens during a marathon, as typed events. Agents and the runner emit them; screen and log read them.

A logged event is a line of `runs/NNN/events/NNN.jsonl`:
`{"v": 1, "at": <epoch seconds>, "type": "notice", …its fields}`. A reader skips unknown types and fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from marathon.core.budgets import Usage, usage_in
from marathon.core.text import one_line
from marathon.core.validation import read

VERSION = 1
LONGEST_TEXT = 64 * 1024  # characters of one text in the log
_LONGEST_ARGUMENT = 4000  # if all arguments together are too long
_MOST_ARGUMENTS = 20
_WRITING_TOOLS = ("write", "edit", "multiedit", "notebookedit", "delete", "move")  # of all agents, in small letters
PATHS = ("path", "file_path", "filePath", "notebook_path")
_TELLING_ARGUMENTS = ("command", "path", "file_path", "pattern", "query", "url")
_ENCODER = json.JSONEncoder(default=vars, ensure_ascii=False)
START = b'{"v":'  # every line begins with this


@dataclass(frozen=True)
class Logged:
    """An event of the log. Its time is set when it is written."""

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
    log: str = ""  # the path of this session's log, which is not written to the log
    task: str = ""
    max_iterations: int = 0  # the number of the last session that is allowed; 0 means no limit
    max_cost: float = 0
    spent: float = 0  # what earlier sessions have used of max_cost


@dataclass(frozen=True)
class Text(Logged):
    """A piece of what the agent says or thinks. Pieces follow each other directly. A line ends at its newline."""

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
        """The most useful argument on one line, or all arguments as JSON."""
        for key in _TELLING_ARGUMENTS:
            if isinstance(value := self.arguments.get(key), str):
                return one_line(value[:LONGEST_TEXT], 200)
        return one_line(_ENCODER.encode(_bounded(self.arguments)), 200) if self.arguments else ""


@dataclass(frozen=True)
class ToolUpdated(Logged):
    """The last lines that a running call has printed. At most one is logged per second and call."""

    type = "tool_updated"
    id: str
    text: str


@dataclass(frozen=True)
class ToolEnded(Logged):
    """The result of a call. Calls may overlap, so the id says which one ended."""

    type = "tool_ended"
    id: str
    name: str
    text: str = ""
    failed: bool = False
    seconds: float = 0
    diff: str = ""  # of an edit, with the numbers of the lines, if the agent tells it


@dataclass(frozen=True)
class CompactionBegan(Logged):
    """The agent makes its context shorter."""

    type = "compaction_began"
    reason: str = ""


@dataclass(frozen=True)
class CompactionEnded(Logged):
    type = "compaction_ended"
    before: int = 0  # tokens; 0 where the agent does not say
    after: int = 0
    seconds: float = 0
    error: str = ""  # why the context stays as it was


@dataclass(frozen=True)
class RetryBegan(Logged):
    """A request to the model failed. The agent waits and sends it again."""

    type = "retry_began"
    attempt: int
    most: int
    wait: float  # seconds
    cause: str


@dataclass(frozen=True)
class RetryEnded(Logged):
    type = "retry_ended"
    attempt: int
    error: str = ""  # of the last attempt, if none succeeded


@dataclass(frozen=True)
class Output(Logged):
    """A line that the agent printed. A very long line comes in several pieces. Only the last piece is complete."""

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
class Context(Logged):
    """The model that works, and how much of its context is taken. Empty and 0 mean that nothing new is known."""

    type = "context"
    model: str = ""
    window: int = 0  # tokens that fit
    tokens: int = 0


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
    evidence: str = ""  # of the agent, where it judges


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


@dataclass(frozen=True)
class RunnerEnded(Logged):
    """The runner is about to end. What went wrong, if anything did, is an error for the human."""

    type = "runner_ended"
    code: int
    error: str = ""


# The events below are only for someone who watches now. They are not logged.


@dataclass(frozen=True)
class Typing:
    """What the human is typing to the agent, before and behind the cursor. It is empty when it was sent."""

    text: str
    behind: str = ""


@dataclass(frozen=True)
class Unfolding:
    """The human wants to see the whole of what is folded, or no longer."""


@dataclass(frozen=True)
class Ticked:
    """Time passed, so the screen may be redrawn."""


@dataclass(frozen=True)
class Checking:
    """A check has been running for some seconds."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Waiting:
    """A tick of a countdown."""

    reason: str
    left: float
    skippable: bool


@dataclass(frozen=True)
class HumanNeeded:
    """The marathon cannot continue without a human, or it is over, so the bell rings. The text names the task."""

    text: str


Event = Logged | Typing | Unfolding | Ticked | Checking | Waiting | HumanNeeded
Sink = Callable[[Event], None]
_KINDS: dict[str, type[Logged]] = {kind.type: kind for kind in Logged.__subclasses__()}


def encode(event: Logged, at: float) -> bytes:
    """The event as a line of the log. The line is bounded, whatever an agent sends."""
    fields = {name: _bounded(value) for name, value in vars(event).items() if name not in ("at", "log")}
    line = _ENCODER.encode({"v": VERSION, "at": round(at, 3), "type": event.type, **fields})
    return line.encode("utf-8", "replace") + b"\n"


def decode(line: bytes) -> Logged | None:
    """The event of a line of the log, or None if this version does not know it."""
    try:
        raw = json.loads(line)
        if raw["v"] < VERSION:
            return None
        return read(_KINDS[raw["type"]], raw)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def usage_of(events: Iterable[Event]) -> Usage:
    """The sum of what the messages and tool calls among these events used."""
    total = Usage()
    for event in events:
        match event:
            case Used():
                total = total.plus(usage_in({**vars(event.usage), "toolCalls": 0}))
            case ToolCalled():
                total = total.plus(Usage(toolCalls=1))
    return total


def paths_written(events: Iterable[Event]) -> set[str]:
    """The paths that tool calls name which write files. What a shell command writes is in no event."""
    called: dict[str, set[str]] = {}
    for event in events:
        if isinstance(event, ToolCalled) and event.name.lower() in _WRITING_TOOLS:
            paths = [path for key in PATHS if isinstance(path := event.arguments.get(key), str)]
            called[event.id] = {each for path in paths for each in (path, *path.split(", "))}  # Codex joins several
        elif isinstance(event, ToolEnded) and event.failed:
            called.pop(event.id, None)
    return set().union(*called.values())


def _bounded(value: Any) -> Any:
    """A field that fits into a line of the log. A note says how much was left out."""
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
