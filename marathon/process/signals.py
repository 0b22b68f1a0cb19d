"""The runner's own signals, collected so that a loop can select on them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

COLLECTED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal that asks the runner to end arrived where nothing but an exception could say so."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


class Signals:
    """Collects inside `with`; the old handlers are back after it. `fd` is readable when one is pending."""

    fd: int

    def __init__(self, numbers: Sequence[int] = COLLECTED) -> None:
        self._numbers = numbers
        self._pending: deque[int] = deque()
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self.fd, self._wake = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._wake, False)
        self._old_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in self._numbers:
            # What was ignored when we started (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._handle) or signal.SIG_DFL
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._old.clear()
        signal.set_wakeup_fd(self._old_wake)
        os.close(self._wake)
        os.close(self.fd)

    def take(self) -> list[int]:
        """The pending signals, oldest first; they are pending no more."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass
        return [self._pending.popleft() for _ in range(len(self._pending))]

    def pending(self, *numbers: int) -> bool:
        return any(number in self._pending for number in numbers)  # not the other way: a signal may come meanwhile

    def obey(self) -> None:
        """Interrupted if a signal that asks us to end has come."""
        if asked := next((number for number in ENDING if self.pending(number)), None):
            self.take()
            raise Interrupted(asked)

    def pause(self, seconds: float) -> None:
        """Sleep. Interrupted for a signal that asks us to end."""
        deadline = time.monotonic() + seconds
        while (patience := deadline - time.monotonic()) > 0:
            if select.select([self.fd], [], [], patience)[0]:
                for signum in self.take():
                    if signum in ENDING:
                        raise Interrupted(signum)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Around a library with an event loop of its own, which may watch `fd`; afterwards all is as it was."""
        for number in self._old.keys() & {signal.SIGTSTP, signal.SIGCONT}:
            signal.signal(number, signal.SIG_DFL)
        try:
            yield
        finally:
            # The event loop may have left neither the handlers nor the wakeup fd as they were.
            for number in self._old:
                signal.signal(number, self._handle)
            signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._pending.append(signum)
        # The interpreter wrote to the wakeup fd already, unless a library took it away.
        with contextlib.suppress(OSError):
            os.write(self._wake, b"\0")
