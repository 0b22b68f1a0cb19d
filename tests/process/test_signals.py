"""Collecting the runner's own signals."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Iterator

import pytest

from marathon.process.signals import COLLECTED, ENDING, Interrupted, Signals


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


@pytest.mark.parametrize("number", ENDING)
def test_raising_tears_foreign_code_apart_once(signals: Signals, number: int) -> None:
    with pytest.raises(Interrupted) as caught, signals.raising():
        os.kill(os.getpid(), number)
    assert caught.value.signum == number
    os.kill(os.getpid(), number)
    assert signals.take() == [number]


def test_a_second_signal_does_not_disturb_the_cleanup_after_the_first(signals: Signals) -> None:
    cleaned = []

    def foreign_code() -> None:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)

    with pytest.raises(Interrupted) as caught, signals.raising():
        foreign_code()
    assert cleaned
    assert caught.value.signum == signal.SIGHUP
    assert signals.take() == [signal.SIGTERM]


def test_a_signal_from_before_raises_at_once(signals: Signals) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Interrupted), signals.raising():
        pytest.fail("the body must not run")


def test_raising_survives_an_event_loop_that_takes_the_signals_for_itself(signals: Signals) -> None:
    async def use() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGWINCH, lambda: None)

    with signals.raising():
        asyncio.run(use())
    os.kill(os.getpid(), signal.SIGINT)
    assert readable(signals)
    assert signals.take() == [signal.SIGINT]
