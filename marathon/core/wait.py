"""How much of a wait is left: by the clock of the boot it began in, else by the wall clock, never more than it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from marathon.core.records import WaitStarted


@dataclass(frozen=True)
class Now:
    """One moment on the two clocks."""

    wall: float
    boot: str
    since_boot: float


def wait_record(kind: Literal["agent", "retry"], seconds: float, reason: str, now: Now) -> WaitStarted:
    return WaitStarted(
        kind=kind,
        seconds=seconds,
        reason=reason,
        until=now.wall + seconds,
        boot=now.boot,
        until_boot=now.since_boot + seconds,
    )


def left(wait: WaitStarted, now: Now) -> float:
    """Seconds until the deadline; 0 when it has passed."""
    same_boot = wait.boot and wait.boot == now.boot
    remaining = wait.until_boot - now.since_boot if same_boot else wait.until - now.wall
    return min(max(remaining, 0.0), wait.seconds)


def carried_over(wait: WaitStarted, now: Now) -> WaitStarted:
    """A wait of another boot on the clock of this one: from here on, setting the wall clock changes nothing."""
    remaining = left(wait, now)
    return replace(wait, until=now.wall + remaining, boot=now.boot, until_boot=now.since_boot + remaining)
