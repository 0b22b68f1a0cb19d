"""Carries out what the course of a measured loop decides: takes the tree a session left, measures, keeps or reverts."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marathon.core.courses.measured import Bench
from marathon.core.events import Notice, Ticked
from marathon.core.lanes.metric import Unclear, metric_in
from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.names import Run
from marathon.core.lanes.noise import SCREEN_SAMPLES, turns
from marathon.core.lanes.numbers import change, number
from marathon.core.records import CandidateTaken, LaneOpened, Measured, MeasurementKind, RunStarted, Settled
from marathon.core.steps import Measure, Settle, TakeCandidate
from marathon.core.text import clean, one_line, utc
from marathon.git.lane_tree import LaneTree
from marathon.process.signals import Interrupted
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import run
from marathon.runner.checks import check_environment
from marathon.runner.waiting import pause
from marathon.store.files import make_private_directory, opened
from marathon.store.lanes import Lanes
from marathon.store.places import measuring_lock

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

LONGEST_OUTPUT = 1024 * 1024
TIMEOUT = 3600.0
KEPT = ("keep", "log")
_MISSING = "missing"


class Stopped(Exception):
    """The human asked the runner to stop. What was not recorded is measured again at the next start."""


class Unmeasured(Exception):
    """Why a tree has no number."""


@dataclass(frozen=True)
class Workbench:
    """The loop's files and its tree. One per runner."""

    lanes: Lanes
    run: Run
    tree: LaneTree

    # What the runner does once, before the loop

    def open(self, marathon: Marathon, state: LaneState) -> None:
        """Tell the journal what the loop's files say, and finish what a crash cut off between the two."""
        bench = _bench(marathon)
        if bench is None:
            marathon.record(LaneOpened(state=state.facts(), commit=self.tree.head(), frozen=self._frozen(state)))
            return
        if marathon.life.finished or bench.state.status != "running" or _bounds(bench.state) != _bounds(state):
            if marathon.life.finished:
                marathon.record(RunStarted(run=marathon.life.run + 1, path=[], phase=marathon.life.phase))
            marathon.record(LaneOpened(state=state.facts(), commit=bench.commit, frozen=bench.frozen))
        with self.lanes.locked():
            lane = self.lanes.load(self.run)
            known = {(row.iteration, row.action) for row in lane.rows}
            for row in bench.rows:
                if (row.iteration, row.action) not in known:
                    self._store(row)
        if bench.candidate is not None:  # measuring was cut off, perhaps while another tree was in the folder
            self.tree.show(bench.candidate.tree, bench.commit)
        elif marathon.life.session is None:
            self.tree.show(self.tree.tree_of(bench.commit), bench.commit)

    def act(self, marathon: Marathon, step: TakeCandidate | Measure | Settle) -> None:
        bench = _bench(marathon)
        assert bench is not None
        match step:
            case TakeCandidate():
                self._take(marathon, bench)
            case Measure():
                with contextlib.suppress(Stopped):
                    marathon.record(self._measure(marathon, bench, step.kind))
            case Settle():
                self._settle(marathon, bench, Row.model_validate(step.row))

    # The candidate

    def _take(self, marathon: Marathon, bench: Bench) -> None:
        tree, before = self.tree.snapshot(), self.tree.tree_of(bench.commit)
        self.tree.hold(tree)
        summary = self.tree.summary(before, tree) if tree != before else ""
        marathon.record(CandidateTaken(tree=tree, summary=summary))

    # Measuring

    def _measure(self, marathon: Marathon, bench: Bench, kind: MeasurementKind) -> Measured:
        state, base = bench.state, self.tree.tree_of(bench.commit)
        candidate = bench.candidate.tree if bench.candidate and kind in ("screen", "confirm") else base
        marathon.tell(f"Measuring: {_WHAT[kind]}.")
        checks: list[Check] = []
        candidates: list[float] = []
        references: list[float] = []
        problem = ""
        with _alone(marathon):
            try:
                self.tree.show(candidate, bench.commit)
                checks = self._checks(marathon, bench, kind, candidate)
                if all(check.passed for check in checks):
                    for side in _order(kind, state):
                        self.tree.show(candidate if side == "candidate" else base, bench.commit)
                        taken = candidates if side == "candidate" else references
                        taken.append(self._sample(marathon, bench))
                    if kind == "confirm":
                        self.tree.show(candidate, bench.commit)
                        checks += self._holdout(marathon, state)
            except Unmeasured as error:
                problem = str(error)
            finally:
                with contextlib.suppress(Stopped):
                    self.tree.show(candidate, bench.commit)
        return Measured(
            kind=kind,
            candidate=candidates,
            reference=references,
            checks=[check.facts() for check in checks],
            problem=problem,
        )

    def _checks(self, marathon: Marathon, bench: Bench, kind: MeasurementKind, tree: str) -> list[Check]:
        """What has to hold beside the number, the cheap ones first."""
        state, checks = bench.state, []
        if changed := self._changed(bench):
            return [_protected(changed)]
        if kind in ("screen", "confirm") and (nested := self.tree.nested(tree)):
            before = self.tree.nested(self.tree.tree_of(bench.commit))
            if new := sorted(set(nested) - set(before)):
                return [Check(name="no repository inside", passed=False, evidence=", ".join(new))]
        if state.guard_command and kind != "confirm":
            ended, output = self._run(marathon, state.guard_command)
            passed = ended.code == 0
            said = None if passed else _said(ended, output)
            checks.append(Check(name="guard", passed=passed, kind="guard", command=state.guard_command, evidence=said))
            if changed := self._changed(bench):
                checks.append(_protected(changed))
        return checks

    def _holdout(self, marathon: Marathon, state: LaneState) -> list[Check]:
        """A command that the agent never sees. Neither its text nor its output goes into a row."""
        command = self.lanes.holdout(state)
        if not command:
            return []
        ended, _ = self._run(marathon, command)
        return [Check(name="holdout", passed=ended.code == 0, kind="holdout")]

    def _sample(self, marathon: Marathon, bench: Bench) -> float:
        """One number, of exactly the files that are in the folder now."""
        assert bench.state.verify_command
        ended, output = self._run(marathon, bench.state.verify_command)
        if ended.code != 0:
            raise Unmeasured(f"verify failed: {_said(ended, output)}")
        if changed := self._changed(bench):
            raise Unmeasured(f"verify changed protected files: {', '.join(changed)}")
        try:
            return metric_in(output, bench.state)
        except Unclear as error:
            raise Unmeasured(str(error)) from error

    def _run(self, marathon: Marathon, command: str) -> tuple[Exit, str]:
        """Run a command of the loop in its tree. Its standard output comes back, at most a megabyte of it."""
        lines: list[bytes] = []

        def on_output(stream: str, line: bytes, complete: bool) -> None:
            if stream == "out" and sum(map(len, lines[-1:])) + len(line) < LONGEST_OUTPUT and len(lines) < 20_000:
                lines.append(line + (b"\n" if complete else b""))
            elif stream == "err":
                errors[:] = [*errors[-20:], line]

        def on_tick() -> bool:
            marathon.emit(Ticked())
            return marathon.stops.now()

        errors: list[bytes] = []
        environ = check_environment(marathon.task, marathon.runner)
        try:
            ended = run(
                Command(("sh", "-c", command), self.tree.folder, environ, None, False, (marathon.lease.fd,)),
                signals=marathon.signals,
                on_output=on_output,
                on_tick=on_tick,
                on_interrupt=lambda: marathon.emit(Notice("Press Ctrl+C again to stop. Nothing is lost.", "warning")),
                on_resume=lambda: None,
                timeout=TIMEOUT,
            )
        except StartFailed as error:
            raise Unmeasured(f"it could not be started: {error.strerror}") from error
        if ended.reason == "stopped":
            raise Stopped
        if signum := _SIGNALS.get(ended.reason):
            raise Interrupted(signum)
        text = b"".join(lines).decode("utf-8", "replace")
        return ended, text if ended.code == 0 else text + b"\n".join(errors).decode("utf-8", "replace")

    # What must not change

    def _frozen(self, state: LaneState) -> dict[str, str]:
        """The files that decide what is kept: those that the commands name, and those the human protects."""
        words = [word for command in (state.verify_command, state.guard_command) for word in _words(command or "")]
        named = [word for word in words if (self.tree.folder / word).is_file() and not Path(word).is_absolute()]
        return {path: _digest(self.tree.folder / path) for path in [*named, *(state.protected_paths or ())]}

    def _changed(self, bench: Bench) -> list[str]:
        return [path for path, digest in bench.frozen.items() if _digest(self.tree.folder / path) != digest]

    # The end of an iteration

    def _settle(self, marathon: Marathon, bench: Bench, row: Row) -> None:
        """Git first, then the journal, then the loop's files. After a crash the same step comes again."""
        row, commit = row.model_copy(update={"timestamp": utc(marathon.clock())}), bench.commit
        if row.action in KEPT and bench.candidate:
            commit = self.tree.keep(bench.candidate.tree, bench.commit, _message(bench.state, row))
            row = row.model_copy(update={"commit": commit})
        else:
            self.tree.show(self.tree.tree_of(commit), commit)
        marathon.record(Settled(row=row.facts(), commit=commit))
        with self.lanes.locked():
            self._store(row)
        marathon.tell(_line(bench.state, row), "warning" if row.action == "crash" else "info")

    def _store(self, row: Row) -> None:
        from marathon.core.lanes.rules import applied

        lane = self.lanes.load(self.run)
        self.lanes.save(lane, applied(lane.state, row), row, row.timestamp)


_WHAT: Mapping[MeasurementKind, str] = {
    "baseline": "the tree before any change, twice, to know the noise",
    "screen": "what the session left",
    "confirm": "that gain once more, in turn with what it is compared with",
    "reference": "what was kept, to see whether the machine has changed",
}
_SIGNALS: Mapping[str, int] = {"interrupted": 2, "terminated": 15, "hungup": 1}


def _bench(marathon: Marathon) -> Bench | None:
    return marathon.life.own if isinstance(marathon.life.own, Bench) else None


def _bounds(state: LaneState) -> tuple[Any, ...]:
    return state.max_iterations, state.target_metric


def _order(kind: MeasurementKind, state: LaneState) -> Sequence[str]:
    """Which tree is measured when. At the baseline both sides are the same tree."""
    least = max(SCREEN_SAMPLES, state.min_measurements or 0)
    if kind in ("baseline", "confirm"):
        return list(turns(max(5, least)))
    return ["candidate"] * (max(5, least) if kind == "reference" else least)


@contextlib.contextmanager
def _alone(marathon: Marathon) -> Iterator[None]:
    """Loops think at the same time and measure in turn. Two that measure at once would measure each other."""
    path = measuring_lock()
    make_private_directory(path.parent)
    with opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            marathon.tell("Another loop measures on this machine. Waiting for it.")
            while not marathon.stops.now():
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                pause(0.2, marathon.signals)
            else:
                raise Stopped from None
        yield


def _protected(changed: Sequence[str]) -> Check:
    evidence = f"changed: {', '.join(changed)}"
    return Check(name="protected files", passed=False, kind="protect", evidence=evidence)


def _words(command: str) -> list[str]:
    try:
        return [word.removeprefix("./") for word in shlex.split(command)]
    except ValueError:
        return []


def _digest(path: Path) -> str:
    """Of a file, or of every file in a folder."""
    if path.is_dir() and not path.is_symlink():
        below = sorted(each for each in path.rglob("*") if each.is_file() or each.is_symlink())
        parts = [f"{each.relative_to(path)} {_digest(each)}" for each in below if ".git" not in each.parts]
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _MISSING


def _said(ended: Exit, output: str) -> str:
    how = "it took too long" if ended.reason == "timeout" else f"exit code {ended.code}"
    if ended.code is None and ended.signal:
        how = f"it was killed by signal {ended.signal}"
    lines = [line for line in clean(output).splitlines() if line.strip()]
    return f"{how}: {one_line(lines[-1], 200)}" if lines else how


def _message(state: LaneState, row: Row) -> str:
    """The message of a kept commit, with its numbers."""
    name = state.metric_name or "metric"
    subject = one_line(row.hypothesis or f"iteration {row.iteration}", 60)
    parts = [f"{state.lane}: {subject}", ""]
    if row.metric is not None and row.baseline is not None:
        parts.append(f"{name}: {number(row.baseline)} -> {number(row.metric)}")
        parts.append(f"({change(row.metric, row.baseline, state.metric_direction)})")
    parts.append(f"Iteration {row.iteration} of {state.name}")
    return "\n".join(parts)


def _line(state: LaneState, row: Row) -> str:
    """An iteration in a line, for the screen."""
    if row.action == "baseline":
        return f"📏 Baseline {number(row.metric or 0)}: {row.reason}."
    if row.is_mark:
        return f"📏 {row.action.capitalize()}: {one_line(row.reason or 'a fresh start of the ladder', 200)}"
    sign = {"keep": "✓ kept", "log": "✓ logged", "revert": "↩ reverted"}.get(row.action, f"↩ {row.action}")
    numbers = ""
    if row.metric is not None and row.baseline is not None:
        numbers = f" {number(row.metric)} ({change(row.metric, row.baseline, state.metric_direction)})"
    return f"📏 Iteration {row.iteration} {sign}{numbers}: {one_line(row.reason or '', 200)}"
