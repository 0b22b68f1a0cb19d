"""list --all knows every task and every measured loop of the machine, and which of them a reboot has stopped."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.process.driver import until
from tests.support.side import Side
from tests.support.world import World


def after_a_reboot(side: Side, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock's note as a runner of another boot would have left it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(side.state.parent))
    path = side.task(name) / ".marathon" / "lock"
    note = json.loads(path.read_text())
    assert note["boot"]
    note["boot"] = "another boot"
    path.write_text(json.dumps(note))


def test_a_reboot_is_told_apart_from_a_stop(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    side = Side(world, "killed", "stopped", "terminated", "gate", "completed")
    for name in ("killed", "stopped", "terminated"):
        side.hold(name)
        runner = side.start("--task", name, "--auto-approve")
        until(partial(side.works, name), "the agent works", 60)
        if name == "stopped":
            side.type("stop", "stopped", "--now")
        else:
            (runner.kill if name == "killed" else runner.terminate)()
        runner.communicate(timeout=60)
    side.run("gate", expected=3)
    side.run("completed", "--auto-approve")
    assert not any(row["rebooted"] for row in side.listed().values())
    for name in side.listed():
        after_a_reboot(side, name, monkeypatch)
    assert {name for name, row in side.listed().items() if row["rebooted"]} == {"killed", "terminated"}
    shown = side.type("list", "--all")
    assert "killed: stopped by a reboot; go on with: pi-marathon --task docs/tasks/killed\n" in shown
    assert "interrupted (stopped by a reboot)" in side.type("status", "killed")
    assert "stopped by a reboot" not in side.type("status", "stopped")
    side.release("killed")
    side.run("killed", "--auto-approve")
    assert side.listed()["killed"]["condition"] == "completed"


def test_loops_and_what_runs_without_a_note_are_listed(world: World) -> None:
    side = Side(world, "my-task")
    side.type("loop", "start", "Make it faster", "--lane", "perf", "--run", "r1", "--verify", "cat code.txt")
    side.hold("my-task")
    runner = side.start("--task", "my-task", "--auto-approve")
    try:
        until(lambda: side.works("my-task"), "the agent works", 60)
        shutil.rmtree(side.state / "index")
        (side.project / "docs").rename(side.project / "elsewhere")  # not even its project is known
        (side.project / "elsewhere").rename(side.project / "docs")
        rows = side.listed()
        assert {name: (row["kind"], row["condition"]) for name, row in rows.items()} == {
            "my-task": ("task", "running"),
            "perf/r1": ("loop", "active"),
        }
        assert rows["my-task"]["runner"].startswith("pid ")
    finally:
        side.release("my-task")
        runner.communicate(timeout=60)
    assert "loop: active" in side.type("list", "--all")
    shutil.rmtree(side.project / ".multiloop")
    assert set(side.listed()) == {"my-task"}
