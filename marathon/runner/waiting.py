"""Lets time pass until a deadline that survives a restart; on a terminal any key goes on at once."""

from __future__ import annotations

import contextlib
import select
import time

from marathon.core import events
from marathon.core.events import WaitBegan, Waiting
from marathon.core.records import WaitEnded, WaitStarted
from marathon.core.steps import Wait
from marathon.core.wait import carried_over, left, wait_record
from marathon.process.keys import Keys
from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.runner.journal import Ledger
from marathon.runner.marathon import Workshop
from marathon.runner.stops import Stops

LOOK_EVERY = 1.0


def wait(shop: Workshop, ledger: Ledger, step: Wait, stops: Stops, *, keys: bool) -> None:
    """Record the deadline; or, once it is recorded, count down to it."""
    now = shop.now()
    if step.started is None:
        ledger.record(wait_record(step.kind, step.seconds, step.reason, now))
        return
    if step.started.boot != now.boot:
        ledger.record(carried_over(step.started, now))
        return
    reason = f"waiting: {step.reason}" if step.kind == "agent" else f"the agent failed ({step.reason}); trying again"
    early = _count_down(shop, step.started, reason, stops, keys)
    if not stops.asked():
        ledger.record(WaitEnded(early=early))
        shop.emit(events.WaitEnded(early))


def _count_down(shop: Workshop, started: WaitStarted, reason: str, stops: Stops, keys: bool) -> bool:
    """True if a key ended it early."""
    shop.emit(WaitBegan(reason, left(started, shop.now())))
    with Keys() if keys else contextlib.nullcontext() as pressed:
        while (seconds := left(started, shop.now())) > 0 and not stops.asked():
            shop.emit(Waiting(reason, seconds, skippable=keys))
            patience = min(LOOK_EVERY, seconds)
            if pressed is None:
                _pause(patience, shop.signals)
            elif pressed.read(patience, shop.signals) is not None:
                return True
    return False


def _pause(seconds: float, signals: Signals) -> None:
    deadline = time.monotonic() + seconds
    while (patience := deadline - time.monotonic()) > 0:
        if select.select([signals.fd], [], [], patience)[0]:
            for signum in signals.take():
                if signum in ENDING:
                    raise Interrupted(signum)
