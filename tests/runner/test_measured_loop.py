"""`pi-marathon loop run`: the runner measures what each session left, and keeps only what improves the number."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty, until
from tests.support.loops import COMMIT, LoopWorld
from tests.support.world import World

HOLDOUT = "echo hidden-words >&2; test $(cat speed) -gt 70"
# A change that fails at once, each time another one, without a run of verify.
CHEAT = 'note "cheat $n"; echo "echo $n" > bench.sh'


@pytest.fixture
def loop(world: World) -> LoopWorld:
    return LoopWorld(world)


def test_every_outcome_of_an_iteration(loop: LoopWorld) -> None:
    """Only what is better, whole and honest is kept, whatever the agent committed. The user's tree is not touched."""
    loop.sh("printf 'dirty\\0work' > speed; echo mine > notes; mkdir sub; echo own > sub/file; git add notes")
    before = _everything(loop)
    loop.start("--guard", "test ! -e broken", "--holdout", HOLDOUT, "--max-iterations", "12")
    loop.steps(
        f'note "cache it"; echo 80 > speed; {COMMIT} own; echo new > file',
        f'note "sleep less"; echo 120 > speed; echo junk > junk; {COMMIT} own; git checkout -q --detach',
        "echo 10 > speed; touch broken",
        "echo 'echo 1' > bench.sh",
        ": > speed",
        "echo 12 13 > speed",
        "echo nan > speed",
        "rm speed",
        "true",
        "echo 120 > speed; echo junk > junk",
        "echo 60 > speed",
        "git init -q inner; cd inner; touch x; " + COMMIT + " x; cd ..; echo 50 > speed",
    )
    loop.run()
    rows = loop.rows()
    assert [row["iteration"] for row in rows] == list(range(13))
    assert [row["action"] for row in rows] == (
        ["baseline", "keep", "revert", "revert", "revert", *["crash"] * 4, "skip", "skip", "revert", "revert"]
    )
    said = [row.get("error") or row.get("reason") or row.get("acceptanceReason") for row in rows]
    assert said[1:] == [
        "the gain was confirmed",
        "metric did not improve",
        "failed checks: guard",
        "failed checks: frozen files",
        "verify printed nothing; it should print a line METRIC NAME=X, or the number alone",
        "verify printed more than a number; it should print a line METRIC NAME=X, or the number alone",
        "'nan' is not a number",
        "verify failed: exit code 1: cat: speed: No such file or directory",
        "nothing was changed",
        "the same change was tried in iteration 2",
        "failed checks: holdout",
        "failed checks: no repository inside",
    ]
    assert rows[4]["checks"] == [
        {"name": "frozen files", "passed": False, "kind": "frozen", "evidence": "changed: bench.sh"}
    ]
    keep = rows[1]
    assert (keep["metric"], keep["baseline"], keep["hypothesis"]) == (80, 100, "cache it")
    assert (keep["measurements"], keep["referenceMeasurements"]) == ([80] * 5, [100] * 5)
    assert (rows[0]["noise"], len(rows[0]["measurements"])) == (0, 10)
    state = loop.state()
    assert (state["status"], state["keeps"], state["reverts"], state["crashes"], state["bestMetric"]) == (
        *("completed", 1, 5, 4),
        80,
    )
    # The branch: one commit per keep, with its numbers, on top of the first one.
    assert loop.sh("git log --format=%s main..multiloop/perf/r1") == "perf 1: metric 80, -20 (-20.0 %), improved"
    message = loop.sh("git log -1 --format=%B multiloop/perf/r1")
    assert json.loads(message.split("Result: ")[1])["reference"] == 100
    assert loop.sh("git show --name-only --format= multiloop/perf/r1").split() == ["file", "speed"]
    assert keep["commit"] == loop.sh("git rev-parse HEAD", loop.tree) == loop.sh("git rev-parse multiloop/perf/r1")
    assert (loop.sh("git status --porcelain", loop.tree), loop.speed()) == ("", "80")
    assert _everything(loop) == before
    _assert_hidden(loop)
    shown = loop.type("loop", "show", "perf", "4").stdout
    assert "✗ frozen files: changed: bench.sh" in shown
    assert "+echo 1" in shown, "what was taken back can be looked at"
    # The next session knows what was tried, and no gauge of what is left.
    prompt = loop.prompt(3)
    assert "1. cache it: 80, keep" in prompt
    assert "2. sleep less: 120, revert" in prompt
    assert "To beat: 80." in prompt
    assert "12" not in prompt.split("Already tried")[0].split("To beat")[1]


def _everything(loop: LoopWorld) -> dict[str, bytes]:
    """Every byte of the user's tree, its index, HEAD and branch."""
    files = [path for path in loop.project.rglob("*") if path.is_file() and ".multiloop" not in path.parts]
    mine = [path for path in files if ".git" not in path.parts]
    git = loop.sh("git rev-parse HEAD main; git symbolic-ref HEAD; git ls-files --stage; git status --porcelain")
    return {**{str(path): path.read_bytes() for path in mine}, "git": git.encode()}


def _assert_hidden(loop: LoopWorld) -> None:
    """The holdout's text and output are in no file that an agent is given or that the loop writes."""
    kept = [path for folder in (loop.project, loop.agent) for path in folder.rglob("*") if path.is_file()]
    assert any(path.name.startswith("prompt-") for path in kept)
    for path in kept:
        text = path.read_bytes()
        assert b"hidden-words" not in text, path
        assert b"-gt 70" not in text, path


def test_a_lucky_screen_is_not_kept(loop: LoopWorld) -> None:
    """Verify is lucky three times, as noise sometimes is, and then tells the truth."""
    lucky = 'n=$(wc -l < "$RUNS"); echo run >> "$RUNS"; test $n -ge 10 -a $n -lt 13 && echo 50 || echo 100\n'
    (loop.project / "bench.sh").write_text(lucky)
    loop.sh(f"{COMMIT} lucky")
    loop.start("--max-iterations", "1")
    loop.steps("echo useless > change")
    loop.run()
    row = loop.rows()[1]
    assert (row["action"], row["metric"], row["baseline"]) == ("revert", 100, 100)
    assert row["acceptanceReason"] == "the gain was not there when it was measured again"
    assert loop.runs() == 10 + 3 + 5 + 5


def test_files_that_someone_was_killed_over_are_swept(loop: LoopWorld) -> None:
    loop.start("--max-iterations", "1")
    root, run = loop.project / ".multiloop", next((loop.project / ".multiloop/active/perf").iterdir())
    left = [root / ".registry.json.0123456789ab.tmp", run / ".state.json.0123456789ab.tmp"]
    young = root / ".registry.json.ab0123456789.tmp"
    for path in (*left, young):
        path.write_text("{half")
    for path in left:
        os.utime(path, (1, 1))
    loop.steps("echo useless > change")
    loop.run()
    assert [path.exists() for path in (*left, young)] == [False, False, True]


def test_a_target_that_the_baseline_meets_completes_without_a_session(loop: LoopWorld) -> None:
    loop.start("--target", "100")
    loop.run()
    assert (loop.actions(), loop.state()["status"], loop.sessions()) == (["baseline"], "completed", 0)
    loop.forget_last_row(baseline=None)
    for refusal in (loop.refused("loop", "resume", "perf"), loop.refused(*loop.run_args())):
        assert "the target 100 is reached (100)" in refusal
        assert "pi-marathon loop resume perf/r1 --target X" in refusal
    assert loop.state()["status"] == "completed"
    loop.steps("echo 90 > speed")
    loop.run("--target", "95")
    assert loop.actions() == ["baseline", "resumed", "keep"]


def test_a_cap_and_a_plateau_end_a_loop_until_they_are_raised(loop: LoopWorld) -> None:
    loop.start("--max-iterations", "1", "--plateau", "2")
    loop.steps("echo 90 > speed", CHEAT, CHEAT, "echo 70 > speed", then=CHEAT)
    loop.run()
    assert "--max-iterations 2" in loop.refused("loop", "resume", "perf")
    said = loop.run("--max-iterations", "9")
    assert "iterate · iteration 2 ·" in said, "the number of the iteration, not of the session"
    assert "pi-marathon loop finalize perf" in said
    assert loop.actions() == ["baseline", "keep", "resumed", "revert", "revert"]
    assert loop.state()["status"] == "completed"
    loop.forget_last_row(iteration=2)
    refusal = loop.refused(*loop.run_args())
    assert (loop.state()["status"], loop.state()["iteration"]) == ("completed", 3)
    assert "the last 2 iterations brought no gain (--plateau 2)" in refusal
    assert "pi-marathon loop resume perf/r1 --plateau 4" in refusal
    assert loop.type("loop", "resume", "perf", "--plateau", "4").returncode == 0
    loop.run()
    assert loop.actions()[5:] == ["resumed", "keep", *["revert"] * 4]
    assert (loop.speed(), loop.state()["iteration"]) == ("70", 8)


def test_the_ladder_ends_at_a_gate_and_a_yes_gives_a_fresh_one(loop: LoopWorld) -> None:
    """On the way the reference is measured again, and the machine has become slower: a row, and no failure."""
    slower = loop.world.home / "slower"
    slower.write_text("0")
    (loop.project / "bench.sh").write_text(f"echo $(( $(cat speed) + $(cat {slower}) ))\n")
    loop.sh(f"{COMMIT} bench")
    loop.start("--max-iterations", "16")
    loop.steps(*[CHEAT] * 4, f"{CHEAT}; echo 30 > {slower}", then=CHEAT)
    said = loop.run(expected=5)
    assert "5 iterations in a row were not kept, after 2 changes of the strategy" in said
    rows = loop.rows()
    assert [row["action"] for row in rows] == ["baseline", *["revert"] * 10, "drift", *["revert"] * 5]
    ladder = {row["iteration"]: row["escalationType"] for row in rows if "escalationType" in row}
    assert ladder == {3: "refine", 4: "refine", 5: "pivot"} | {8: "refine", 9: "refine", 10: "pivot"} | {
        **{13: "refine", 14: "refine", 15: "stop"}
    }
    assert (rows[11]["metric"], rows[11]["baseline"], loop.state()["currentMetric"]) == (130, 100, 130)
    assert "Choose another strategy" in loop.prompt(6)
    assert "were not kept" in loop.prompt(4)
    task = str(loop.task.relative_to(loop.project))
    assert "waits for your answer" in loop.refused("loop", "resume", "perf")
    loop.run(expected=5)
    assert loop.type("approve", task).returncode == 0
    loop.run()
    assert loop.actions()[17:] == ["resumed", "revert"]
    state = loop.state()
    assert (state["status"], state["consecutiveFailures"], state["pivotCount"]) == ("completed", 1, 0)


def test_a_loop_that_logs_commits_what_passes_its_guard(loop: LoopWorld) -> None:
    loop.start("--mode", "research", "--guard", "test ! -e broken", "--max-iterations", "2")
    loop.steps("echo 120 > speed", "echo 10 > speed; touch broken")
    loop.run()
    first, second = loop.rows()[1:]
    assert (first["action"], first["metric"], "commit" in first) == ("log", 120, True)
    assert (second["action"], second["acceptanceReason"], "commit" in second) == ("log", "failed checks: guard", False)
    assert (loop.speed(), loop.state()["bestMetric"]) == ("120", 100)


def test_a_secondary_metric_is_a_guard_with_a_number(loop: LoopWorld) -> None:
    (loop.project / "bench.sh").write_text('echo "METRIC time=$(cat speed)"; echo "METRIC memory=$(cat memory)"\n')
    loop.sh(f"echo 1000 > memory; {COMMIT} memory")
    loop.start("--metric", "time", "--also", "memory:lower:5%", "--max-iterations", "3")
    loop.steps(
        "echo 90 > speed; echo 1060 > memory", "echo 80 > speed; echo 1040 > memory", "echo 70 > speed; rm memory"
    )
    loop.run()
    rows = loop.rows()
    assert [row["action"] for row in rows] == ["baseline", "revert", "keep", "crash"]
    assert rows[1]["acceptanceReason"] == "failed checks: memory"
    evidence = "1060 against 1000, may be worse by 5 %"
    assert {"name": "memory", "passed": False, "kind": "metric", "evidence": evidence} in rows[1]["checks"]
    assert "memory:lower:5%" in loop.prompt(1)


def test_a_tree_without_a_baseline_is_a_gate_that_closes_once_it_is_fixed(loop: LoopWorld) -> None:
    loop.sh(f"touch broken; {COMMIT} broken")
    loop.start("--guard", "test ! -e broken", "--max-iterations", "1")
    loop.steps("echo 90 > speed")
    assert "There is no baseline: guard failed (exit code 1)" in loop.run(expected=1)
    assert not (loop.folder / "results.jsonl").exists()
    loop.sh("echo 1 2 > speed; rm broken; git add -A; " + COMMIT + " fix")
    assert "verify printed more than a number" in loop.run(expected=1)
    flaky = 'n=$(wc -l < "$RUNS"); echo run >> "$RUNS"; echo $(( (n + 1) / 2 % 2 ))'
    loop.sh(f"echo '{flaky}' > bench.sh; : > \"$RUNS\"; {COMMIT} flaky")
    assert "verify does not give the same number for the same tree" in loop.run(expected=1)
    loop.sh(f"echo 100 > speed; echo cat speed > bench.sh; {COMMIT} fixed")
    loop.run()
    assert loop.actions() == ["baseline", "keep"]


def test_a_run_of_verify_has_as_long_as_was_said(loop: LoopWorld) -> None:
    loop.start("--timeout", "1s", verify="sleep 600")
    assert re.search(r"verify failed: it was ended after \d+s \(--timeout\)", loop.run(expected=1))
    assert loop.state()["timeout"] == 1


def test_in_place_needs_a_clean_tree(loop: LoopWorld) -> None:
    loop.start("--in-place", "--max-iterations", "2")
    loop.steps("echo 90 > speed", "echo 95 > speed; echo junk > junk")
    (loop.project / "mine").write_text("work")
    assert "has uncommitted work, which a revert would take away" in loop.refused(*loop.run_args())
    (loop.project / "mine").unlink()
    loop.run()
    assert loop.actions() == ["baseline", "keep", "revert"]
    assert loop.sh("git log --format=%s; git status --porcelain").splitlines() == [
        "perf 1: metric 90, -10 (-10.0 %), improved",
        "first",
    ]


def test_what_a_human_left_in_place_meanwhile_is_not_taken_away(loop: LoopWorld) -> None:
    """Neither before there is a baseline, nor later. The command that is named puts it aside."""
    loop.start("--in-place", "--max-iterations", "1", "--guard", "test ! -e broken")
    loop.steps("echo 90 > speed", "echo 80 > speed")
    loop.sh(f"touch broken; {COMMIT} broken")
    loop.run(expected=1)
    loop.sh("git rm -q broken; echo mine > mine")
    assert "has uncommitted work" in loop.refused(*loop.run_args())
    loop.sh(f"{COMMIT} fixed")
    loop.run()
    loop.sh("echo more >> mine; echo new > new")
    refusal = loop.refused(*loop.run_args("--max-iterations", "2"))
    assert (
        loop.sh("cat mine new; git log --format=%s -1") == "mine\nmore\nnew\nperf 1: metric 90, -10 (-10.0 %), improved"
    )
    loop.sh(refusal.partition("again: ")[2].replace("git stash", "git -c user.name=a -c user.email=b stash"))
    loop.run("--max-iterations", "2")
    assert [action for action in loop.actions() if action != "resumed"] == ["baseline", "keep", "keep"]
    assert loop.sh("git -c user.name=a -c user.email=b stash pop -q; cat mine new speed") == "mine\nmore\nnew\n80"


def test_a_pause_while_a_tree_is_measured_in_place_leaves_nothing_behind(loop: LoopWorld) -> None:
    loop.start("--in-place", "--max-iterations", "1")
    (loop.project / "bench.sh").write_text("cat speed; echo left > left-behind; test -e old || sleep 600")
    loop.sh(f"touch old; {COMMIT} slow")
    loop.steps("echo 90 > speed; rm old")
    with _background(loop) as runner:
        until(lambda: (loop.project / "left-behind").exists() and not (loop.project / "old").exists(), "it measures")
        loop.type("stop", str(loop.task.relative_to(loop.project)), "--now")
        runner.communicate(timeout=30)
    assert loop.sh("git status --porcelain") in ("D  old\nM  speed", " D old\n M speed")


def test_sessions_that_leave_nothing_new_end_at_a_gate(loop: LoopWorld, typed: Callable[..., Pty]) -> None:
    """At a terminal: the commands are agreed to first, and Enter at the gate lets the loop continue."""
    loop.start("--max-iterations", "4")
    loop.steps(*["true"] * 3, then="echo 90 > speed")
    args = [arg for arg in loop.run_args() if arg != "--trust"]
    assert "To agree: pi-marathon loop run perf/r1 --trust --agent command -- sh " in loop.type(*args).stderr
    pty = typed(*args, **loop.env)
    pty.expect(b"verify: sh bench.sh")
    pty.expect(b"Run them? [y/N]")
    pty.send(b"y\n")
    pty.expect(b"The last 3 sessions left nothing new to measure: nothing was changed.")
    pty.expect(b"Quit marathon")
    pty.send(b"\r")
    pty.expect(b"keep 90")
    assert pty.wait() == 0
    assert loop.actions() == ["baseline", "skip", "skip", "skip", "keep"]


def test_a_budget_is_the_gate_of_every_marathon(loop: LoopWorld) -> None:
    loop.start("--max-iterations", "2")
    loop.steps('echo 90 > speed; echo \'{"marathon_usage": {"cost": 3}}\'', "echo 80 > speed")
    assert "--max-cost" in loop.run("--max-cost", "2", expected=4)
    assert loop.actions() == ["baseline", "keep"], "what the session left is measured all the same"
    ended = json.loads(loop.type(*loop.run_args("--max-cost", "9", "--json")).stdout)
    assert (ended["exit"], ended["loop"]["status"], ended["loop"]["bestMetric"]) == (0, "completed", 80)
    assert loop.actions() == ["baseline", "keep", "keep"]
    assert "$3" not in loop.prompt(2)


def test_what_a_failed_session_left_is_not_measured(loop: LoopWorld) -> None:
    loop.start("--max-iterations", "1")
    once = f"test -e {loop.world.home}/failed || {{ touch {loop.world.home}/failed; echo 10 > speed; exit 1; }}"
    loop.steps(f"{once}; echo 90 > speed")
    loop.run()
    assert (loop.actions(), loop.rows()[1]["metric"], loop.sessions()) == (["baseline", "keep"], 90, 2)


@pytest.mark.parametrize(("verb", "status"), [("pause", "paused"), ("stop", "stopped")])
def test_pause_and_stop_end_a_runner_after_its_session(loop: LoopWorld, verb: str, status: str) -> None:
    """The loop stays so, and the next run measures what the session left."""
    loop.start("--max-iterations", "1")
    loop.steps("echo 90 > speed; while ! test -e go; do sleep 0.02; done; rm go")
    with _background(loop) as runner:
        until(lambda: loop.sessions() == 1, "the session has begun")
        said = loop.type("loop", "status", "perf").stdout
        assert f"pid {runner.pid}" in said
        assert "a session works on iteration 1" in said
        assert "Next:" not in said
        for refused in (("archive", "perf"), ("rm", "perf/r1"), ("run", "perf", "--agent", "command", "--", "true")):
            assert "A runner works on perf/r1" in loop.refused("loop", *refused)
        assert "to stop after this session" in loop.type("loop", verb, "perf").stderr
        (loop.tree / "go").touch()
        out, _ = runner.communicate(timeout=30)
        assert (runner.returncode, "Stopped on request" in out) == (3, True), out
    assert "To continue: pi-marathon loop run perf/r1 --agent command" in out
    assert "loop resume" not in out
    assert (loop.state()["status"], loop.actions()) == (status, ["baseline"])
    loop.run()
    assert [action for action in loop.actions() if action != "resumed"] == ["baseline", "keep"]
    assert loop.sessions() == 1


def test_two_loops_think_at_once_and_measure_in_turn(loop: LoopWorld) -> None:
    log = loop.world.home / "log"
    (loop.project / "bench.sh").write_text(f"echo begin >> {log}; sleep 0.02; cat speed; echo end >> {log}\n")
    loop.sh(f"{COMMIT} bench")
    waits = "touch {0}/{1}; while ! test -e {0}/{2}; do sleep 0.02; done; echo 90 > speed"
    for lane in ("perf", "size"):
        loop.start("--max-iterations", "1", lane=lane)
    here = loop.world.home
    loop.steps(f"case $lane in *perf) {waits.format(here, 'a', 'b')};; *) {waits.format(here, 'b', 'a')};; esac")
    with _background(loop) as one, _background(loop, lane="size") as other:
        for runner in (one, other):
            out, _ = runner.communicate(timeout=60)
            assert runner.returncode == 0, out
    lines = log.read_text().split()
    assert lines == ["begin", "end"] * (2 * 23)


def _background(loop: LoopWorld, lane: str = "perf") -> subprocess.Popen[str]:
    return subprocess.Popen(
        loop.world.argv(*loop.run_args(lane=lane)),
        cwd=loop.project,
        env=loop.world.env(**loop.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_archive_and_rm_take_the_worktree_away_and_leave_the_branch(loop: LoopWorld) -> None:
    loop.start("--max-iterations", "1")
    loop.steps("echo 90 > speed")
    loop.run()
    assert "belongs to a measured loop. Type: pi-marathon loop run perf/r1" in loop.refused(
        "--task", str(loop.task.relative_to(loop.project)), "--agent", "command", "--", "true"
    )
    assert loop.type("loop", "rm", "perf/r1", "--yes").returncode == 0
    assert (loop.tree.exists(), loop.sh("git worktree list").count("\n")) == (False, 0)
    loop.start("--max-iterations", "1")
    assert "git branch -D multiloop/perf/r1" in loop.refused(*loop.run_args())
    loop.sh("git branch -D multiloop/perf/r1")
    loop.run()
    assert loop.actions() == ["baseline", "keep"]
    assert loop.type("loop", "archive", "perf").returncode == 0
    assert not loop.tree.exists()
    assert loop.sh("git log -1 --format=%s multiloop/perf/r1").startswith("perf 1: metric 90")


def test_what_the_runner_cannot_measure_is_refused(loop: LoopWorld, tmp_path: Path) -> None:
    loop.start("--prompt-verifier", "is it simple?")
    assert "The runner cannot judge the prompt verifier" in loop.refused(*loop.run_args())
    for options, said in (
        (["--also", "memory"], "NAME:lower|higher"),
        (["--also", "memory:lower:5%"], "--metric NAME"),
        (["--also", "m:lower:5", "--metric", "t", "--mode", "dev"], "keeps and reverts"),
    ):
        assert said in loop.refused("loop", "start", "Go", "--verify", "sh bench.sh", *options)
