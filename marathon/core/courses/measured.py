"""The course of a measured loop: one change per session, measured by the runner, kept only if the number improved.

The rules for numbers, rows and the end of a loop stand in core/lanes. This module says what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import Any, ClassVar

from marathon.core.breakers import CUT_SHORT
from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import Phase
from marathon.core.decide import note_of, stuck_reason
from marathon.core.lanes.brief import brief
from marathon.core.lanes.model import Check, LaneState, Row, state_of
from marathon.core.lanes.noise import NoiseFloor, confirmed, differs, noise_floor, screened
from marathon.core.lanes.numbers import confidence, number
from marathon.core.lanes.rules import applied, end_of, escalation
from marathon.core.life import Life
from marathon.core.records import (
    Answer,
    Begun,
    CandidateTaken,
    Gate,
    LaneOpened,
    Measured,
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


@dataclass(frozen=True)
class Bench:
    """What only this course knows about a task."""

    state: LaneState
    commit: str  # the last keep, or the beginning
    frozen: dict[str, str]  # files that must not change, each with a digest
    candidate: CandidateTaken | None = None
    measured: tuple[Measured, ...] = ()  # of this candidate, or of the baseline
    reference: tuple[float, ...] = ()  # samples of the tree of the last keep
    floor: NoiseFloor | None = None
    anchored: int = 0  # the iteration in which the reference was last measured
    rows: tuple[Row, ...] = ()
    tried: tuple[tuple[str, int], ...] = ()  # trees, and the iteration of each


class MeasuredLoop(Course):
    name: ClassVar[str] = "measured"

    def __init__(self, *_definitions: object) -> None:
        """A measured loop follows no workflow."""

    def begin(self) -> Begun:
        return Begun(course=self.name, phase=ITERATE)

    # What the journal says

    def apply(self, before: Life, now: Life, record: Record) -> Bench | None:
        if isinstance(record, LaneOpened):
            return _opened(before.own, record)
        bench = _bench(before)
        match record:
            case _ if bench is None:
                return None
            case SessionStarted():
                return replace(bench, candidate=None, measured=())
            case CandidateTaken():
                return replace(bench, candidate=record, measured=())
            case Measured(kind="reference") if not record.problem:
                again = replace(bench, anchored=bench.state.iteration, measured=(record,))
                return again if _drifted(bench, record) else replace(again, measured=())
            case Measured():
                return replace(bench, measured=(*bench.measured, record), anchored=bench.state.iteration)
            case Settled():
                return _settled(bench, record)
            case Answer() if bench.candidate is None:
                return replace(bench, measured=())
        return bench

    # Where it stands

    def where(self, life: Life) -> Where:
        bench = _bench(life)
        state = bench.state if bench else None
        number_ = state.iteration + 1 if state else 1
        crumb = f"{state.name} [{number_}]" if state else ITERATE
        return Where(_phase(bench) if bench else Phase(id=ITERATE, name="Iterate", brief="…"), breadcrumb=crumb)

    # What comes next

    def session(self, life: Life, guidance: tuple[str, ...]) -> Step:
        bench = _bench(life)
        assert bench is not None
        state = bench.state
        if state.baseline is None:
            return self._baseline(bench)
        if end_of(state, iterated=state.iteration > 0):
            return Finish()
        if state.status == "stopped":
            return Gate(reason="stuck", phase=ITERATE, message=_used_up(state))
        if bench.measured and bench.measured[-1].kind == "reference":
            last = bench.measured[-1]
            if last.problem:
                message = f"What was kept cannot be measured any more: {last.problem}."
                return Gate(reason="baseline", phase=ITERATE, message=message)
            return Settle(_drift(bench, last).facts())
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

    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        bench = _bench(life)
        if bench is None or ended.ending in CUT_SHORT or ended.wait:
            return None
        if bench.candidate is None:
            return TakeCandidate()
        if again := _not_new(bench, bench.candidate):
            if stuck := stuck_reason(life, limits):
                return Gate(reason="stuck", phase=ITERATE, message=stuck, note=note_of(ended))
            return Settle(_row(bench, ended, "skip", reason=again).facts())
        if not bench.measured:
            return Measure("screen")
        return self._judged(bench, bench.measured[-1], ended)

    def _judged(self, bench: Bench, last: Measured, ended: SessionEnded) -> Step:
        state = bench.state
        if last.problem:
            return Settle(_row(bench, ended, "crash", reason=last.problem, error=last.problem).facts())
        failed = [str(check["name"]) for check in last.checks if not check["passed"]]
        if state.acceptance == "log":
            said = f"failed checks: {', '.join(failed)}" if failed else "all checks passed"
            return Settle(_row(bench, ended, "log", last, passed=not failed, reason=said).facts())
        if failed:
            said = f"failed checks: {', '.join(failed)}"
            return Settle(_row(bench, ended, "revert", last, passed=False, reason=said).facts())
        assert state.reference is not None
        if last.kind == "screen":
            if screened(last.candidate, state.reference, state.metric_direction):
                return Measure("confirm")
            said = "no gain beyond the noise"
            return Settle(_row(bench, ended, "revert", last, passed=False, reason=said).facts())
        keeps = confirmed(last.candidate, last.reference, state.metric_direction)
        said = "the gain was confirmed" if keeps else "the gain was not there when measured again"
        return Settle(_row(bench, ended, "keep" if keeps else "revert", last, passed=keeps, reason=said).facts())

    def _baseline(self, bench: Bench) -> Step:
        if not bench.measured:
            return Measure("baseline")
        last = bench.measured[-1]
        failed = [str(check["name"]) for check in last.checks if not check["passed"]]
        if last.problem or failed:
            why = last.problem or f"{', '.join(failed)} failed, so this tree is broken before any change"
            return Gate(reason="baseline", phase=ITERATE, message=f"There is no baseline: {why}.")
        floor = noise_floor(last.candidate, last.reference)
        if not floor.steady:
            one, two = (" ".join(map(number, each)) for each in (last.candidate, last.reference))
            message = f"Verify does not give the same number for the same tree: {one} and then {two}."
            return Gate(reason="baseline", phase=ITERATE, message=message)
        values = [*last.candidate, *last.reference]
        row = Row(
            iteration=0,
            action="baseline",
            metric=median(values),
            measurements=values,
            confidence=confidence(values),
            checks=[Check.model_validate(check) for check in last.checks] or None,
            acceptance_passed=True,
            reason=_noise(floor),
            setup=bench.state.setup(),
        )
        return Settle(row.facts())


def _bench(life: Life) -> Bench | None:
    return life.own if isinstance(life.own, Bench) else None


def _opened(own: Any, record: LaneOpened) -> Bench:
    """The first time, everything is as the files say. Later, only what a human may have changed there counts."""
    state = state_of(record.state)
    if isinstance(own, Bench):
        changed = {name: getattr(state, name) for name in ("max_iterations", "target_metric")}
        return replace(own, state=own.state.with_(status="running", finished_at=None, **changed))
    return Bench(state, record.commit, dict(record.frozen))


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
        candidate=None,
        measured=(),
        reference=reference,
        floor=floor,
        rows=(*bench.rows, row),
        tried=tried,
    )


def _drifted(bench: Bench, record: Measured) -> bool:
    return len(bench.reference) > 0 and differs(record.candidate, bench.reference)


def _drift(bench: Bench, last: Measured) -> Row:
    metric, before = median(last.candidate), bench.state.reference
    return Row(
        iteration=bench.state.iteration,
        action="drift",
        metric=metric,
        baseline=before,
        delta=None if before is None else metric - before,
        measurements=last.candidate,
        reason="the same tree gives another number than before; this is the reference from now on",
    )


def _not_new(bench: Bench, taken: CandidateTaken) -> str:
    """Why there is nothing to measure, if there is nothing."""
    if not taken.summary:
        return "nothing was changed"
    again = dict(bench.tried).get(taken.tree)
    return f"the same change was tried in iteration {again}" if again else ""


def _row(
    bench: Bench,
    ended: SessionEnded,
    action: str,
    last: Measured | None = None,
    *,
    passed: bool | None = None,
    reason: str = "",
    error: str | None = None,
) -> Row:
    state = bench.state
    values = list(last.candidate) if last else []
    metric = median(values) if values else None
    # In a confirmation the reference was measured beside the candidate, so that is what the candidate is compared with.
    against = median(last.reference) if last and last.reference else state.reference
    step = escalation(state.consecutive_failures + 1, state.pivot_count) if action == "revert" else None
    return Row(
        iteration=state.iteration + 1,
        action=action,
        metric=metric,
        baseline=against,
        delta=metric - against if metric is not None and against is not None else None,
        confidence=confidence(values) if values else None,
        hypothesis=one_line(note_of(ended) or "", 500) or None,
        changes=bench.candidate.summary or None if bench.candidate else None,
        reason=reason or None,
        should_escalate=True if step else None,
        escalation_type=step,
        error=error,
        measurements=values or None,
        checks=[Check.model_validate(check) for check in last.checks] if last and last.checks else None,
        acceptance_passed=passed,
        acceptance_reason=reason or None,
    )


def _used_up(state: LaneState) -> str:
    return (
        f"{state.consecutive_failures} iterations in a row were not kept, after {state.pivot_count} changes of the "
        f"strategy. Best: {number(state.best_metric or 0)}."
    )


def _noise(floor: NoiseFloor) -> str:
    share = "" if floor.percent is None else f" ({floor.percent:.1f} %)"
    return f"noise {number(floor.sigma)}{share}; a gain below {number(floor.smallest_gain)} may not be seen"


def _phase(bench: Bench) -> Phase:
    return Phase(id=ITERATE, name="Iterate", emoji="📏", brief=brief(bench.state, bench.rows, bench.floor))
