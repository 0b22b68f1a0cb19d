"""A file for every session: there while the next one runs, and never lost, because the journal knows all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.process.driver import Pty, until
from tests.support.world import Entry, World, plan, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
Background = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(world: World) -> Path:
    return world.task / ".marathon/runs/001/iterations"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def whole(folder: Path) -> list[dict[str, Any]]:
    """What the files tell, as far as they are written."""
    return [json.loads(text) for name in names(folder) if (text := (folder / name).read_text())]


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
    until(lambda: world.holding(3) and len(whole(folder)) == 2, "the third session runs")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    written = whole(folder)
    (folder / "001.json").unlink()
    (folder / "002.json").unlink()
    told = json.loads(world.cli("status", "task", "--json").stdout)["sessions"]
    assert told == written
    assert world.run().returncode == 3
    assert names(folder) == ["001.json", "002.json", "003.json", "004.json"]
    assert whole(folder)[:2] == told


def test_where_it_cannot_be_written_the_marathon_goes_on(world: World, folder: Path) -> None:
    world.script({**MORE, "run": f"rm -r {folder}; touch {folder}"}, MORE, research(), plan())
    assert world.run().returncode == 3
    assert world.sessions() == 3
    assert folder.is_file()
    folder.unlink()
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert [facts["iteration"] for facts in whole(folder)] == [1, 2, 3, 4]


@pytest.mark.parametrize("attempt", range(5))
def test_a_task_that_was_removed_does_not_come_back(world: World, attempt: int) -> None:
    """By an agent so quick that the first one's file is just being written."""
    work = 'test $MARATHON_ITERATION = 1 && echo x >"$MARATHON_TASK_DIR/notes.md" || rm -rf "$MARATHON_TASK_DIR"'
    ran = world.cli("--task", "task", "--agent", "command", "--", "sh", "-c", work)
    assert "was removed while the marathon ran" in ran.stderr
    assert ran.returncode == 7
    assert not world.task.exists()
