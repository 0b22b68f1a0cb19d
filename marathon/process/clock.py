"""Clocks that a changed wall clock and a sleeping laptop do not fool."""

from __future__ import annotations

import functools
import time
from datetime import datetime

from marathon.core.steps import Now
from marathon.process import linux

# Both go on while the machine sleeps: on macOS the monotonic clock does, on Linux it does not.
_CLOCK = time.CLOCK_BOOTTIME if linux.HERE else time.CLOCK_MONOTONIC


def moment() -> Now:
    """This moment on both clocks."""
    return Now(time.time(), boot_id(), since_boot())


def since_boot() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(_CLOCK)


def time_of_day(then: float, now: float) -> str:
    """A moment as a clock on this wall says it, with the day if that is another one."""
    there, here = datetime.fromtimestamp(then), datetime.fromtimestamp(now)
    return f"{there:%H:%M:%S}" if there.date() == here.date() else f"{there:%Y-%m-%d %H:%M}"


@functools.cache
def boot_id() -> str:
    """Names this boot. The clock above means nothing in another one, and nothing where this is empty."""
    try:
        return linux.boot_id() if linux.HERE else ""
    except OSError:
        return ""
