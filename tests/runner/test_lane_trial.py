"""The runner measures a candidate: real repositories, real commands, and every way in which a change is not kept."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marathon.core.lanes.model import LaneState, Refused, Row
from marathon.core.lanes.rules import applied
from marathon.git.lanes import LaneTree, Snapshot, add_worktree, git
from marathon.process.signals import Signals
from marathon.runner.lane_trial import Bench, Stopped
from marathon.store.evaluator import freeze

NOW = "2026-02-02T14:30:00Z"
COMMIT = "git add -A; git -c user.name=a -c user.email=b commit -qm first"
# Counts its runs outside of the tree, in $n.
COUNTING = 'n=$(wc -l < "$RUNS"); echo run >> "$RUNS"; '


@pytest.fixture
def signals() -> Iterator[Signals]:
    with Signals() as collected:
        yield collected


class Loop:
    """A lane in its worktree. The number is in the file `speed`; `broken` fails the guard."""

    def __init__(self, folder: Path, signals: Signals) -> None:
        self.folder = folder
        self.signals = signals
        project = folder / "project"
        project.mkdir()
        (project / "bench.sh").write_text('cat speed\necho "$(wc -l < "$RUNS")" > left-behind\necho run >> "$RUNS"\n')
        (project / "speed").write_text("100\n")
        (folder / "runs").touch()
        subprocess.run(["sh", "-ec", f"git init -q -b main; {COMMIT}"], cwd=project, check=True)
        self.tree: LaneTree = add_worktree(project, folder / "lane", "multiloop/perf/r1")
        self.state = LaneState(
            lane="perf",
            run_tag="r1",
            verify_command="sh bench.sh",
            guard_command="test ! -e broken",
            measured_by="runner",
        )
        self.before: Snapshot = self.tree.snapshot()
        self.more: dict[str, Any] = {}

    def bench(self) -> Bench:
        commands = [self.state.verify_command or "", self.state.guard_command or ""]
        evaluator = self.more.pop("evaluator", None) or freeze(self.tree.folder, commands, [])
        self.evaluator = evaluator
        return Bench(
            self.tree,
            self.state,
            evaluator,
            self.folder / "logs",
            self.folder / "state" / "measuring.lock",
            self.signals,
            {"PATH": os.environ["PATH"], "RUNS": str(self.folder / "runs")},
            **self.more,
        )

    def begin(self) -> Row:
        row = self.bench().baseline(NOW)
        self.state = applied(self.state, row)
        return row

    def iterate(self, script: str) -> Row:
        self.more["evaluator"] = self.evaluator
        subprocess.run(["sh", "-ec", script], cwd=self.tree.folder, check=True)
        row, after = self.bench().iteration(self.before, NOW, "try it")
        self.tree.restore(after)
        self.state, self.before = applied(self.state, row), after
        return row

    def commit(self, script: str) -> None:
        """Change the tree before the baseline is taken."""
        subprocess.run(["sh", "-ec", f"{script}\n{COMMIT}"], cwd=self.tree.folder, check=True)
        self.before = self.tree.snapshot()

    def runs(self) -> int:
        return len((self.folder / "runs").read_text().splitlines())

    def speed(self) -> str:
        return (self.tree.folder / "speed").read_text().strip()


@pytest.fixture
def loop(tmp_path: Path, signals: Signals, monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))
    return Loop(tmp_path, signals)


def test_a_gain_is_measured_again_in_turn_and_committed_with_its_numbers(loop: Loop) -> None:
    base = loop.begin()
    assert (base.action, base.metric, len(base.measurements or ()), base.noise) == ("baseline", 100, 10, 0)
    row = loop.iterate("echo 80 > speed; echo note > new-file")
    assert (row.action, row.metric, row.baseline, row.escalation_type) == ("keep", 80, 100, None)
    assert (row.measurements, row.reference_measurements) == ([80] * 5, [100] * 5)
    assert loop.runs() == 10 + 3 + 5 + 5
    assert row.commit == git(loop.tree.folder, "rev-parse", "HEAD")
    assert git(loop.tree.folder, "show", "--name-only", "--format=", "HEAD").split() == ["new-file", "speed"]
    message = git(loop.tree.folder, "log", "-1", "--format=%B")
    assert message.startswith("perf 1: metric 80 (-20 (-20.0 %), improved)\n\ntry it\n")
    assert json.loads(message.split("Result: ")[1])["reference"] == 100
    assert (loop.state.current_metric, loop.state.keeps, loop.speed()) == (80, 1, "80")


def test_what_is_not_better_is_reverted_after_the_screen(loop: Loop) -> None:
    loop.begin()
    for speed in ("100", "120"):
        row = loop.iterate(
            f"echo {speed} > speed; echo x > junk; git add -A; git -c user.name=a -c user.email=b commit -qm x"
        )
        assert (row.action, row.acceptance_reason, row.commit) == ("revert", "metric did not improve", None)
        assert (loop.speed(), (loop.tree.folder / "junk").exists()) == ("100", False)
    assert loop.runs() == 10 + 3 + 3
    assert loop.state.consecutive_failures == 2


def test_a_lucky_screen_is_not_kept(loop: Loop) -> None:
    """verify is lucky three times, as noise sometimes is, and then tells the truth."""
    (loop.tree.folder / "bench.sh").write_text(COUNTING + "test $n -ge 10 -a $n -lt 13 && echo 50 || echo 100")
    loop.commit("true")
    loop.begin()
    row = loop.iterate("echo useless > change")
    assert (row.action, row.metric, row.baseline) == ("revert", 100, 100)
    assert row.acceptance_reason == "the gain was not there when it was measured again"


def test_a_failed_guard_is_never_kept(loop: Loop) -> None:
    loop.begin()
    row = loop.iterate("echo 10 > speed; touch broken")
    assert (row.action, row.acceptance_reason, row.metric) == ("revert", "failed checks: guard", 10)
    assert loop.runs() == 13, "what fails the guard is not measured again"
    assert (loop.state.best_metric, loop.speed()) == (100, "100")


def test_who_changes_the_evaluator_is_reverted_and_the_file_is_named(loop: Loop) -> None:
    loop.begin()
    for cheat in ("echo 'echo 1' > bench.sh", "rm bench.sh", "chmod +x bench.sh"):
        row = loop.iterate(cheat)
        named = [(check.passed, check.evidence) for check in row.checks or ()]
        assert (row.action, row.metric, named) == ("revert", None, [(False, "changed: bench.sh")])
    assert loop.runs() == 10, "it was not even run"


def test_verify_without_a_number_is_a_crash(loop: Loop) -> None:
    loop.state = loop.state.with_(verify_command="set -e; . ./bench.sh")
    loop.begin()
    for script, said in (
        (": > speed", "verify printed nothing"),
        ("echo 12 13 > speed", "more than a number"),
        ("echo nan > speed", "'nan' is not a number"),
        ("rm speed", "verify ended with exit code 1"),
    ):
        row = loop.iterate(script)
        assert (row.action, row.metric, said in (row.error or "")) == ("crash", None, True), row.error
    assert (loop.state.crashes, loop.state.current_metric, loop.speed()) == (4, 100, "100")


def test_verify_that_hangs_is_a_crash(loop: Loop) -> None:
    loop.begin()
    loop.more["timeout"] = 0.2
    loop.state = loop.state.with_(verify_command="sleep 60")
    assert "was not done within" in (loop.iterate("echo 1 > speed").error or "")


def test_nothing_changed_is_a_skip_without_a_run(loop: Loop) -> None:
    loop.begin()
    row = loop.iterate("true")
    assert (row.action, row.reason, loop.runs(), loop.state.consecutive_failures) == (
        "skip",
        "nothing was changed",
        10,
        0,
    )


def test_a_holdout_decides_and_stays_unknown(loop: Loop) -> None:
    loop.begin()
    loop.more["holdout"] = "echo secret-output; test $(cat speed) -gt 70"
    assert loop.iterate("echo 80 > speed").action == "keep"
    row = loop.iterate("echo 60 > speed")
    assert (row.action, row.acceptance_reason) == ("revert", "failed checks: holdout")
    assert b"secret" not in row.to_line()
    assert b"-gt" not in row.to_line()


def test_a_lane_that_logs_commits_what_passes_its_guard(loop: Loop) -> None:
    loop.state = loop.state.with_(mode="research")
    loop.begin()
    row = loop.iterate("echo 120 > speed")
    assert (row.action, row.metric, row.commit is not None, loop.speed()) == ("log", 120, True, "120")
    row = loop.iterate("echo 10 > speed; touch broken")
    assert (row.action, row.commit, loop.speed(), loop.state.best_metric) == ("log", None, "120", 100)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("touch broken", "guard failed"),
        ("echo 'echo 1 2' > bench.sh", "more than a number"),
        (f"echo '{COUNTING} echo $(( (n + 1) / 2 % 2 ))' > bench.sh", "different numbers"),
    ],
)
def test_a_tree_that_is_broken_or_not_steady_is_no_baseline(loop: Loop, script: str, said: str) -> None:
    loop.commit(script)
    with pytest.raises(Refused, match=said):
        loop.begin()


def test_uncommitted_work_is_no_baseline_and_is_left_alone(loop: Loop) -> None:
    (loop.tree.folder / "speed").write_text("1\n")
    with pytest.raises(Refused, match="uncommitted work"):
        loop.begin()
    assert (loop.speed(), loop.runs()) == ("1", 0)


def test_noise_that_favours_neither_half_is_told(loop: Loop) -> None:
    loop.commit(f"echo '{COUNTING} echo $((100 + n % 3))' > bench.sh")
    assert loop.begin().noise == pytest.approx(1.4826)


def test_drift_of_the_reference_is_a_row_of_its_own(loop: Loop) -> None:
    base = loop.begin()
    last = tuple(base.measurements or ())
    assert loop.bench().drift(loop.before, last, NOW) is None
    loop.state = loop.state.with_(verify_command="echo 130")
    row = loop.bench().drift(loop.before, last, NOW)
    assert row is not None
    after = applied(loop.state, row)
    assert (row.action, after.current_metric, after.consecutive_failures, after.iteration) == ("drift", 130, 0, 0)


def test_loops_measure_in_turn_and_a_stop_is_heard_while_waiting(loop: Loop) -> None:
    loop.begin()
    lock = loop.folder / "state" / "measuring.lock"
    waited: list[bool] = []
    loop.more |= {"stop": lambda: len(waited) > 2, "on_tick": lambda: waited.append(True)}
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Stopped):
            loop.iterate("echo 80 > speed")
    assert loop.runs() == 10
    loop.more.pop("stop")
    assert loop.iterate("true").action == "keep", "the work is still there"
