"""A file for every session: there while the next one runs, and never lost, because the journal knows all of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty, until
from tests.support.world import Entry, World, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
Background = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(world: World) -> Path:
    return world.task / ".marathon/runs/001/iterations"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def test_it_is_there_while_the_next_session_runs(world: World, in_background: Background, folder: Path) -> None:
    world.script(MORE, {**research(), "hold": True})
    runner = in_background()
    until(lambda: names(folder) == ["001.json"], "the first one's file is there")
    assert runner.poll() is None
    world.release(2)
    assert runner.wait(30) == 3
    assert names(folder) == ["001.json", "002.json"]


def test_also_while_the_agent_has_the_terminal(world: World, on_terminal: Callable[..., Pty], folder: Path) -> None:
    world.script(MORE, {**research(), "hold": True})
    terminal = on_terminal("--mode", "tui")
    until(lambda: names(folder) == ["001.json"], "the first one's file is there")
    world.release(2)
    terminal.expect(b"[q]      Quit marathon")


def test_one_that_a_killed_runner_owes_is_written_by_the_next(
    world: World, in_background: Background, folder: Path
) -> None:
    world.script(MORE, MORE, {**MORE, "hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(3), "the third session runs")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    written = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    shutil.rmtree(folder)
    told = json.loads(world.cli("status", "task", "--json").stdout)["sessions"]
    assert told == [written["001.json"], written["002.json"]]
    assert world.run().returncode == 3
    assert names(folder) == ["001.json", "002.json", "003.json", "004.json"]
    assert [json.loads((folder / name).read_text()) for name in ("001.json", "002.json")] == told


def test_a_task_that_was_removed_does_not_come_back(world: World) -> None:
    world.script(MORE, {"run": f"rm -rf {world.task}"})
    ran = world.run()
    assert "was removed while the marathon ran" in ran.stderr
    assert not world.task.exists()
