"""Waits until a deadline that survives a restart. On a terminal any key ends the wait."""

from __future__ import annotations

import contextlib
import select
import time
from typing import TYPE_CHECKING

from marathon.core import events
from marathon.core.events import WaitBegan, Waiting
from marathon.core.records import WaitEnded, WaitStarted
from marathon.core.steps import Wait, carried_over, left, wait_record
from marathon.process.keys import Keys
from marathon.process.signals import ENDING, Interrupted, Signals

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

READ_AGAIN = 1.0


def wait(marathon: Marathon, step: Wait) -> None:
    """Record the deadline; or, once it is recorded, count down to it."""
    now = marathon.now()
    if step.started is None:
        marathon.record(wait_record(step.kind, step.seconds, step.reason, now))
        return
    if step.started.boot != now.boot:
        marathon.record(carried_over(step.started, now))
        return
    reason = f"waiting: {step.reason}" if step.kind == "agent" else f"{step.reason}; trying again"
    early = _count_down(marathon, step.started, reason)
    if not marathon.stops.asked():
        marathon.record(WaitEnded(early=early))
        marathon.emit(events.WaitEnded(early))


def _count_down(marathon: Marathon, started: WaitStarted, reason: str) -> bool:
    """True if a key ended it early."""
    keys = marathon.surface.interactive
    marathon.emit(WaitBegan(reason, left(started, marathon.now())))
    with Keys() if keys else contextlib.nullcontext() as pressed:
        while (seconds := left(started, marathon.now())) > 0 and not marathon.stops.asked():
            marathon.emit(Waiting(reason, seconds, skippable=keys))
            patience = min(READ_AGAIN, seconds)
            if pressed is None:
                pause(patience, marathon.signals)
            elif pressed.read(patience, marathon.signals) is not None:
                return True
    return False


def pause(seconds: float, signals: Signals) -> None:
    deadline = time.monotonic() + seconds
    while (patience := deadline - time.monotonic()) > 0:
        if select.select([signals.fd], [], [], patience)[0]:
            for signum in signals.take():
                if signum in ENDING:
                    raise Interrupted(signum)
