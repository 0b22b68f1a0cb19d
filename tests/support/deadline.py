"""Signals as a test expects them, whatever started the suite, and an end for a test that would hang."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # which it ignores itself, and restores for children
_LATE = signal.SIGPROF  # no test and no code of ours uses it


def default_signals() -> None:
    """What nohup and a shell without job control ignore, and what anything blocks, would reach every child."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - set(_OF_PYTHON):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fails the test where it waits then. Again and again, because a test may catch what it raises."""
    over, main = threading.Event(), threading.get_ident()

    def watch() -> None:
        patience = seconds
        while not over.wait(patience):
            signal.pthread_kill(main, _LATE)
            patience = 5.0

    def late(*_: object) -> None:
        if not over.is_set():
            pytest.fail(f"not over after {seconds:g} s")

    before = signal.signal(_LATE, late)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.signal(_LATE, before)
