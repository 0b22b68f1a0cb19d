"""What only Linux has.

Elsewhere, and everywhere with MARATHON_PORTABLE=1, HERE is False, this module does nothing, and the others do without.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from marathon.errors import MarathonError

HERE = sys.platform == "linux" and not os.environ.get("MARATHON_PORTABLE")

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def require_proc() -> None:
    """Before anything is changed. In a chroot or a bare container it may not be mounted."""
    if sys.platform == "linux" and not os.path.exists("/proc/self/stat"):
        raise MarathonError(
            "/proc is not mounted here, and without it no one can tell which processes an agent has started. "
            "Mount it: mount -t proc proc /proc   (with bwrap: --proc /proc)"
        )


def become_subreaper() -> None:
    """Orphaned descendants become our children instead of init's."""
    if HERE:
        prctl()(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """The kernel kills this process when its parent dies. For a fresh fork of `parent`."""
    if HERE:
        prctl()(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(1)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@functools.cache
def prctl() -> Any:
    """Asked for before a fork as well: to load it takes longer than all else in the start of a guardian."""
    import ctypes  # which `status` does without

    call = ctypes.CDLL(None).prctl
    call.argtypes = (ctypes.c_int, *4 * (ctypes.c_ulong,))
    return call
