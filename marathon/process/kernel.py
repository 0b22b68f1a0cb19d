"""The Linux process attribute that Python has no function for."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_PR_SET_CHILD_SUBREAPER = 36


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl")


def become_subreaper() -> None:
    """Orphaned descendants become our children instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
