"""Lets a program go on without its terminal. A fork goes on, and the process that the shell waits for ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from marathon.errors import MarathonError
from marathon.process import tree

_FROM_A_TERMINAL = (signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def go_on_in_background(take_over: Callable[[], None], told: Callable[[int], str]) -> None:
    """Returns in a fork, which has everything that was open here, but no terminal.

    The fork calls `take_over` first. Then this process prints what `told` says of the fork's pid and ends with 0.
    As safe as the guardian's fork, and for the same reason: a runner has one thread.
    """
    with contextlib.suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    tree.remember_beginning()
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _leave_terminal()
            take_over()
            os.write(tell, b".")
        except BaseException:
            os._exit(1)
    os.close(tell)
    if pid and not os.read(ready, 1):
        raise MarathonError("The marathon could not go on in the background. Is the disk full?")
    if pid:
        print(told(pid), flush=True)
        os._exit(0)
    os.close(ready)


def _leave_terminal() -> None:
    os.setsid()
    for number in _FROM_A_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
