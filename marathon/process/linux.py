"""What only Linux has.

Elsewhere, and everywhere with MARATHON_PORTABLE=1, HERE is False, this module does nothing, and the others do without.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from marathon.errors import MarathonError

HERE = sys.platform == "linux" and not os.environ.get("MARATHON_PORTABLE")

GUARDIAN = "marathon-guard"  # the name of a session's guardian; no other process can change it
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


def be_known_as(name: str) -> None:
    """In the table of processes, whatever this process was started as."""
    if HERE:
        Path("/proc/self/comm").write_text(name)


def peer_of(connection: socket.socket) -> int:
    """The process at the other end of a socket on this machine, as it was when it connected; 0 if no one can tell."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", given)[0])
        if sys.platform == "darwin":
            return connection.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
    return 0


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
