"""Measures for a loop: takes the tree that was left, measures it against what was kept, and keeps or restores."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from marathon.core.courses.measured import Bench, bench_of
from marathon.core.events import Notice, Ticked
from marathon.core.lanes.also import parse_also
from marathon.core.lanes.blocks import MOST_BLOCKS, SEEN, Block, alike, order, ratio, verdict
from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.names import Run
from marathon.core.lanes.reach import check, outside
from marathon.core.lanes.reading import Contradiction, NoMetric, Reading, answers, metric_lines, read_metric
from marathon.core.lanes.rules import baseline_row
from marathon.core.lanes.trial import (
    AT_START,
    NOISY,
    Trial,
    commit_message,
    noise_line,
    noise_of,
    stays,
    trial_row,
    won,
)
from marathon.core.records import RowAdded, RunStarted, Trying
from marathon.core.steps import AddRow, Measure
from marathon.core.text import clean, duration, one_line, utc
from marathon.errors import MarathonError, WaitsForHuman
from marathon.git.lanes import LARGE, LaneTree, Snapshot
from marathon.git.worktree import head_of
from marathon.process.signals import Interrupted
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import run
from marathon.runner.checks import check_environment
from marathon.runner.loop import run as run_sessions
from marathon.runner.sandbox import for_ground
from marathon.show.lanes import next_command, settled_line
from marathon.store.evaluator import inside, programs
from marathon.store.files import make_private_directory, opened
from marathon.store.ground import Ground
from marathon.store.lanes import Lanes
from marathon.store.places import measuring_lock

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

LONGEST_OUTPUT = 1024 * 1024
TIMEOUT = 3600.0
MOST_ITERATIONS = 100  # of a loop that no one gave a bound
FINAL_BLOCKS = 5
_SIGNALS = {"interrupted": 2, "terminated": 15, "hungup": 1}


class Stopped(Exception):
    """The human asked the runner to stop. What was not recorded is measured again at the next start."""


class NoBaseline(MarathonError):
    """There is nothing that a change could be compared with."""


@dataclass
class Sampled:
    """What the runs of one tree printed."""

    values: list[float] = field(default_factory=list)
    also: dict[str, list[float]] = field(default_factory=dict)
    answers: set[tuple[str, ...]] = field(default_factory=set)


@dataclass
class Workbench:
    """The loop's files, its tree and the ground that it is measured on. One per runner."""

    lanes: Lanes
    run: Run
    tree: LaneTree
    ground: Ground
    begins_as: LaneState  # as the loop's files tell it, for as long as nothing was measured
    agree: Callable[[str], None] = lambda question: None  # raises if the human says no
    resumed: Row | None = None  # a human lets the loop continue
    by_hand: bool = False  # no session works: what lies in the folder is to be tried
    row: Row | None = None  # the last one
    said: list[str] = field(default_factory=list)  # what was told of each row

    # What the runner does once, before the loop

    def open(self, marathon: Marathon) -> None:
        """Let the loop continue, and finish what a crash cut off."""
        bench = bench_of(marathon.life)
        self.ground.remove()  # what a killed runner left
        if bench.state is None:
            commit = head_of(self.lanes.project)  # without a baseline it may have been fixed by now
            if not self.by_hand:
                self.tree.restore(self.tree.at(commit))
            return
        if marathon.life.finished and (self.resumed or bench.state.status == "running"):
            marathon.record(RunStarted(run=marathon.life.run + 1, path=[], phase=marathon.life.phase))
        if self.resumed:
            self._add(marathon, self.resumed)
        if not (self.by_hand or bench.touched or bench.trying):
            self.tree.restore(self.tree.at(bench.commit))
        self._write_files(marathon)

    def play(self, marathon: Marathon) -> int:
        """The whole loop. One that someone asked to stop says how much it has gained, and is paused."""
        code = run_sessions(marathon)
        if (word := marathon.stops.word) and bench_of(marathon.life).state and not marathon.life.finished:
            if bench_of(marathon.life).unconfirmed and not marathon.stops.now():
                self.confirm(marathon)
            state = bench_of(marathon.life).state
            assert state
            self._add(marathon, Row(iteration=state.iteration, action=word))
        return code

    def try_once(self, hypothesis: str, marathon: Marathon) -> int:
        """What lies in the folder, measured now."""
        try:
            if bench_of(marathon.life).state is None:
                self.act(marathon, Measure("baseline"))
            bench = bench_of(marathon.life)
            if bench.state is None:
                return 3  # stopped
            large = self.tree.large()
            unchanged = self.tree.tree(large) == self.tree.at(bench.commit).tree and not large
            if unchanged and not bench.trying:
                self.said.append(f"Nothing has changed since the last keep. Change something in {self.tree.folder}")
                marathon.tell(self.said[-1])
                return 0
            self.act(marathon, Measure("try", hypothesis))
            state = bench_of(marathon.life).state
            if state and state.status == "completed" and bench_of(marathon.life).unconfirmed:
                self.act(marathon, Measure("gained"))
        except Interrupted as end:
            return 128 + end.signum
        return 0

    def act(self, marathon: Marathon, step: Measure | AddRow) -> None:
        with contextlib.suppress(Stopped):
            match step:
                case AddRow():
                    self._add(marathon, Row.model_validate(step.row))
                case Measure("baseline"):
                    self._baseline(marathon)
                case Measure("gained"):
                    self.confirm(marathon)
                case Measure():
                    self._try(marathon, step.hypothesis)

    def facts(self) -> dict[str, Any]:
        """The loop as its files tell it, and the last row that was added."""
        state = self.lanes.load(self.run).state
        facts: dict[str, Any] = {"loop": state.facts(), **({"row": self.row.facts()} if self.row else {})}
        if not self.by_hand:
            return facts
        said = [*self.said, f"Next: {next_command(state, by_hand=True)}"]
        named = {"target": state.name, "status": state.status, "state": state.facts()}
        return {**facts, **named, "next": next_command(state, by_hand=True), "text": "\n".join(said)}

    # The three things that are measured

    def _baseline(self, marathon: Marathon) -> None:
        """The tree before any change, several times, to know the noise. A broken tree is no baseline."""
        commit = head_of(self.lanes.project)
        tree = self.tree.at(commit).tree
        state = self._bounded(marathon, self.begins_as.with_(measured_by="runner"))
        marathon.tell(f"Measuring: the tree before any change, {AT_START} times, to know the noise.")
        cure = "Only what is committed is measured. Fix it, commit, and run the loop again."
        with _alone(marathon):
            try:
                self._prepare(marathon, state, tree, tree)
                # What is timed is what is to get better. What prints a number measures something else.
                commands = (None if state.timed else state.verify_command, state.guard_command)
                measures = programs(self._folder, filter(None, commands))
                named = [inside(self._folder, path) for path in state.protected_paths or ()]
                state = state.with_(frozen_paths=[*named, *measures])
                checks = [self._guard(marathon, state, tree)] if state.guard_command else []
                if failed := next((each for each in checks if not each.passed), None):
                    said = f"{failed.name} failed ({failed.evidence}), so this tree is broken before any change"
                    raise NoBaseline(f"There is no baseline: {said}. {cure}")
                sampled = Sampled()
                for _ in range(AT_START):
                    self._sample(marathon, state, tree, sampled)
            except NoMetric as error:
                raise NoBaseline(f"There is no baseline: {error}. {cure}") from error
        noise, told = noise_of(sampled.values), noise_line(sampled.values, state.metric_name or "the number")
        if SEEN * noise > NOISY and state.acceptance == "keep-revert":
            self.agree(told)
        known = [row for row in self.lanes.load(self.run).rows if row.iteration]  # of an agent that measured before
        for row in known:
            marathon.record(RowAdded(row=row.facts()))
        state = state.with_(iteration=max((row.iteration for row in known), default=0))
        row = baseline_row(state, sampled.values, checks, reason=told, noise=noise, commit=commit, tree=tree)
        self._add(marathon, row)

    def _try(self, marathon: Marathon, hypothesis: str) -> None:
        bench = bench_of(marathon.life)
        state = bench.state
        assert state
        before = self.tree.at(bench.commit)
        trying, large = bench.trying, self.tree.large()
        if trying is None:
            tree = self.tree.tree(large)
            summary = self.tree.summary(before.tree, tree) or ("a large file" if large else "")
            marathon.record(Trying(tree=tree, summary=summary, hypothesis=hypothesis, seed=secrets.randbits(32)))
            trying = bench_of(marathon.life).trying
            assert trying
        head = head_of(self.tree.folder) if state.in_place else ""
        trial = self._judged(marathon, bench, state, before.tree, trying, large)
        row = trial_row(state, trial, trying.hypothesis or None, trying.summary or None)
        row = row.model_copy(update={"tree": trying.tree, "seed": trying.seed if trial.blocks else None})
        if state.in_place and (self.tree.tree() != trying.tree or head_of(self.tree.folder) != head):
            raise WaitsForHuman(self._disturbed(bench.commit, row))
        after = before
        if row.action != "skip":
            made = self.tree.commit(before, trying.tree, commit_message(state, row))
            kept = stays(state, trial)
            if kept:
                self.tree.take_over(made.commit)
                after = made
            row = row.model_copy(update={"commit" if kept else "tried": made.commit})
        self._add(marathon, row, after)

    def confirm(self, marathon: Marathon) -> None:
        """The beginning against what was kept, once more: the number at the end."""
        bench = bench_of(marathon.life)
        state = bench.state
        assert state
        start, tip = self.tree.at(bench.start).tree, self.tree.at(bench.commit).tree
        marathon.tell("Measuring: what the loop has gained in all.")
        blocks: list[Block] = []
        row = Row(iteration=state.iteration, action="confirmed", seed=secrets.randbits(32))
        with _alone(marathon):
            try:
                self._prepare(marathon, state, start, tip)
                sides = Sampled(), Sampled()
                for _ in range(1 if bench.noiseless else FINAL_BLOCKS):
                    blocks.append(self._block(marathon, state, row.seed or 0, len(blocks), (start, tip), sides))
            except NoMetric as error:
                row = row.model_copy(update={"error": str(error)})
        if blocks:
            candidate = [value for block in blocks for value in block.candidate]
            reference = [value for block in blocks for value in block.reference]
            found = {"metric": median(candidate), "baseline": median(reference), "ratio": ratio(blocks)}
            listed = [[*each.reference, *each.candidate] for each in blocks]
            row = Row.model_validate({**row.facts(), **found, "blocks": listed})
        self._add(marathon, row)

    # One candidate

    def _judged(
        self, marathon: Marathon, bench: Bench, state: LaneState, base: str, trying: Trying, large: Sequence[str]
    ) -> Trial:
        """The cheap tests come first. What passes them is measured until it is surely better, or not surely."""
        if not trying.summary:
            return Trial(skipped="nothing was changed")
        if again := bench.tried.get(trying.tree):
            return Trial(skipped=f"the same change was tried in iteration {again}")
        checks: list[Check] = []
        blocks: list[Block] = []
        sides = Sampled(), Sampled()
        say, noiseless = None, bench.noiseless
        marathon.tell(f"Measuring: {trying.summary}.")
        with _alone(marathon):
            try:
                if not (failed := self._forbidden(state, base, trying, large)).passed:
                    return Trial(checks=(failed,))
                self._prepare(marathon, state, base, trying.tree)
                began = time.monotonic()
                while say is None:
                    block = self._block(marathon, state, trying.seed, len(blocks), (base, trying.tree), sides)
                    blocks.append(block)
                    noiseless = noiseless and alike(block)
                    say = self._verdict(state, blocks, noiseless)
                    if say is None:
                        each = (time.monotonic() - began) / len(blocks)
                        left = duration(each * (MOST_BLOCKS - len(blocks)))
                        said = won(state, blocks, " · ")
                        told = f"block {len(blocks)} of ≤ {MOST_BLOCKS} · {said} · at most {left} more"
                        marathon.tell(told)
                checks += self._compared(state, sides)
                if all(each.passed for each in checks) and (say == "keep" or state.acceptance == "log"):
                    checks += self._last_checks(marathon, state, base, trying.tree)
            except Contradiction as error:
                checks.append(Check(name="metric", passed=False, kind="metric", evidence=str(error)))
            except NoMetric as error:
                return Trial(tuple(blocks), None, noiseless, tuple(checks), str(error))
        return Trial(tuple(blocks), say, noiseless, tuple(checks))

    def _verdict(self, state: LaneState, blocks: Sequence[Block], noiseless: bool) -> Any:
        if state.acceptance == "log":
            enough = 2 * len(blocks) >= (state.min_measurements or 1)
            return "drop" if enough else None
        gain, rule = state.min_gain or 0.0, state.rule or "strict"
        return verdict(blocks, state.metric_direction, rule=rule, min_gain=gain, noiseless=noiseless)

    def _forbidden(self, state: LaneState, base: str, trying: Trying, large: Sequence[str]) -> Check:
        """What no change may bring: a repository, a large file, or a file that measures."""
        if new := self.tree.nested(base, trying.tree):
            names = ", ".join(one_line(name, 100) for name in new[:5])
            return Check(name="no repository inside", passed=False, kind="tree", evidence=names)
        if large:
            names = ", ".join(one_line(name, 100) for name in large[:5])
            told = f"{names}: more than {LARGE // 1_000_000} MB"
            return Check(name="no large file", passed=False, kind="tree", evidence=told)
        below = self.tree.below
        holdout = programs(self.tree.folder, [self.lanes.holdout(state)])  # no row names them
        measures = [str(below / path) for path in (*(state.frozen_paths or ()), *holdout)]
        roots = {"", "src", "lib", str(below), *(str(Path(path).parent) for path in measures)} - {"."}
        only = [str(below / path) for path in state.only_paths or ()]
        changed = self.tree.changed(base, trying.tree)
        return check(outside(changed, only, measures, sys.stdlib_module_names, roots), only)

    def _compared(self, state: LaneState, sides: tuple[Sampled, Sampled]) -> Iterator[Check]:
        """What was printed beside the number."""
        reference, candidate = sides
        for also in map(parse_also, state.also or ()):
            yield also.check(candidate.also[also.name], reference.also[also.name])
        if reference.answers != candidate.answers:
            told = "the ANSWER lines are not those of the tree before"
            if len(reference.answers) > 1:
                told = "the ANSWER lines differ from run to run, also of the tree before"
            yield Check(name="answers", passed=False, kind="answers", evidence=told)

    def _last_checks(self, marathon: Marathon, state: LaneState, base: str, tree: str) -> Iterator[Check]:
        """The guard, and the holdout, of which neither text nor output goes into a row."""
        passed = True
        if state.guard_command:
            guard = self._guard(marathon, state, tree)
            if not guard.passed and not self._guard(marathon, state, base).passed:
                told = f"{guard.evidence}; it also fails on the tree before, so it is flaky"
                guard = guard.model_copy(update={"evidence": told})
            passed = guard.passed
            yield guard
        if passed and (holdout := self.lanes.holdout(state)):
            ended, _ = self._run(marathon, state, tree, holdout)
            yield Check(name="holdout", passed=ended.code == 0, kind="holdout")

    def _guard(self, marathon: Marathon, state: LaneState, tree: str) -> Check:
        command = state.guard_command or ""
        ended, output = self._run(marathon, state, tree, command)
        said = None if ended.code == 0 else _said(ended, output)
        return Check(name="guard", passed=ended.code == 0, kind="guard", command=command, evidence=said)

    # Runs

    def _block(
        self,
        marathon: Marathon,
        state: LaneState,
        seed: int,
        block: int,
        trees: tuple[str, str],
        sides: tuple[Sampled, Sampled],
    ) -> Block:
        """Two runs of each tree, the reference's first in the result."""
        for letter in order(seed, block):
            side = "RC".index(letter)
            self._sample(marathon, state, trees[side], sides[side])
        (a, b), (c, d) = (each.values[-2:] for each in sides)
        return Block((a, b), (c, d))

    def _sample(self, marathon: Marathon, state: LaneState, tree: str, into: Sampled) -> None:
        """One run of verify on exactly the files of a tree."""
        ended, output = self._run(marathon, state, tree, state.verify_command or "")
        if ended.code != 0:
            raise NoMetric(f"verify failed: {_said(ended, output)}")
        reading = Reading(ended.seconds)
        if not state.timed:
            reading = read_metric(output, state.metric_name, state.metric_json, state.metric_regex)
        elif state.also:
            reading = Reading(ended.seconds, metric_lines(output))
        into.values.append(reading.metric)
        into.answers.add(answers(output))
        for name in (parse_also(text).name for text in state.also or ()):
            if name not in reading.others:
                raise NoMetric(f"verify printed no METRIC {name}")
            into.also.setdefault(name, []).append(reading.others[name])

    def _prepare(self, marathon: Marathon, state: LaneState, *trees: str) -> None:
        """Both trees, each as `--setup` leaves it. It is run once in each."""
        for tree in dict.fromkeys(trees):
            if self.ground.has(tree):
                continue
            self.ground.begin(None if state.keep_home else _home())
            self.tree.export(tree, self.ground.tree)
            self.ground.age_files()
            if state.setup_command:
                marathon.tell(f"Setting up: {one_line(state.setup_command, 200)}")
                ended, output = self._run(marathon, state, "", state.setup_command)
                if ended.code != 0:
                    raise NoMetric(f"setup failed: {_said(ended, output)}")
            self.ground.keep_as(tree, *trees)

    @property
    def _folder(self) -> Path:
        return self.ground.tree / self.tree.below

    def _run(self, marathon: Marathon, state: LaneState, tree: str, command: str) -> tuple[Exit, str]:
        """Run a command of the loop in a tree. Its output comes back: the beginning, and what is meant for us."""
        lines: list[bytes] = []
        errors: list[bytes] = []
        size = 0

        def on_output(stream: str, line: bytes, complete: bool) -> None:
            nonlocal size
            if stream == "err":
                errors[:] = [*errors[-20:], line]
            elif size < LONGEST_OUTPUT or line.startswith((b"METRIC ", b"ANSWER ")):
                lines.append(line + (b"\n" if complete else b""))
                size += len(lines[-1])

        def on_tick() -> bool:
            marathon.emit(Ticked())
            return marathon.stops.now()

        if tree:
            self.ground.lay_out(tree)
        try:
            ended = run(
                Command(
                    ("sh", "-c", command),
                    self._folder,
                    self._environ(marathon, state),
                    None,
                    False,
                    (marathon.lease.fd,),
                ),
                signals=marathon.signals,
                on_output=on_output,
                on_tick=on_tick,
                on_interrupt=lambda: marathon.emit(Notice("Press Ctrl+C again to stop. Nothing is lost.", "warning")),
                on_resume=lambda: None,
                timeout=(TIMEOUT if state.timeout is None else state.timeout) or None,
            )
        except StartFailed as error:
            raise NoMetric(f"a shell could not be started in {self._folder}: {error.strerror}") from error
        if ended.reason == "stopped":
            raise Stopped
        if signum := _SIGNALS.get(ended.reason):
            raise Interrupted(signum)
        text = b"".join(lines).decode("utf-8", "replace")
        return ended, text if ended.code == 0 else text + b"\n".join(errors).decode("utf-8", "replace")

    def _environ(self, marathon: Marathon, state: LaneState) -> dict[str, str]:
        """Nothing that one run could leave for the next, and the same for both sides."""
        environ = {
            **check_environment(marathon.task, marathon.runner),
            "TMPDIR": str(self.ground.tmp),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environ |= {"PYTHONHASHSEED": "0"}
        environ |= for_ground(marathon, (self.ground.tree, self.ground.home, self.ground.tmp))
        if state.keep_home:
            return environ
        return {name: value for name, value in environ.items() if not name.startswith("XDG_")} | {
            "HOME": str(self.ground.home),
            "XDG_CACHE_HOME": str(self.ground.home / ".cache"),
        }

    # Rows

    def _add(self, marathon: Marathon, row: Row, after: Snapshot | None = None) -> None:
        """Into the journal, then the tree as the row says, then the files. A crash in between is finished from it."""
        row = self.row = row.model_copy(update={"timestamp": utc(marathon.clock())})
        marathon.record(RowAdded(row=row.facts()))
        if after:
            self.tree.restore(after)
        self._write_files(marathon)
        state = bench_of(marathon.life).state
        if state and row.iteration >= state.iteration:
            self.said.append(settled_line(state, row))
            marathon.tell(f"📏 {self.said[-1]}", "warning" if row.action == "crash" else "info")

    def _write_files(self, marathon: Marathon) -> None:
        bench = bench_of(marathon.life)
        if bench.state:
            with self.lanes.locked():
                for told in self.lanes.write(bench.state, bench.rows):
                    marathon.tell(told, "warning")

    def _bounded(self, marathon: Marathon, state: LaneState) -> LaneState:
        """A loop that no one gave a bound gets one."""
        limits = marathon.options.limits
        if state.max_iterations or state.plateau or limits.max_cost or limits.max_seconds or limits.max_tokens:
            return state
        marathon.tell(f"No bound was given, so the loop ends after {MOST_ITERATIONS} iterations (--max-iterations N).")
        return state.with_(max_iterations=MOST_ITERATIONS)

    def _disturbed(self, commit: str, row: Row) -> str:
        aside = f"git branch aside && git stash -u && git reset --hard {commit[:12]}"
        return (
            f"{self.lanes.project} was changed while iteration {row.iteration} was measured, so nothing was kept or "
            f"taken back. Put your changes aside ({aside}), and run the loop again: it is measured once more."
        )


def _home() -> Path | None:
    home = os.environ.get("HOME")
    return Path(home) if home else None


@contextlib.contextmanager
def _alone(marathon: Marathon) -> Iterator[None]:
    """Loops think at the same time and measure in turn. Two that measure at once would measure each other."""
    path = measuring_lock()
    make_private_directory(path.parent)
    with opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC) as fd:
        if not _locked(fd):
            marathon.tell("Another loop measures on this machine. Waiting for it.")
            while not _locked(fd):
                if marathon.stops.now():
                    raise Stopped
                marathon.signals.pause(0.1)
        yield


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _said(ended: Exit, output: str) -> str:
    how = f"exit code {ended.code}"
    if ended.reason == "timeout":
        how = f"it was ended after {duration(ended.seconds)} (--timeout)"
    elif ended.code is None and ended.signal:
        how = f"it was killed by signal {ended.signal}"
    lines = [line for line in clean(output).splitlines() if line.strip()]
    return f"{how}: {one_line(lines[-1], 200)}" if lines else how
