"""Clocks that a changed wall clock and a sleeping laptop do not fool."""

from __future__ import annotations

import functools
import time
from pathlib import Path

from marathon.core.steps import Now


def moment() -> Now:
    """This moment on both clocks."""
    return Now(time.time(), boot_id(), since_boot())


def since_boot() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@functools.cache
def boot_id() -> str:
    """Names this boot; the clock above means nothing in another one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
