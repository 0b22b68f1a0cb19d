"""What the runner may do next, one value for each act, and how much of a wait is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from marathon.core.courses.workflow import Phase
from marathon.core.records import CriteriaFound, Gate, Record, WaitKind, WaitStarted


@dataclass(frozen=True)
class RunSession:
    """Start the agent and tell it what was wrong after the last session."""

    phase: Phase
    guidance: tuple[str, ...] = ()
    reflect: bool = False
    warnings: tuple[tuple[str, str], ...] = ()  # budgets that are nearly used up, each with its sentence


@dataclass(frozen=True)
class Wait:
    """Let time pass before the next session. `started` is set once the deadline is in the journal."""

    kind: WaitKind
    seconds: float
    reason: str
    started: WaitStarted | None = None


@dataclass(frozen=True)
class Note:
    """Write a record of the course's own, for example that the task moves to another phase."""

    record: Record


@dataclass(frozen=True)
class Prepare:
    """Run the command that prepares a new worktree."""

    command: str


@dataclass(frozen=True)
class Verify:
    """The agent proposed completion. Find out whether every criterion is met."""

    criteria: CriteriaFound


@dataclass(frozen=True)
class Measure:
    """Of a measured loop: the tree before any change, what a session left, or what the loop has gained in all."""

    what: Literal["baseline", "try", "gained"]
    hypothesis: str = ""


@dataclass(frozen=True)
class AddRow:
    """Add a row to a measured loop that follows from no measurement."""

    row: Mapping[str, Any]


@dataclass(frozen=True)
class Finish:
    """The task is complete. `recorded` is true if the journal already says so."""

    recorded: bool = False
    accepted: tuple[str, ...] = ()  # criteria that are not met, and that a human accepted


@dataclass(frozen=True)
class Halt:
    """Nothing can be done until a human restarts the task."""


# A Gate without a token is to be opened. A Gate with a token is open and waits for its answer.
Step = RunSession | Gate | Wait | Note | Prepare | Verify | Measure | AddRow | Finish | Halt


@dataclass(frozen=True)
class Now:
    """One moment on two clocks: the wall clock, and the time since this boot."""

    wall: float
    boot: str
    since_boot: float


def wait_record(kind: WaitKind, seconds: float, reason: str, now: Now) -> WaitStarted:
    return WaitStarted(
        kind=kind,
        seconds=seconds,
        reason=reason,
        until=now.wall + seconds,
        boot=now.boot,
        until_boot=now.since_boot + seconds,
    )


def left(wait: WaitStarted, now: Now) -> float:
    """The seconds until the deadline, never more than the wait was long.

    The clock of the boot counts. After another boot the wall clock counts.
    """
    same_boot = wait.boot and wait.boot == now.boot
    remaining = wait.until_boot - now.since_boot if same_boot else wait.until - now.wall
    return min(max(remaining, 0.0), wait.seconds)


def carried_over(wait: WaitStarted, now: Now) -> WaitStarted:
    """A wait of an earlier boot on the clock of this one. From now on, setting the wall clock changes nothing."""
    remaining = left(wait, now)
    return replace(wait, until=now.wall + remaining, boot=now.boot, until_boot=now.since_boot + remaining)
