"""Waits until a deadline that survives a restart. On a terminal a human may type for the next session, or go on now."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING

from marathon.core import events
from marathon.core.events import WaitBegan, Waiting
from marathon.core.hours import opens_at
from marathon.core.records import WaitEnded, WaitStarted
from marathon.core.steps import Wait, carried_over, left, wait_record
from marathon.process.clock import time_of_day
from marathon.process.input_line import Typed, for_next_session
from marathon.runner.background import detach, may_detach

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

READ_AGAIN = 1.0


def closed_for(marathon: Marathon) -> float:
    """The seconds until the human's hours begin. 0 in them, and where a human said to go on before."""
    hours, now = marathon.options.limits.hours, marathon.now()
    opens = (
        opens_at(hours, datetime.fromtimestamp(now.wall)) if hours and now.wall >= marathon.life.free_until else None
    )
    return max(0.0, opens.timestamp() - now.wall) if opens else 0.0


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
    lead = {"agent": "waiting", "hours": f"going on at {then}"}.get(step.kind, f"trying again at {then}")
    reason = f"{lead}: {step.reason}"
    early = _count_down(marathon, step.started, reason)
    if not marathon.stops.asked():
        marathon.record(WaitEnded(early=early))
        marathon.emit(events.WaitEnded(early))


def _count_down(marathon: Marathon, started: WaitStarted, reason: str) -> bool:
    """True if the human ended it early, with an empty Enter. Words are kept for the next session."""
    marathon.emit(WaitBegan(reason, left(started, marathon.now())))
    marathon.end_programs()
    line, over = marathon.line, False
    _asked_to_go_on(marathon)  # what was meant for an earlier wait

    def obey(typed: Typed) -> None:
        nonlocal over
        if typed.leaves and may_detach(marathon):
            line.keys.restore()
            detach(marathon)
        elif typed.text:
            marathon.store.put("steer", text=typed.text, later=True)
            marathon.emit(for_next_session(typed.text))
        else:
            over = typed.key == "enter"

    with line.keys if marathon.surface.interactive else contextlib.nullcontext():
        try:
            while not over and (seconds := left(started, marathon.now())) > 0 and not marathon.stops.asked():
                attended = marathon.surface.interactive
                marathon.emit(Waiting(reason, seconds, skippable=attended))
                patience = min(READ_AGAIN, seconds)
                if _asked_to_go_on(marathon):
                    over = True
                    continue
                if not attended:
                    marathon.signals.pause(patience)
                elif typed := line.hear(patience):
                    obey(typed)
            line.finish("The wait", obey)
        finally:
            line.give_up()
    return over


def _asked_to_go_on(marathon: Marathon) -> bool:
    """Whether an empty Enter came from an attached terminal. It is used up."""
    asked = [message for message in marathon.store.messages() if message.kind == "go on"]
    for message in asked:
        marathon.store.remove(message.id)
    return bool(asked)
