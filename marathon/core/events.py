"""What happens during a marathon, as a few typed events; the screen and the log only consume them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SessionBegan:
    run: int
    iteration: int
    phase: str
    emoji: str
    agent: str
    log: str


@dataclass(frozen=True)
class Output:
    """A line (or, of a very long one, a piece) the agent printed."""

    stream: str
    text: str
    complete: bool = True


@dataclass(frozen=True)
class Raw:
    """A record of the agent's own protocol, for the log."""

    line: bytes


@dataclass(frozen=True)
class Said:
    """A piece of the assistant's text as it comes; a line ends where it says so."""

    text: str
    thinking: bool = False


@dataclass(frozen=True)
class ToolStarted:
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolEnded:
    name: str
    text: str
    failed: bool = False


@dataclass(frozen=True)
class Typing:
    """What the human is typing to the agent; empty when it was sent."""

    text: str


@dataclass(frozen=True)
class Ticked:
    """Time passed: a chance to redraw."""


@dataclass(frozen=True)
class SessionOver:
    iteration: int
    phase: str
    ending: str
    cause: str
    seconds: float
    turns: int = 0
    tokens: int = 0
    cost: float = 0
    steps: str = ""  # of the plan: 7/9 steps


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
    first: bool
    skippable: bool


@dataclass(frozen=True)
class Told:
    """A sentence for the human."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True)
class HumanNeeded:
    """The marathon cannot go on without a human: ring the bell."""

    text: str


Event = (
    SessionBegan
    | Output
    | Raw
    | Said
    | ToolStarted
    | ToolEnded
    | Typing
    | Ticked
    | SessionOver
    | Checking
    | Waiting
    | Told
    | HumanNeeded
)
Sink = Callable[[Event], None]
