"""kill -9 of the runner of a measured loop before any change to a file: the next start ends as if there was no kill.

`./bin/test` tries a few of them. MARATHON_FULL_SWEEP=1 tries them all, and
MARATHON_FULL_SWEEP=records those around a record.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from marathon.process.tree import find_by_environ
from tests.faults.sweep import FULL, KILLED, RECORDS, Sweeper, copy_of, points
from tests.process.driver import until
from tests.support.loops import COMMIT, LoopWorld
from tests.support.world import World

# Each step with the action of its row. An agent that was cut off does its step again, so each step may be done twice.
# A sample does the first two, a full sweep all of them.
STEPS = {
    'note "one"; echo 90 > speed; echo new > file': "keep",
    f'note "two"; echo 95 > speed; echo junk > junk; {COMMIT} own --allow-empty': "revert",
    "echo broken > speed": "crash",
    "touch broken; echo 10 > speed": "revert",
    "true": "skip",
    f'note "six"; {COMMIT} empty --allow-empty; echo 80 > speed': "keep",
    "echo 'echo 1' > bench.sh": "revert",
    "git checkout -q -B other; echo 81 > speed": "revert",
    "echo 95 > speed; echo junk > junk; rm -f file": "revert",
    "mv speed fast; echo 70 > speed; git add -A": "keep",
}
DONE = dict(list(STEPS.items())[: None if FULL else 2])
ENDS = ["baseline", *DONE.values()]
KEPT = [number for number, action in enumerate(ENDS) if action == "keep"]
FAILED = [number for number, action in enumerate(ENDS) if action in ("revert", "crash")]
PARTS = 16 if FULL else 1  # of the sweep, for the workers of pytest


@pytest.mark.parametrize("part", range(PARTS))
def test_a_measured_loop_killed_anywhere(cli: Sweeper, world: World, tmp_path: Path, part: int) -> None:
    before = LoopWorld(world)
    before.start("--guard", "test ! -e broken", "--max-iterations", str(len(DONE)))
    before.steps(*DONE)
    before.sh("echo mine > untracked; echo dirty > speed")
    undisturbed = LoopWorld(copy_of(world, tmp_path / "undisturbed"), new=False)
    assert _run(cli, undisturbed) == 0
    assert_ended(undisturbed, "undisturbed")
    changes = (undisturbed.world.home / "out.changes").read_text().splitlines()
    for number in points(len(changes), max(1, len(changes) // 4))[part::PARTS]:
        killed = LoopWorld(copy_of(world, tmp_path / "killed"), new=False)
        point = f"killed before change {number}: {changes[number - 1]}"
        # The number of changes differs a little from run to run, so the last ones may not come.
        assert _run(cli, killed, kill_at=number) in (KILLED, 0), point
        until(partial(_no_one_left, killed), "the agent's processes are gone")
        assert _run(cli, killed) in (0, 2), (point, cli.printed(killed.world))
        assert_ended(killed, point)
        shutil.rmtree(tmp_path / "killed")


def _run(cli: Sweeper, loop: LoopWorld, kill_at: int = 0) -> int:
    out = loop.world.home / "out"
    out.unlink(missing_ok=True)
    env = loop.world.env(**loop.env)
    return cli.wait(cli.fork(loop.run_args(), loop.project, env, out, out, kill_at, RECORDS))


def _no_one_left(loop: LoopWorld) -> bool:
    return not find_by_environ("MARATHON_TASK_DIR", str(loop.task))


def assert_ended(loop: LoopWorld, point: str) -> None:
    assert loop.actions() == ENDS, point
    assert [row["iteration"] for row in loop.rows()[: len(ENDS)]] == list(range(len(ENDS))), point
    assert [row["action"] for row in loop.results()] == ENDS[1:], point
    assert [row["action"] for row in loop.rows()[len(ENDS) :]] == ["confirmed"], point
    state = loop.state()
    best = 70 if FULL else 90
    assert (state["status"], state["keeps"], state["bestMetric"]) == ("completed", len(KEPT), best), point
    subjects = loop.sh("git log --format=%s main..multiloop/perf/r1").splitlines()
    assert [subject.split(":")[0] for subject in subjects] == [f"perf {number}" for number in KEPT[::-1]], point
    commits = [row["commit"] for row in loop.results() if "commit" in row]
    assert loop.sh("git log --format=%H main..multiloop/perf/r1").split() == commits[::-1], point
    assert (loop.sh("git status --porcelain", loop.tree), loop.speed()) == ("", str(best)), point
    lessons = (loop.folder / "lessons.md").read_text().splitlines()
    assert [int(line.split("Iteration ")[1].split()[0].rstrip(":")) for line in lessons] == FAILED, point
    assert loop.sh("cat untracked speed; git status --porcelain") == "mine\ndirty\n M speed\n?? untracked", point
