"""Lend the controlling terminal to a child, take it back as it was, and step aside for the shell."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from collections.abc import Iterator
from typing import Any

# What a full-screen program may have left behind: held output, alternate screen, mouse, focus, paste, theme reports,
# kitty keys, hidden cursor, lines that are cut off, a progress mark, text below the cursor. Leaving the alternate
# screen restores the cursor of the program that entered it last, in tmux even on the main screen. So it is entered
# first, which changes nothing inside it.
RESET = (
    b"\x1b[?2026l\x1b[?1049h\x1b[?1049l"
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?2031l"
    b"\x1b[<u\x1b[?25h\x1b[?7h\x1b]9;4;0\x07\x1b[0m\x1b[J"
)

_FOREGROUND_TRIES = 100  # each one is a stop, except where the kernel ignores it
_TROUBLE = (OSError, termios.error)  # a terminal whose window was closed answers everything with EIO


def interactive() -> bool:
    """Whether someone can be asked, because both stdin and stdout are terminals."""
    return os.isatty(0) and os.isatty(1)


def on_terminal() -> bool:
    """Interactive, and the terminal understands more than plain lines."""
    return interactive() and os.environ.get("TERM", "") not in ("", "dumb")


@contextlib.contextmanager
def blocked(*numbers: int) -> Iterator[None]:
    old = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def suspend_self(signum: int = signal.SIGTSTP, *, job: bool) -> None:
    """Stop like any program under job control; returns when continued.

    With `job` the whole process group stops, as after a Ctrl+Z, so that the shell sees the job stopped.
    Where no shell could ever continue us the kernel ignores the signal, and this returns at once.
    """
    old = signal.signal(signum, signal.SIG_DFL)
    try:
        os.kill(0 if job else os.getpid(), signum)
    finally:
        signal.signal(signum, old)


class Terminal:
    """The controlling terminal with the modes it had when we first saw it. OSError if there is none."""

    def __init__(self) -> None:
        # Opened anew, so that not blocking is our own affair: a terminal held by Ctrl+S must not hold us.
        self.fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._saved = termios.tcgetattr(self.fd)
        self._modes: list[Any] | None = None  # the child's, while it is suspended
        self.lent = False  # the foreground may not be ours
        self.used = False  # a program has had it, and may have changed more than the modes

    def close(self) -> None:
        os.close(self.fd)

    def belongs_to(self, *groups: int) -> bool:
        try:
            return os.tcgetpgrp(self.fd) in groups
        except OSError:
            return False

    def wait_for_foreground(self) -> None:
        """A background job that needs the terminal stops until the shell brings it forward."""
        for _ in range(_FOREGROUND_TRIES):
            if self.belongs_to(os.getpgrp()):
                return
            suspend_self(signal.SIGTTIN, job=True)

    def give(self, pgid: int) -> None:
        self.lent = True
        with blocked(signal.SIGTTOU), contextlib.suppress(*_TROUBLE):
            if self._modes is not None:
                termios.tcsetattr(self.fd, termios.TCSANOW, self._modes)
                self._modes = None
            os.tcsetpgrp(self.fd, pgid)

    def take_back(self, *, remember: bool = False, drop: bool = False) -> None:
        """Foreground, modes and screen as they were; `remember` keeps the child's modes for give().

        `drop` takes away what was typed, or pushed into the terminal, and not read: it was not for who reads next.
        """
        if not self.lent:
            return
        self.lent = False
        with blocked(signal.SIGTTOU), contextlib.suppress(*_TROUBLE):
            if remember:
                self._modes = termios.tcgetattr(self.fd)
            os.tcsetpgrp(self.fd, os.getpgrp())
            termios.tcsetattr(self.fd, termios.TCSANOW, self._saved)
            if drop:
                termios.tcflush(self.fd, termios.TCIFLUSH)
            self._reset()

    def repair_after(self, *groups: int) -> None:
        """The runner is dead: put right what these left, but not the modes of a shell that has moved on."""
        with blocked(signal.SIGTTOU), contextlib.suppress(*_TROUBLE):
            if self.belongs_to(*groups):
                termios.tcsetattr(self.fd, termios.TCSANOW, self._saved)
            self._reset()

    def _reset(self) -> None:
        if self.used:
            os.write(self.fd, RESET)
