"""A wait the agent asked for: shown, survives its runner, takes words, and an empty Enter ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from marathon.process.keys import TYPING_GAP
from tests.process.driver import Pty, until
from tests.support.world import Entry, World, research

WAITS: Entry = {"write": {"a.md": "{n}"}, "state": {"state": "running", "phase": "research"}, "wait": [5, "CI"]}


def spent(world: World, seconds: float) -> None:
    """As if that much of the wait had passed while no runner lived."""
    records = world.journal()
    for record in records:
        if record["type"] == "wait_started":
            record["until"] -= seconds
            record["until_boot"] -= seconds
    world.rewrite_journal(records)


def seconds_left(shown: str) -> int:
    match = re.search(r"(\d+)m (\d\d)s left", shown)
    assert match, shown
    return int(match[1]) * 60 + int(match[2])


def test_a_wait_survives_its_runner_with_its_deadline_and_an_empty_enter_ends_it(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(WAITS, research())
    terminal = on_terminal()
    shown = terminal.expect(b"Enter go on now").decode()
    assert "waiting: CI" in shown
    assert "did not write STATE.json" not in shown, "the wait says all there is to say"
    assert 240 < seconds_left(shown) <= 300
    os.kill(terminal.pid, signal.SIGKILL)
    assert terminal.wait() == -signal.SIGKILL
    spent(world, 120)
    assert 120 < seconds_left(world.cli("status", "task").stdout) <= 180
    again = on_terminal()
    assert 120 < seconds_left(again.expect(b"Enter go on now").decode()) <= 180
    assert len(world.records("wait_started")) == 1
    assert world.sessions() == 1
    again.send(b"\r")
    again.expect(b"[q]      Quit marathon")
    assert world.sessions() == 2
    assert "You asked to wait 5m 00s for: CI. The human ended the wait early" in world.prompt(2)
    assert world.records("wait_ended")[0]["early"] is True


def test_words_typed_in_a_wait_are_for_the_next_session_and_no_letter_acts(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(WAITS, research())
    terminal = on_terminal()
    terminal.expect(b"Enter go on now")
    for letter in ("d", "b", "q", "\x7f", "\x7f", "on't touch the API"):
        terminal.send(letter.encode())
        time.sleep(TYPING_GAP + 0.2)
    terminal.expect("› don't touch the API".encode())
    terminal.expect(b"Enter keeps it for the next session")
    terminal.send(b"\r")
    terminal.expect("→ for the next session: don't touch the API".encode())
    terminal.expect(b"Enter go on now")
    assert world.sessions() == 1, "words do not end a wait"
    terminal.send(b"half a thou\x1b")
    time.sleep(0.2)
    terminal.send(b"\r")
    terminal.expect(b"[q]      Quit marathon")
    assert "> don't touch the API" in world.prompt(2)
    assert "half a thou" not in world.prompt(2), "Esc drops a line"
    assert world.records("wait_ended")[0]["early"] is True
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert terminal.cooked()


def test_a_line_that_is_begun_when_the_wait_is_over_can_be_ended(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(WAITS, research())
    first = on_terminal()
    first.expect(b"Enter go on now")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    spent(world, 296)
    terminal = on_terminal()
    terminal.expect(b"Enter go on now")
    terminal.send(b"mind the ")
    terminal.expect(b"The wait is over. Enter keeps your line for the next session.")
    terminal.send(b"gap\r")
    terminal.expect("→ for the next session: mind the gap".encode())
    terminal.expect(b"[q]      Quit marathon")
    assert "> mind the gap" in world.prompt(2)


def test_words_that_no_enter_ended_are_shown_when_a_wait_is_interrupted(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(WAITS)
    terminal = on_terminal()
    terminal.expect(b"Enter go on now")
    terminal.send(b"mind the gap")
    terminal.expect("› mind the gap".encode())
    terminal.send(b"\x03")
    terminal.expect(b"Not sent: mind the gap")
    assert terminal.wait() == 130
    assert terminal.cooked()


def test_a_wait_that_is_over_while_nobody_waited_is_no_wait_any_more(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(WAITS, research())
    terminal = on_terminal()
    terminal.expect(b"Enter go on now")
    terminal.send(b"\x03")
    assert terminal.wait() == 130
    assert "waits for CI" in world.cli("list", ".").stdout
    spent(world, 600)
    assert "Waits for: a start: its wait is over" in world.cli("status", "task").stdout
    assert "waits for CI" not in world.cli("list", ".").stdout


def test_a_wait_whose_time_is_over_goes_on_by_itself(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(WAITS, research())
    runner = in_background()
    until(
        lambda: (world.task / ".marathon/journal.jsonl").exists() and world.records("wait_started"), "the wait begins"
    )
    runner.kill()
    runner.wait()
    spent(world, 300)
    assert world.run().returncode == 3
    assert world.sessions() == 2
    assert world.records("wait_ended")[0]["early"] is False


def test_a_wait_is_waited_for_although_the_runner_died_before_the_session_ended(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script({**WAITS, "hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(1), "the session has asked for its wait")
    runner.kill()
    runner.wait()
    again = in_background()
    until(lambda: world.records("wait_started"), "the wait begins")
    assert world.sessions() == 1
    assert [record["ending"] for record in world.records("session_ended")] == ["lost"]
    again.kill()
    again.wait()
    spent(world, 300)
    assert world.run().returncode == 3
    assert "That time is over." in world.prompt(2)


@pytest.mark.parametrize(("minutes", "seconds"), [(5, 300), (1000, 3600), (0.1, 60)])
def test_a_wait_can_be_stopped_and_is_still_there_afterwards(
    world: World, in_background: Callable[..., subprocess.Popen[str]], minutes: float, seconds: float
) -> None:
    """An agent that asks for it without our tools gets no more than an hour, and no less than a minute."""
    asks = {"state": "running", "phase": "research", "wait": {"minutes": minutes, "reason": "CI"}}
    world.script({"write": {"a.md": "{n}"}, "state": asks}, research())
    runner = in_background()
    until(
        lambda: (world.task / ".marathon/journal.jsonl").exists() and world.records("wait_started"), "the wait begins"
    )
    assert world.cli("stop", "task").returncode == 0
    runner.communicate(timeout=30)
    assert runner.returncode == 3
    assert world.records("wait_started")[0]["seconds"] == seconds
    assert "CI" in json.loads(world.cli("status", "task", "--json").stdout)["waits_for"]
    assert not world.records("wait_ended")


@pytest.mark.parametrize("minutes", ["0.5", "61", "nan"])
def test_only_1_to_60_minutes_can_be_asked_for(world: World, minutes: str) -> None:
    ask = f'"$PY" -P -m marathon wait {minutes} CI 2>"$MARATHON_TASK_DIR/said"; echo $? >"$MARATHON_TASK_DIR/code"'
    world.script(research(run=ask))
    ran = world.run(PY=world.argv()[0])
    assert ran.returncode == 3
    assert world.read("code") == "2\n"
    assert "from 1 to 60" in world.read("said")
    assert not world.records("wait_started")
