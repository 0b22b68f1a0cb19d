"""Measures a candidate of a measured loop: runs verify and guard on exactly the tree that would be committed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from marathon.core.lanes.model import Check, LaneState, Refused, Row
from marathon.core.lanes.noise import CONFIRM_SAMPLES, SCREEN_SAMPLES, differs, noise_floor, screened, turns
from marathon.core.lanes.reading import NoMetric, read_metric
from marathon.core.lanes.trial import Trial, accepted, baseline_row, commit_message, drift_row, trial_row
from marathon.core.text import duration, one_line
from marathon.git.lanes import LaneTree, Snapshot
from marathon.process.signals import Signals
from marathon.process.start import Command
from marathon.process.supervisor import Done, Job, run_all
from marathon.store.evaluator import Evaluator
from marathon.store.files import make_private_directory, opened, read_regular

TIMEOUT = 600.0
_MOST_OUTPUT = 1024 * 1024


class Stopped(Exception):
    """The human asked to stop. Nothing was decided, so nothing is written."""


@dataclass
class Bench:
    """Everything that measuring needs, handed in."""

    tree: LaneTree
    state: LaneState
    evaluator: Evaluator
    logs: Path  # a folder of this loop's own, outside of the tree
    lock: Path  # one for the machine: two loops that measure at once would measure each other
    signals: Signals
    env: Mapping[str, str]
    holdout: str = ""
    timeout: float = TIMEOUT
    stop: Callable[[], bool] = lambda: False
    on_tick: Callable[[], None] = lambda: None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    # The three things that are measured

    def baseline(self, now: str) -> Row:
        """The A/A check. A tree that is broken, or that gives another number each time, is no baseline."""
        here = self.tree.snapshot()
        if here != self.tree.at(here.commit):
            commit_it = "Commit it or take it away, then run the loop again."
            raise Refused(f"No baseline for {self.state.name}: {self.tree.folder} has uncommitted work.", commit_it)
        with self._alone():
            checks = self._checks(here.tree)
            failed = [each for each in checks if not each.passed]
            if failed:
                why = f"{failed[0].name} failed ({failed[0].evidence})"
                raise Refused(f"No baseline for {self.state.name}: {why}.", "Fix that first, then run the loop again.")
            try:
                first, second = self._in_turn(here.tree, here.tree)
            except NoMetric as error:
                check = "Run verify by hand and look at what it prints."
                raise Refused(f"No baseline for {self.state.name}: {error}.", check) from error
        self.tree.restore(here)
        floor = noise_floor(first, second)
        if not floor.steady:
            raise Refused(
                f"No baseline for {self.state.name}: the same tree measured twice gave different numbers "
                f"({_joined(first)} and {_joined(second)}).",
                "Let verify warm up or measure longer, then run the loop again.",
            )
        return baseline_row(self.state, (*first, *second), floor, checks, now)

    def iteration(self, before: Snapshot, now: str, hypothesis: str | None = None) -> tuple[Row, Snapshot]:
        """What became of a session's changes: the row, and the snapshot to restore once the row is written."""
        candidate = self.tree.tree()
        with self._alone():
            trial = self._tried(before, candidate)
        after = before
        if accepted(self.state, trial):
            after = self.tree.commit(before, candidate, commit_message(self.state, trial, hypothesis))
        commit = after.commit if after != before else None
        return trial_row(self.state, trial, now, hypothesis, commit), after

    def drift(self, at: Snapshot, last: tuple[float, ...], now: str) -> Row | None:
        """Measure the reference again. A row only if it is surely not what it was."""
        with self._alone():
            values = tuple(self._sample(at.tree) for _ in range(CONFIRM_SAMPLES))
        self.tree.restore(at)
        return drift_row(self.state, values, now) if len(last) >= CONFIRM_SAMPLES and differs(last, values) else None

    # One candidate: the cheap tests first

    def _tried(self, before: Snapshot, candidate: str) -> Trial:
        if candidate == before.tree:
            return Trial(unchanged=True)
        frozen = self._frozen()
        if not frozen.passed:
            return Trial(checks=(frozen,))
        try:
            values = tuple(self._sample(candidate) for _ in range(self._samples))
            if self.state.acceptance == "keep-revert" and not self._promising(values):
                return Trial(values)
            checks = tuple(self._checks(candidate))
            if self.state.acceptance == "log" or not all(each.passed for each in checks):
                return Trial(values, checks=checks)
            reference, values = self._in_turn(before.tree, candidate)
        except NoMetric as error:
            return Trial(error=str(error))
        self.tree.put(candidate)
        return Trial(values, reference, (*checks, *self._last_checks(candidate)))

    def _promising(self, values: tuple[float, ...]) -> bool:
        assert self.state.reference is not None
        return screened(values, self.state.reference, self.state.metric_direction)

    @property
    def _samples(self) -> int:
        return max(SCREEN_SAMPLES, self.state.min_measurements or 0)

    def _in_turn(self, reference: str, candidate: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        taken: dict[str, list[float]] = {"reference": [], "candidate": []}
        for side in turns(CONFIRM_SAMPLES):
            taken[side].append(self._sample(reference if side == "reference" else candidate))
        return tuple(taken["reference"]), tuple(taken["candidate"])

    # Commands

    def _sample(self, tree: str) -> float:
        """One run of verify on a clean layout of the tree."""
        self.tree.put(tree)
        done, said = self._run("verify", self.state.verify_command or "")
        if why := _trouble(done, self.timeout):
            raise NoMetric(f"verify {why}{_last_words(done)}")
        state = self.state
        return read_metric(said, state.metric_name, state.metric_json, state.metric_regex).metric

    def _checks(self, tree: str) -> list[Check]:
        """The guard on the tree, and that no one moved the goal before or meanwhile."""
        checks = []
        if self.state.guard_command:
            self.tree.put(tree)
            done, _ = self._run("guard", self.state.guard_command)
            why = _trouble(done, self.timeout)
            evidence = f"{why}{_last_words(done)}" if why else None
            checks.append(
                Check(name="guard", passed=not why, kind="guard", command=self.state.guard_command, evidence=evidence)
            )
        return [*checks, self._frozen()]

    def _last_checks(self, tree: str) -> list[Check]:
        """What is run only for a candidate that would be kept. The holdout's command and output stay unknown."""
        checks = [self._frozen()] if self.evaluator.changed(self.tree.folder) else []
        if self.holdout:
            self.tree.put(tree)
            done, _ = self._run("holdout", self.holdout)
            checks.append(Check(name="holdout", passed=not _trouble(done, self.timeout), kind="holdout"))
        return checks

    def _frozen(self) -> Check:
        return self.evaluator.check(self.tree.folder)

    def _run(self, name: str, line: str) -> tuple[Done, str]:
        """A command in the lane's tree. What it prints on stdout is read; stderr goes to the log."""
        make_private_directory(self.logs)
        number = next(self._numbers)
        log, out = self.logs / f"{number:03d}-{name}.log", self.logs / f"{number:03d}-{name}.out"
        wrapped = ("sh", "-c", f'exec > "$0"\n{line}\n', str(out))
        job = Job(Command(wrapped, self.tree.folder, self.env), self.timeout, log)
        done = run_all(
            [job],
            signals=self.signals,
            at_once=1,
            on_start=lambda _: None,
            on_done=lambda *_: None,
            stop=self.stop,
            on_tick=self.on_tick,
        )
        if not done:
            raise Stopped
        said = read_regular(out, _MOST_OUTPUT) or b""
        return done[0], said.decode("utf-8", "replace")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Loops think side by side, but they measure in turn."""
        make_private_directory(self.lock.parent)
        with opened(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW) as fd:
            while not _locked(fd):
                if self.stop():
                    raise Stopped
                self.on_tick()
                time.sleep(0.05)
            yield


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _trouble(done: Done, timeout: float) -> str:
    """Why a command did not pass, or nothing."""
    if done.exit is None:
        return f"could not be started ({done.reason})"
    if done.exit.reason == "timeout":
        return f"was not done within {duration(timeout)}"
    if done.exit.code == 0:
        return ""
    how = f"signal {done.exit.signal}" if done.exit.code is None else f"exit code {done.exit.code}"
    return f"ended with {how}"


def _last_words(done: Done) -> str:
    words = one_line(done.tail, 2000)[-200:]
    return f": {words}" if words else ""


def _joined(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.6g}" for value in values)
