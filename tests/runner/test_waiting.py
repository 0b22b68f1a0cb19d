"""A wait the agent asked for: shown, survives its runner, and any key ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable

import pytest

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


def test_a_wait_survives_its_runner_with_its_deadline_and_a_key_ends_it(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(WAITS, research())
    terminal = on_terminal()
    shown = terminal.expect(b"any key: go on now").decode()
    assert "waiting: CI" in shown
    assert "did not write STATE.json" not in shown, "the wait says all there is to say"
    assert 240 < seconds_left(shown) <= 300
    os.kill(terminal.pid, signal.SIGKILL)
    assert terminal.wait() == -signal.SIGKILL
    spent(world, 120)
    assert 120 < seconds_left(world.cli("status", "task").stdout) <= 180
    again = on_terminal()
    assert 120 < seconds_left(again.expect(b"any key: go on now").decode()) <= 180
    assert len(world.records("wait_started")) == 1
    assert world.sessions() == 1
    again.send(b"x")
    again.expect(b"[q]      Quit marathon")
    assert world.sessions() == 2
    assert "You asked to wait 5m 00s for: CI. The human ended the wait early" in world.prompt(2)
    assert world.records("wait_ended")[0]["early"] is True


def test_a_wait_that_is_over_while_nobody_waited_is_no_wait_any_more(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(WAITS, research())
    terminal = on_terminal()
    terminal.expect(b"any key: go on now")
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


def test_a_wait_can_be_stopped_and_is_still_there_afterwards(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(WAITS, research())
    runner = in_background()
    until(
        lambda: (world.task / ".marathon/journal.jsonl").exists() and world.records("wait_started"), "the wait begins"
    )
    assert world.cli("stop", "task").returncode == 0
    runner.communicate(timeout=30)
    assert runner.returncode == 3
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
