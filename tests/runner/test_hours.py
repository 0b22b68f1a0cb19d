"""--hours on a terminal, and no sleep while a session runs."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.process.driver import Pty, until
from tests.support.world import World, plan, research

INHIBIT = """#!/bin/sh
echo "began $*" >> "$HOME/inhibited"
cat
echo ended >> "$HOME/inhibited"
"""


def later() -> str:
    begin = datetime.now() + timedelta(hours=2)
    return f"{begin:%H:%M}-{begin + timedelta(hours=1):%H:%M}"


def test_outside_of_the_hours_it_waits_survives_a_kill_and_an_empty_enter_goes_on(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    hours = later()
    world.script(research(), plan())
    terminal = on_terminal("--hours", hours)
    assert f"going on at {hours[:5]}:00: your hours are" in terminal.expect(b"Enter go on now").decode()
    assert world.sessions() == 0
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.wait()
    said = world.cli("status", "task").stdout
    assert f"your hours are {hours} (going on at {hours[:5]}:00, 1h 5" in said
    again = on_terminal("--auto-approve")
    again.expect(b"Enter go on now")
    assert len(world.records("wait_started")) == 1, "the task remembers its hours and its deadline"
    again.send(b"\r")
    until(lambda: world.sessions() == 2, "the second session comes without another Enter", 30)


@pytest.mark.parametrize("typed", ["any", ""])
def test_hours_can_be_forgotten(world: World, typed: str) -> None:
    world.script(research())
    config = world.home / ".config/pi-marathon/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'hours = "{later()}"\n')
    assert world.run("--hours", typed).returncode == 3
    assert world.sessions() == 1
    refused = world.run("--hours", "20-7")
    assert refused.returncode == 2
    assert "Write it like 20:00-07:00" in refused.stderr


def test_the_machine_stays_awake_while_a_session_runs_and_only_then(world: World) -> None:
    folder = world.home / "bin"
    folder.mkdir()
    (folder / "systemd-inhibit").write_text(INHIBIT)
    (folder / "systemd-inhibit").chmod(stat.S_IRWXU)
    path = f"{folder}:{os.environ['PATH']}"
    log = world.home / "inhibited"
    world.script(research(), plan())
    assert world.run(PATH=path).returncode == 3
    assert log.read_text().splitlines() == [
        "began --what=idle --mode=block --who=pi-marathon --why=an agent works cat",
        "ended",
    ]
    log.unlink()
    world.cli("approve", "task")
    assert world.run("--allow-sleep", PATH=path).returncode == 3
    assert not log.exists()
