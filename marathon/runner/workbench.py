"""Carries out what the course of a measured loop decides: takes the tree a session left, measures, keeps or reverts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marathon.core.courses.measured import BOUNDS, Bench
from marathon.core.events import Notice, Ticked
from marathon.core.lanes.also import parse_also
from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.names import Run
from marathon.core.lanes.noise import CONFIRM_SAMPLES, SCREEN_SAMPLES, turns
from marathon.core.lanes.reading import NoMetric, Reading, read_metric
from marathon.core.lanes.rules import applied
from marathon.core.lanes.trial import commit_message
from marathon.core.records import CandidateTaken, LaneOpened, Measured, MeasurementKind, RunStarted, Settled
from marathon.core.steps import Measure, Settle, TakeCandidate
from marathon.core.text import clean, duration, one_line, utc
from marathon.git.lanes import LaneTree
from marathon.git.worktree import head_of
from marathon.process.signals import Interrupted
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import run
from marathon.runner.checks import check_environment
from marathon.runner.sandbox import for_commands
from marathon.show.lanes import settled_line
from marathon.store.evaluator import Evaluator, freeze
from marathon.store.files import make_private_directory, opened
from marathon.store.lanes import Lane, Lanes
from marathon.store.places import measuring_lock

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

LONGEST_OUTPUT = 1024 * 1024
TIMEOUT = 3600.0


class Stopped(Exception):
    """The human asked the runner to stop. What was not recorded is measured again at the next start."""


@dataclass
class _Samples:
    """What verify printed for one side."""

    values: list[float]
    also: dict[str, list[float]]

    def add(self, reading: Reading) -> None:
        self.values.append(reading.metric)
        for name, values in self.also.items():
            if name not in reading.others:
                raise NoMetric(f"verify printed no METRIC {name}")
            values.append(reading.others[name])


@dataclass
class Workbench:
    """The loop's files and its tree. One per runner."""

    lanes: Lanes
    run: Run
    tree: LaneTree
    _laid_out: str = ""  # the tree in the folder, as long as nothing has run there

    # What the runner does once, before the loop

    def open(self, marathon: Marathon) -> None:
        """Tell the journal what a human changed in the loop's files, and finish what a crash cut off."""
        bench = _bench(marathon)
        with self.lanes.locked():
            lane = self._store(bench.rows if bench else ())
        state, resumes = lane.state, sum(row.action == "resumed" for row in lane.rows)
        if bench is None or bench.state.baseline is None:
            self._begin(marathon, state, resumes)
            return
        if marathon.life.finished and resumes > bench.resumes:
            marathon.record(RunStarted(run=marathon.life.run + 1, path=[], phase=marathon.life.phase))
        measured_in_vain = bench.measured and not bench.candidate
        if resumes > bench.resumes or measured_in_vain or _bounds(bench.state) != _bounds(state):
            marathon.record(LaneOpened(state=state.facts(), commit=bench.commit, resumes=resumes))
        if bench.candidate is not None:  # measuring was cut off, perhaps while another tree was in the folder
            self.tree.put(bench.candidate.tree)
        elif not bench.touched:
            self.tree.restore(self.tree.at(bench.commit))

    def _begin(self, marathon: Marathon, state: LaneState, resumes: int) -> None:
        """Without a baseline, a loop begins with the project's last commit, which may have been fixed by now."""
        commit = head_of(self.lanes.project)
        self.tree.restore(self.tree.at(commit))
        commands = filter(None, (state.verify_command, state.guard_command))
        frozen = freeze(self.tree.folder, commands, state.protected_paths or ())
        state = state.with_(measured_by="runner", frozen_paths=list(frozen.roots), frozen=dict(frozen.digests))
        marathon.record(LaneOpened(state=state.facts(), commit=commit, resumes=resumes))

    def act(self, marathon: Marathon, step: TakeCandidate | Measure | Settle) -> None:
        bench = _bench(marathon)
        assert bench is not None
        match step:
            case TakeCandidate():
                tree = self._laid_out = self.tree.tree()
                summary = self.tree.summary(self.tree.at(bench.commit).tree, tree)
                marathon.record(CandidateTaken(tree=tree, summary=summary))
            case Measure():
                with contextlib.suppress(Stopped):
                    marathon.record(self._measure(marathon, bench, step.kind))
            case Settle():
                self._settle(marathon, bench, Row.model_validate(step.row))

    def facts(self) -> dict[str, Any]:
        """The loop as its files tell it."""
        return self.lanes.load(self.run).state.facts()

    # Measuring

    def _measure(self, marathon: Marathon, bench: Bench, kind: MeasurementKind) -> Measured:
        """The cheap tests come first, and nothing is sampled once a check has failed."""
        state, base = bench.state, self.tree.at(bench.commit).tree
        tree = bench.candidate.tree if bench.candidate and kind in ("screen", "confirm") else base
        also = [parse_also(text).name for text in state.also or ()]
        sides = {side: _Samples([], {name: [] for name in also}) for side in ("candidate", "reference")}
        checks: list[Check] = []
        problem = ""
        marathon.tell(f"Measuring: {_WHAT[kind]}.")
        with _alone(marathon):
            try:
                checks += self._checks(marathon, bench, kind, tree)
                for side in _order(kind, state) if _passed(checks) else ():
                    self._lay_out(tree if side == "candidate" else base)
                    sides[side].add(self._sample(marathon, state))
                if kind in _GUARDED[state.acceptance] and _passed(checks):
                    checks += self._last_checks(marathon, bench, kind, tree)
            except NoMetric as error:
                problem = str(error)
            except (Stopped, Interrupted):  # what the cut off run left in the folder goes
                self._lay_out(tree)
                raise
        candidate, reference = sides["candidate"], sides["reference"]
        return Measured(
            kind=kind,
            candidate=candidate.values,
            reference=reference.values,
            also=candidate.also,
            also_reference=reference.also if reference.values else {},
            checks=[check.facts() for check in checks],
            problem=problem,
        )

    def _checks(self, marathon: Marathon, bench: Bench, kind: MeasurementKind, tree: str) -> Iterator[Check]:
        """What has to hold before the number counts. The guard is run once for a tree that may stay."""
        state, base = bench.state, self.tree.at(bench.commit).tree
        self._lay_out(tree)
        frozen = self._frozen(state)
        if not frozen.passed:
            yield frozen
            return
        if kind == "screen" and (new := self.tree.nested(base, tree)):
            names = ", ".join(one_line(name, 100) for name in new[:5])
            yield Check(name="no repository inside", passed=False, kind="tree", evidence=names)
            return
        if state.guard_command and kind in _GUARDED[state.acceptance]:
            ended, output = self._run(marathon, state, state.guard_command)
            said = None if ended.code == 0 else _said(ended, output)
            command = state.guard_command
            yield Check(name="guard", passed=ended.code == 0, kind="guard", command=command, evidence=said)

    def _last_checks(self, marathon: Marathon, bench: Bench, kind: MeasurementKind, tree: str) -> Iterator[Check]:
        """That no one moved the goal meanwhile, and the holdout, of which neither text nor output goes into a row."""
        self._lay_out(tree)
        frozen = self._frozen(bench.state)
        if not frozen.passed or kind == "confirm":
            yield frozen
        holdout = self.lanes.holdout(bench.state)
        if frozen.passed and holdout:
            ended, _ = self._run(marathon, bench.state, holdout)
            yield Check(name="holdout", passed=ended.code == 0, kind="holdout")

    def _lay_out(self, tree: str) -> None:
        """What a run left behind goes before the next one."""
        if self._laid_out != tree:
            self.tree.put(tree)
            self._laid_out = tree

    def _frozen(self, state: LaneState) -> Check:
        return Evaluator(tuple(state.frozen_paths or ()), state.frozen or {}).check(self.tree.folder)

    def _sample(self, marathon: Marathon, state: LaneState) -> Reading:
        """One run of verify on exactly the files that lie in the folder now."""
        ended, output = self._run(marathon, state, state.verify_command or "")
        if ended.code != 0:
            raise NoMetric(f"verify failed: {_said(ended, output)}")
        return read_metric(output, state.metric_name, state.metric_json, state.metric_regex)

    def _run(self, marathon: Marathon, state: LaneState, command: str) -> tuple[Exit, str]:
        """Run a command of the loop in its tree. Its standard output comes back, at most a megabyte of it."""
        lines: list[bytes] = []
        errors: list[bytes] = []
        size = 0

        def on_output(stream: str, line: bytes, complete: bool) -> None:
            nonlocal size
            if stream == "err":
                errors[:] = [*errors[-20:], line]
            elif size < LONGEST_OUTPUT:
                lines.append(line + (b"\n" if complete else b""))
                size += len(lines[-1])

        def on_tick() -> bool:
            marathon.emit(Ticked())
            return marathon.stops.now()

        self._laid_out = ""
        environ = check_environment(marathon.task, marathon.runner) | for_commands(marathon)
        try:
            ended = run(
                Command(("sh", "-c", command), self.tree.folder, environ, None, False, (marathon.lease.fd,)),
                signals=marathon.signals,
                on_output=on_output,
                on_tick=on_tick,
                on_interrupt=lambda: marathon.emit(Notice("Press Ctrl+C again to stop. Nothing is lost.", "warning")),
                on_resume=lambda: None,
                timeout=(TIMEOUT if state.timeout is None else state.timeout) or None,
            )
        except StartFailed as error:
            raise NoMetric(f"a shell could not be started in {self.tree.folder}: {error.strerror}") from error
        if ended.reason == "stopped":
            raise Stopped
        if signum := _SIGNALS.get(ended.reason):
            raise Interrupted(signum)
        text = b"".join(lines).decode("utf-8", "replace")
        return ended, text if ended.code == 0 else text + b"\n".join(errors).decode("utf-8", "replace")

    # The end of an iteration

    def _settle(self, marathon: Marathon, bench: Bench, row: Row) -> None:
        """The journal names the commit before the branch moves, so a crash in between is finished from the journal."""
        row, after = row.model_copy(update={"timestamp": utc(marathon.clock())}), self.tree.at(bench.commit)
        if bench.candidate and row.action != "skip":
            made = self.tree.commit(after, bench.candidate.tree, commit_message(bench.state, row))
            stays = row.action in ("keep", "log") and row.acceptance_passed
            after = made if stays else after
            row = row.model_copy(update={"commit" if stays else "tried": made.commit})
        self._laid_out = ""
        marathon.record(Settled(row=row.facts(), commit=after.commit))
        self.tree.restore(after)
        with self.lanes.locked():
            self._store([row])
        marathon.tell(f"📏 {settled_line(bench.state, row)}", "warning" if row.action == "crash" else "info")

    def _store(self, rows: Sequence[Row]) -> Lane:
        """Add rows to the loop's files, where they are not there. What a human has changed there meanwhile stays."""
        lane = self.lanes.load(self.run)
        known = {(row.iteration, row.action, row.timestamp) for row in lane.rows}
        for row in rows:
            if (row.iteration, row.action, row.timestamp) not in known:
                after = applied(lane.state, row)
                self.lanes.save(lane, after, row, row.timestamp)
                lane = Lane(after, (*lane.rows, row))
        return lane


_WHAT: Mapping[MeasurementKind, str] = {
    "baseline": "the tree before any change, twice, to know the noise",
    "screen": "what the session left",
    "confirm": "that gain once more, in turn with what it is compared with",
    "reference": "what was kept, to see whether the machine has changed",
}
# Where the number decides, the guard is run for a promising candidate only.
_GUARDED: Mapping[str, Sequence[MeasurementKind]] = {
    "keep-revert": ("baseline", "confirm"),
    "log": ("baseline", "screen"),
}
_SIGNALS: Mapping[str, int] = {"interrupted": 2, "terminated": 15, "hungup": 1}


def _bench(marathon: Marathon) -> Bench | None:
    return marathon.life.own if isinstance(marathon.life.own, Bench) else None


def _bounds(state: LaneState) -> list[Any]:
    return [getattr(state, name) for name in BOUNDS]


def _passed(checks: Sequence[Check]) -> bool:
    return all(check.passed for check in checks)


def _order(kind: MeasurementKind, state: LaneState) -> Sequence[str]:
    """Which tree is measured when. At the baseline both sides are the same tree."""
    least = state.min_measurements or 0
    if kind in ("baseline", "confirm"):
        return list(turns(max(CONFIRM_SAMPLES, least)))
    return ["candidate"] * max(CONFIRM_SAMPLES if kind == "reference" else SCREEN_SAMPLES, least)


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
