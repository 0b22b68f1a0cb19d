"""`loop try`: a human, or an agent that is no session of ours, changes the tree, and the runner measures it once."""

from __future__ import annotations

import json
import os

import pytest

from tests.support.loops import BENCH, COMMIT, LoopWorld
from tests.support.world import World


@pytest.fixture
def loop(world: World) -> LoopWorld:
    return LoopWorld(world)


def test_a_change_by_hand_is_kept_or_taken_back(loop: LoopWorld) -> None:
    """In place: the first call measures the tree before any change, though it is changed already."""
    loop.start("--in-place", "--guard", "test ! -e broken")
    loop.sh("echo 90 > speed")
    first = loop.type("loop", "try", "--trust", "--hypothesis", "sleep less")
    assert first.returncode == 0, first.stderr
    assert "Baseline 100" in first.stdout
    assert "keep 90, -10 (-10.0 %), improved" in first.stdout
    assert loop.sh("git log --format=%s -1; git status --porcelain") == "perf 1: metric 90, -10 (-10.0 %), improved"
    assert "sleep less" in loop.sh("git log --format=%B -1")
    loop.sh("echo 80 > speed; touch broken")
    told = json.loads(loop.type("loop", "try", "perf", "--json").stdout)
    assert (told["row"]["action"], told["row"]["acceptanceReason"]) == ("revert", "failed checks: guard")
    assert (told["next"], told["target"]) == ("pi-marathon loop try perf", "perf/r1")
    assert "failed checks: guard" in told["text"]
    assert loop.sh("cat speed; git status --porcelain") == "90"
    again = loop.type("loop", "try")
    assert "Nothing has changed since the last keep" in again.stdout
    assert [row["action"] for row in loop.rows()] == ["baseline", "keep", "revert"]
    loop.steps(then="echo 70 > speed")
    loop.run("--max-iterations", "3")
    assert loop.actions() == ["baseline", "keep", "revert", "resumed", "keep"], "a session goes on where a hand stopped"


def test_a_loop_in_a_worktree_says_where_to_work(loop: LoopWorld) -> None:
    loop.start()
    said = loop.type("loop", "try", "perf", "--trust").stdout
    assert f"Change something in {loop.tree}" in said
    loop.sh("echo 90 > speed", loop.tree)
    assert "keep 90" in loop.type("loop", "try", "perf").stdout
    assert (loop.sh("cat speed"), loop.speed()) == ("100", "90")


def test_what_someone_else_writes_meanwhile_is_neither_kept_nor_taken_away(loop: LoopWorld) -> None:
    """A human who writes while a tree is measured in place."""
    (loop.project / "bench.sh").write_text(f"{BENCH}test ! -e slow || echo mine >> {loop.project}/notes\n")
    loop.sh(f"{COMMIT} bench")
    loop.start("--in-place")
    loop.sh("echo 90 > speed; touch slow")
    refused = loop.type("loop", "try", "perf", "--trust")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "was changed while iteration 1 was measured" in refused.stderr
    assert loop.sh("cat speed notes | sort -u") == "90\nmine"
    assert loop.actions() == ["baseline"]
    loop.sh("rm notes slow; echo 100 > speed; sed -i '$d' bench.sh")
    loop.sh("git checkout -q bench.sh")
    again = loop.type("loop", "try", "perf")
    assert again.returncode == 3, "what was being tried writes again"


def test_commits_of_the_humans_own_are_not_lost(loop: LoopWorld) -> None:
    loop.start("--in-place")
    loop.sh("echo 90 > speed")
    assert loop.type("loop", "try", "perf", "--trust").returncode == 0
    loop.sh(f"echo 85 > speed; {COMMIT} mine")
    assert "git reset --soft" in loop.refused("loop", "try", "perf")
    assert loop.sh("git log -1 --format=%s") == "mine"


def test_a_session_of_a_marathon_leaves_the_measuring_to_its_runner(loop: LoopWorld) -> None:
    loop.start("--max-iterations", "1")
    program = " ".join(loop.world.argv("loop", "try", "perf"))
    loop.steps(f"{program} > {loop.world.home}/said 2>&1; echo 90 > speed")
    loop.run()
    assert "session" in (loop.world.home / "said").read_text()
    assert loop.actions() == ["baseline", "keep"]


def test_one_line_starts_a_loop_and_runs_it(loop: LoopWorld) -> None:
    loop.steps("echo 90 > speed", "echo 95 > speed")
    words = ["Make it faster", "--verify", "sh bench.sh", "--guard", "true", "--name", "perf", "--run", "r1"]
    args = ["loop", "run", *words, "--max-iterations", "2", *loop.run_args()[4:]]
    ran = loop.type(*args)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert loop.actions() == ["baseline", "keep", "revert"]
    assert "In all: 100 → 90, -10.0 %" in ran.stdout
    assert loop.type("loop", "archive", "perf").returncode == 0
    refused = loop.refused("loop", "run", "nothing", *loop.run_args()[4:])
    assert "There is no loop nothing" in refused
    assert "is for a new loop" in loop.refused("loop", "run", "perf", "--guard", "true", *loop.run_args()[4:])


def test_without_a_bound_a_loop_ends_after_a_hundred(loop: LoopWorld) -> None:
    loop.start("--target", "90")
    loop.steps("echo 90 > speed")
    assert "the loop ends after 100 iterations" in loop.run()
    assert loop.state()["maxIterations"] == 100


def test_setup_runs_once_in_each_tree_and_is_not_timed(loop: LoopWorld) -> None:
    """What it makes is there for every run, in the tree and in HOME, though git ignores it."""
    log = loop.world.home / "setups"
    setup = f"echo x >> {log}; mkdir node_modules; cp speed node_modules/built; echo $(cat speed) > $HOME/made"
    (loop.project / "bench.sh").write_text(
        "test $(cat $HOME/made) = $(cat speed); cat node_modules/built; rm -r node_modules\n"
    )
    loop.sh(f"echo node_modules > .gitignore; {COMMIT} setup")
    loop.start("--setup", setup, "--max-iterations", "2")
    loop.steps("echo 90 > speed", "echo 80 > speed")
    loop.run()
    assert loop.actions() == ["baseline", "keep", "keep"]
    assert log.read_text().count("x") == 4, "start, two changes, and the start once more for the number at the end"


def test_a_flaky_guard_is_told(loop: LoopWorld) -> None:
    once = loop.world.home / "guarded"
    loop.start("--guard", f"test ! -e {once}", "--max-iterations", "1")
    loop.steps(f"echo 90 > speed; touch {once}")
    loop.run()
    (guard,) = (each for each in loop.rows()[1]["checks"] if each["name"] == "guard")
    assert "it also fails on the tree before, so it is flaky" in guard["evidence"]


def test_the_commands_see_a_home_of_their_own_unless_it_is_kept(loop: LoopWorld) -> None:
    seen = loop.world.home / "seen"
    (loop.project / "bench.sh").write_text(f"echo $HOME $TMPDIR >> {seen}; cat speed\n")
    loop.sh(f"{COMMIT} home")
    for options, own in (((), True), (("--keep-home",), False)):
        seen.unlink(missing_ok=True)
        name = f"perf{len(options)}"
        started = ["--name", name, "--verify", "sh bench.sh", "--in-place", *options]
        assert loop.type("loop", "start", "Faster", *started).returncode == 0
        assert loop.type("loop", "try", name, "--trust").returncode == 0
        homes = {line.split()[0] for line in seen.read_text().splitlines()}
        assert (homes != {loop.world.env()["HOME"]}) == own
        assert len(homes) == 1
        assert all(not os.path.exists(home) or not own for home in homes), "the ground is gone"


def test_a_loop_that_was_measured_by_hand_is_taken_over_with_its_rows(loop: LoopWorld) -> None:
    """Its numbers stay as they were reported, and the runner measures a baseline of its own."""
    loop.start()
    for words in (("measure", "--value", "500"), ("measure", "--value", "300"), ("decide", "keep", "--value", "300")):
        assert loop.type("loop", words[0], "perf", *words[1:]).returncode == 0
    loop.steps(then="echo 90 > speed")
    loop.run("--max-iterations", "2")
    assert [(row["iteration"], row["action"]) for row in loop.results()] == [(1, "keep"), (2, "keep")]
    state = loop.state()
    assert (state["baseline"], state["bestMetric"], state["measuredBy"], state["iteration"]) == (100, 90, "runner", 2)
