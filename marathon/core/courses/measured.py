"""The course of a measured loop: one change per session, measured by the runner, kept only if the number improved.

The rules for numbers, rows and the end of a loop stand in core/lanes. This module says what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from marathon.core.breakers import CUT_SHORT
from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import Phase
from marathon.core.decide import note_of
from marathon.core.lanes.also import Also, parse_also
from marathon.core.lanes.brief import brief
from marathon.core.lanes.model import Check, LaneState, Row, state_of
from marathon.core.lanes.noise import NoiseFloor, differs, noise_floor, screened
from marathon.core.lanes.numbers import number
from marathon.core.lanes.rules import applied, baseline_row, end_of
from marathon.core.lanes.trial import Trial, drift_row, floor_line, trial_row
from marathon.core.life import Life
from marathon.core.records import (
    Answer,
    Begun,
    CandidateTaken,
    Gate,
    LaneOpened,
    Measured,
    MeasurementKind,
    Record,
    SessionEnded,
    SessionStarted,
    Settled,
)
from marathon.core.steps import Finish, Measure, RunSession, Settle, Step, TakeCandidate
from marathon.core.text import one_line

ITERATE = "iterate"
REFERENCE_EVERY = 10  # iterations, after which the reference is measured again
MOST_TRIED = 200
MOST_REPEATS = 3  # sessions in a row that left nothing new
BOUNDS = ("max_iterations", "target_metric", "plateau")


@dataclass(frozen=True)
class Bench:
    """What only this course knows about a task."""

    state: LaneState
    commit: str  # the last keep, or the beginning
    resumes: int = 0  # how often a human resumed the loop
    candidate: CandidateTaken | None = None
    measured: tuple[Measured, ...] = ()  # of this candidate, or of the baseline
    reference: tuple[float, ...] = ()  # samples of the tree of the last keep
    floor: NoiseFloor | None = None
    anchored: int = 0  # the iteration in which the reference was last measured
    rows: tuple[Row, ...] = ()
    tried: tuple[tuple[str, int], ...] = ()  # trees, and the iteration of each
    repeats: int = 0
    touched: bool = False  # a session has worked in the tree since the last row

    @property
    def cut_off(self) -> bool:
        """A session has not come to its end, so what lies in the folder is its work."""
        return self.touched and self.candidate is None

    @property
    def trees(self) -> list[str]:
        """What else than the last keep the runner may have left in the folder."""
        return [tree for tree, _ in self.tried] + ([self.candidate.tree] if self.candidate else [])


class MeasuredLoop(Course):
    name: ClassVar[str] = "measured"

    def __init__(self, *_definitions: object) -> None:
        """A measured loop follows no workflow."""

    def begin(self) -> Begun:
        return Begun(course=self.name, phase=ITERATE)

    # What the journal says

    def apply(self, before: Life, now: Life, record: Record) -> Bench | None:
        bench = _bench(before)
        if isinstance(record, LaneOpened):
            return _opened(bench, record)
        match record:
            case _ if bench is None:
                return None
            case SessionStarted():
                return replace(bench, candidate=None, measured=(), touched=True)
            case CandidateTaken():
                return replace(bench, candidate=record, measured=())
            case Measured():
                return _measured(bench, record)
            case Settled():
                return _settled(bench, record)
            case Answer():
                return replace(bench, repeats=0, measured=bench.measured if bench.candidate else ())
        return bench

    # Where it stands

    def where(self, life: Life) -> Where:
        bench = _bench(life)
        if bench is None:
            return Where(Phase(id=ITERATE, name="Iterate", brief="…"), breadcrumb=ITERATE)
        name, done = bench.state.name, bench.state.iteration
        return Where(_phase(bench), breadcrumb=f"{name} [{done + 1}]", iteration=done + bench.touched)

    # What comes next

    def session(self, life: Life, guidance: tuple[str, ...]) -> Step:
        bench = _bench(life)
        assert bench is not None
        state = bench.state
        if state.baseline is None:
            return _baseline(bench)
        if state.status == "stopped":
            return Gate(reason="stuck", phase=ITERATE, message=_used_up(state))
        if end_of(state, iterated=state.iteration > 0):
            return Finish()
        if bench.repeats >= MOST_REPEATS:
            message = f"The last {bench.repeats} sessions left nothing new to measure: {bench.rows[-1].reason}."
            return Gate(reason="stuck", phase=ITERATE, message=message)
        if bench.candidate is None and bench.measured:
            return _measured_again(bench, bench.measured[-1])
        if state.acceptance == "keep-revert" and state.iteration - bench.anchored >= REFERENCE_EVERY:
            return Measure("reference")
        return RunSession(_phase(bench), guidance)

    def answered(self, life: Life) -> Step:
        """A loop that had used up its ladder gets a fresh one."""
        bench = _bench(life)
        if bench and bench.state.status == "stopped":
            row = Row(iteration=bench.state.iteration, action="resumed", setup=bench.state.setup())
            return Settle(row.facts())
        return self.session(life, life.guidance)

    def lacking(self, life: Life) -> Gate | None:
        """A baseline, or the reference, that could not be measured. Another start measures it again."""
        bench = _bench(life)
        step = self.session(life, ()) if bench and bench.measured and not bench.candidate else None
        return step if isinstance(step, Gate) else None

    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        bench = _bench(life)
        if bench is None or ended.ending in (*CUT_SHORT, "left") or ended.wait:
            return None
        if bench.candidate is None:
            return TakeCandidate()
        trial = _trial(bench, bench.candidate)
        if not trial.skipped and not trial.error and (kind := _due(bench, trial)):
            return Measure(kind)
        hypothesis = one_line(note_of(ended) or "", 500) or None
        return Settle(trial_row(bench.state, trial, hypothesis, bench.candidate.summary or None).facts())


def _due(bench: Bench, trial: Trial) -> MeasurementKind | None:
    """What is measured next of a candidate, if anything: a screen, and after a promising one the confirmation."""
    state = bench.state
    if not bench.measured:
        return "screen"
    if state.acceptance == "log" or bench.measured[-1].kind == "confirm" or not trial.passed:
        return None
    assert state.reference is not None
    return "confirm" if screened(trial.values, state.reference, state.metric_direction) else None


def _trial(bench: Bench, taken: CandidateTaken) -> Trial:
    """What is known so far about the candidate."""
    if again := _not_new(bench, taken):
        return Trial(skipped=again)
    if not bench.measured:
        return Trial()
    screen, last = bench.measured[0], bench.measured[-1]
    checks = [Check.model_validate(check) for each in bench.measured for check in each.checks]
    if last.reference:
        checks += [each.check(last.also[each.name], last.also_reference[each.name]) for each in _also(bench.state)]
    values = last.candidate or screen.candidate  # where a check failed, nothing was confirmed
    return Trial(tuple(values), tuple(last.reference), tuple(checks), last.problem)


def _also(state: LaneState) -> list[Also]:
    return [parse_also(text) for text in state.also or ()]


def _not_new(bench: Bench, taken: CandidateTaken) -> str:
    """Why there is nothing to measure, if there is nothing."""
    if not taken.summary:
        return "nothing was changed"
    again = dict(bench.tried).get(taken.tree)
    return f"the same change was tried in iteration {again}" if again else ""


def _baseline(bench: Bench) -> Step:
    """The A/A check. A tree that is broken, or that gives another number each time, is no baseline."""
    if not bench.measured:
        return Measure("baseline")
    last = bench.measured[-1]
    checks = [Check.model_validate(check) for check in last.checks]
    failed = next((each for each in checks if not each.passed), None)
    if failed:
        said = f" ({failed.evidence})" if failed.evidence else ""
        return _no_baseline(f"{failed.name} failed{said}, so this tree is broken before any change")
    if last.problem:
        return _no_baseline(last.problem)
    floor = noise_floor(last.candidate, last.reference)
    if not floor.steady:
        one, two = (" ".join(map(number, each)) for each in (last.candidate, last.reference))
        return _no_baseline(f"verify does not give the same number for the same tree ({one} and then {two})")
    state = bench.state.with_(measured_by="runner")
    told = {"reason": floor_line(floor, state.metric_name or "the metric"), "noise": floor.sigma}
    return Settle(baseline_row(state, [*last.candidate, *last.reference], checks, **told).facts())


def _no_baseline(why: str) -> Gate:
    cure = "Only what is committed is measured. Fix it, commit, and run the loop again."
    return Gate(reason="baseline", phase=ITERATE, message=f"There is no baseline: {why}. {cure}")


def _measured_again(bench: Bench, last: Measured) -> Step:
    """The reference: it cannot be measured any more, or it has drifted."""
    if last.problem:
        message = f"What was kept cannot be measured any more: {last.problem}."
        return Gate(reason="baseline", phase=ITERATE, message=message)
    return Settle(drift_row(bench.state, last.candidate).facts())


def _bench(life: Life) -> Bench | None:
    return life.own if isinstance(life.own, Bench) else None


def _opened(own: Bench | None, record: LaneOpened) -> Bench:
    """Until there is a baseline, everything is as the files say. Later, only what a human may change there counts."""
    state = state_of(record.state)
    if own is None or own.state.baseline is None:
        return Bench(state, record.commit, record.resumes)
    changed: dict[str, Any] = {name: getattr(state, name) for name in BOUNDS}
    if record.resumes > own.resumes:
        changed |= {"status": "running", "finished_at": None, "consecutive_failures": 0, "pivot_count": 0}
    measured = own.measured if own.candidate else ()
    return replace(own, state=own.state.with_(**changed), resumes=record.resumes, measured=measured)


def _measured(bench: Bench, record: Measured) -> Bench:
    if record.kind != "reference":
        return replace(bench, measured=(*bench.measured, record))
    if record.problem or differs(record.candidate, bench.reference):
        return replace(bench, measured=(record,))
    return replace(bench, measured=(), anchored=bench.state.iteration)


def _settled(bench: Bench, record: Settled) -> Bench:
    row = Row.model_validate(record.row)
    taken, last = bench.candidate, bench.measured[-1] if bench.measured else None
    tried = bench.tried
    if taken and row.action in ("keep", "revert", "log", "crash"):
        tried = (*tried, (taken.tree, row.iteration))[-MOST_TRIED:]
    reference, floor = bench.reference, bench.floor
    if row.action == "baseline" and last:
        reference, floor = (*last.candidate, *last.reference), noise_floor(last.candidate, last.reference)
    elif row.action in ("keep", "drift") and last:
        reference = tuple(last.candidate)
    return replace(
        bench,
        state=applied(bench.state, row),
        commit=record.commit,
        resumes=bench.resumes + (row.action == "resumed"),
        candidate=None,
        measured=(),
        reference=reference,
        floor=floor,
        anchored=row.iteration if row.action in ("baseline", "keep", "drift") else bench.anchored,
        rows=(*bench.rows, row),
        tried=tried,
        repeats=bench.repeats + 1 if row.action == "skip" else 0,
        touched=False,
    )


def _used_up(state: LaneState) -> str:
    best = "" if state.best_metric is None else f" Best: {number(state.best_metric)}."
    return (
        f"{state.consecutive_failures} iterations in a row were not kept, after {state.pivot_count} changes of the "
        f"strategy.{best} To continue gives the loop a fresh ladder."
    )


def _phase(bench: Bench) -> Phase:
    return Phase(id=ITERATE, name="Iterate", emoji="📏", brief=brief(bench.state, bench.rows, bench.floor))
