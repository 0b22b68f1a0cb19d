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
class Ticked:
    """Time passed: a chance to redraw."""


@dataclass(frozen=True)
class SessionOver:
    iteration: int
    phase: str
    ending: str
    cause: str
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


Event = SessionBegan | Output | Ticked | SessionOver | Waiting | Told | HumanNeeded
Sink = Callable[[Event], None]
