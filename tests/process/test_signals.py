"""Collecting the runner's own signals."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from marathon.process.signals import COLLECTED, Signals


@pytest.fixture
def signals() -> Iterator[Signals]:
    before = {number: signal.getsignal(number) for number in COLLECTED}
    with Signals() as collecting:
        yield collecting
    assert {number: signal.getsignal(number) for number in COLLECTED} == before
    assert signal.set_wakeup_fd(-1) == -1


def readable(signals: Signals) -> bool:
    return bool(select.select([signals.fd], [], [], 0)[0])


def test_signals_are_taken_in_order_and_once(signals: Signals) -> None:
    assert not readable(signals)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGWINCH, signal.SIGHUP):
        os.kill(os.getpid(), number)
    assert readable(signals)
    assert signals.take() == [signal.SIGTERM, signal.SIGINT, signal.SIGWINCH, signal.SIGHUP]
    assert signals.take() == []
    assert not readable(signals)


def test_a_signal_may_come_while_one_is_looked_for(signals: Signals) -> None:
    resizing = f"import os\nfor _ in range(20_000): os.kill({os.getpid()}, {int(signal.SIGWINCH)})"
    with subprocess.Popen([sys.executable, "-c", resizing]) as window:
        while window.poll() is None:
            assert not signals.pending(signal.SIGTERM)
    assert signals.pending(signal.SIGWINCH)


def test_a_signal_ends_a_select_that_waits(signals: Signals) -> None:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert select.select([signals.fd], [], [], 30)[0]
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert signals.take() == [signal.SIGTERM]


def test_what_was_ignored_stays_ignored() -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.take() == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old)


def test_a_foreign_event_loop_can_watch_for_our_signals(signals: Signals) -> None:
    async def use() -> list[int]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, lambda: None)  # which takes the wakeup fd away from us
        seen: asyncio.Future[list[int]] = loop.create_future()
        loop.add_reader(signals.fd, lambda: seen.set_result(signals.take()))
        loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)
        try:
            return await asyncio.wait_for(seen, 30)
        finally:
            loop.remove_reader(signals.fd)

    with signals.lent():
        assert asyncio.run(use()) == [signal.SIGTERM]


def test_a_foreign_event_loop_leaves_our_handlers_as_they_were(signals: Signals) -> None:
    async def use() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGWINCH, lambda: None)

    with signals.lent():
        assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
        asyncio.run(use())
    for number in (signal.SIGINT, signal.SIGTSTP):
        os.kill(os.getpid(), number)
    assert readable(signals)
    assert signals.take() == [signal.SIGINT, signal.SIGTSTP]
