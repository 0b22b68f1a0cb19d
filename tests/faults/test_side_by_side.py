"""Five marathons in worktrees of one repository: a kill of any of them disturbs none of the others."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.process.driver import alive, until
from tests.support.side import Side
from tests.support.world import World

NAMES = ("one", "two", "three", "four", "five")
VICTIMS = NAMES if os.environ.get("MARATHON_FULL_SWEEP") else ("three",)


@pytest.mark.parametrize("victim", VICTIMS)
def test_five_at_once_with_one_killed_are_all_finished_by_a_second_start(world: World, victim: str) -> None:
    side = Side(world, *NAMES)
    side.hold(*NAMES)
    pool = side.start("run", *NAMES, "--parallel", "5", "--worktree", "--auto-approve")
    try:
        until(lambda: all(map(side.works, NAMES)), "all five work", 60)
        assert {row["condition"] for row in side.listed().values()} == {"running"}
        runner = int(side.status(victim)["runner"].split()[1])
        os.kill(runner, signal.SIGKILL)
        until(lambda: not alive(runner), "the runner is gone")
        side.release(*NAMES)
        output = pool.communicate(timeout=90)[0]
    finally:
        _end(pool)
    assert pool.returncode == 1, output
    assert f"{victim}: ended with exit code -9 (implement (interrupted))" in output
    assert output.count("completed") == 2 * 4, "a line and a row for each of the others"

    table = side.type("run", *NAMES, "--parallel", "5", "--auto-approve", *side.agent_args())
    assert table.count("git merge marathon/") == 5
    for name in NAMES:
        assert side.sh(f"git diff --name-only main marathon/{name}") == f"{name}.txt"
        assert side.folder(name) != side.project
        sessions = [each["phase"] for each in side.status(name)["sessions"]]
        assert sessions == ["research", "plan", *["implement"] * (2 if name == victim else 1)]
    assert side.sh("git status --porcelain; git fsck --no-progress") == ""
    side.sh("for name in one two three four five; do git -c user.name=a -c user.email=b merge -q marathon/$name; done")


def _end(pool: subprocess.Popen[str]) -> None:
    if pool.poll() is None:
        pool.terminate()  # it ends its runners
        pool.wait(60)
    if pool.stdout:
        pool.stdout.close()
