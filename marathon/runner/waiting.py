"""Waits until a deadline that survives a restart. On a terminal any key ends the wait."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from marathon.core import events
from marathon.core.events import WaitBegan, Waiting
from marathon.core.records import WaitEnded, WaitStarted
from marathon.core.steps import Wait, carried_over, left, wait_record
from marathon.process.clock import time_of_day
from marathon.process.keys import Keys
from marathon.runner.background import detach, may_detach

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
    then = time_of_day(now.wall + left(step.started, now), now.wall)
    reason = f"waiting: {step.reason}" if step.kind == "agent" else f"trying again at {then}: {step.reason}"
    early = _count_down(marathon, step.started, reason)
    if not marathon.stops.asked():
        marathon.record(WaitEnded(early=early))
        marathon.emit(events.WaitEnded(early))


def _count_down(marathon: Marathon, started: WaitStarted, reason: str) -> bool:
    """True if a key ended it early. The key d lets the marathon go on in the background."""
    marathon.emit(WaitBegan(reason, left(started, marathon.now())))
    marathon.end_programs()
    with Keys() if marathon.surface.interactive else contextlib.nullcontext() as keys:
        while (seconds := left(started, marathon.now())) > 0 and not marathon.stops.asked():
            attended = marathon.surface.interactive
            marathon.emit(Waiting(reason, seconds, skippable=attended))
            patience = min(READ_AGAIN, seconds)
            if keys is None or not attended:
                marathon.signals.pause(patience)
            elif (key := keys.read(patience, marathon.signals)) == "d" and may_detach(marathon):
                keys.restore()
                detach(marathon)
            elif key is not None:
                return True
    return False
