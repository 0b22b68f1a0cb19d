"""The verbs of an agent-measured lane. Each takes the lane and gives the lane after it, or refuses with the way on."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

from marathon.core.lanes.model import ActiveIteration, Check, LaneState, Refused, Row, finite, parse_check
from marathon.core.lanes.numbers import confidence, number
from marathon.core.lanes.rules import (
    NO_VERDICT,
    applied,
    baseline_row,
    end_of,
    escalation,
    measured,
    with_missing_checks,
)
from marathon.core.validation import Invalid

_SAME = 1e-9  # a number that went through another program's JSON is still the same number


def iterate(state: LaneState, now: str, hypothesis: str | None = None, changes: str | None = None) -> LaneState:
    """Start the next iteration, or say something else about the one that is started."""
    _must_run(state)
    active = state.active_iteration
    if active and active.phase == "measured":
        due = active.recommended_action or "log"
        raise Refused(
            f"Iteration {active.iteration} of {state.name} is measured but not decided.",
            f"Finish it first: {decide_command(state, active, due)}   Or set it aside: {command('log', state, 'skip')}",
        )
    _must_not_be_over(state)
    started = active or ActiveIteration(iteration=state.iteration + 1, started_at=now)
    said = {"hypothesis": hypothesis, "changes": changes}
    return state.with_(active_iteration=started.model_copy(update={k: v for k, v in said.items() if v is not None}))


def measure(
    state: LaneState, now: str, values: Sequence[float], checks: Sequence[Check] = ()
) -> tuple[LaneState, Row | None]:
    """Record numbers and verdicts. The first ones are the baseline, which is a row. Others replace those before."""
    _must_run(state)
    _must_be_numbers(state, values, "measure")
    if state.min_measurements is not None and len(values) < state.min_measurements:
        raise Refused(
            f"{state.name} wants at least {state.min_measurements} samples and got {len(values)}.",
            f"Run verify again and give every number: {measure_command(state, '--value X --value Y …')}",
        )
    if state.baseline is not None:
        _must_not_be_over(state)
        return state.with_(active_iteration=measured(state, values, checks, now)), None
    return _with_baseline(state, now, values, checks)


def parsed_check(text: str) -> Check:
    """A check as JSON, with everything that the original's checks have."""
    try:
        return parse_check(text.encode("utf-8", "replace"))
    except Invalid as error:
        raise Refused(f"This is not a check: {error}.", 'Such as: {"name": "tests", "passed": true}') from error


def with_value(state: LaneState, now: str, value: float) -> LaneState:
    """A number that comes with `log`. It is measured like any other, and a lane without a baseline takes none."""
    _must_run(state)
    _must_have_baseline(state)
    return measure(state, now, [value])[0]


def _with_baseline(
    state: LaneState, now: str, values: Sequence[float], checks: Sequence[Check]
) -> tuple[LaneState, Row]:
    all_checks = with_missing_checks(state, checks)
    failed = [each.name for each in all_checks if not each.passed and each.evidence != NO_VERDICT]
    if failed:
        raise Refused(
            f"No baseline for {state.name}: {', '.join(failed)} failed, so this tree is broken before any change.",
            f"Fix it, then measure again: {measure_command(state)}",
        )
    state = state.with_(measured_by=state.measured_by or "agent", active_iteration=None)
    row = baseline_row(state, values, all_checks, timestamp=now)
    return applied(state, row), row


def decide(
    state: LaneState,
    now: str,
    action: str,
    values: Sequence[float],
    hypothesis: str | None = None,
    changes: str | None = None,
) -> tuple[LaneState, Row]:
    """Finish the measured iteration with the action that its measurement leads to."""
    _must_run(state)
    _must_be_numbers(state, values, "decide")
    _must_have_baseline(state)
    active = state.active_iteration
    if active is None or active.phase != "measured" or active.measurements is None:
        raise Refused(
            f"{state.name} has no measurement that waits for a decision.",
            f"Run verify, then: {measure_command(state)}",
        )
    due = active.recommended_action or "log"
    again = f"Or run verify again, then: {measure_command(state)}"
    if not _same(values, active.measurements):
        measured_ = " ".join(map(number, active.measurements))
        raise Refused(
            f"These are not the numbers that were measured ({measured_}).",
            f"Decide with them: {decide_command(state, active, due)}   {again}",
        )
    if action != due:
        aside = f"   To set it aside: {command('log', state, 'skip')}" if action == "skip" else ""
        raise Refused(
            f"{action} is against the measurement, which leads to {due} ({active.acceptance_reason}).",
            f"Type: {decide_command(state, active, due)}   {again}{aside}",
        )
    said = {"hypothesis": hypothesis or active.hypothesis, "changes": changes or active.changes}
    step = escalation(state.consecutive_failures + 1, state.pivot_count) if action == "revert" else None
    sure = confidence(active.measurements)
    told = {**said, "confidence": sure, "should_escalate": True if step else None, "escalation_type": step}
    row = _row(state, active, now, action, active.metric, **told)
    return applied(state, row), row


def _row(state: LaneState, active: ActiveIteration, now: str, action: str, metric: float | None, **more: Any) -> Row:
    """The row that ends an iteration. One without a metric of its own is compared with nothing."""
    reference = None if metric is None else state.reference
    facts = {
        "delta": metric - reference if metric is not None and reference is not None else None,
        "hypothesis": active.hypothesis,
        "changes": active.changes,
        "measurements": active.measurements,
        "checks": active.checks or None,
        "acceptance_passed": active.acceptance_passed,
        "acceptance_reason": active.acceptance_reason,
    }
    row = Row(iteration=active.iteration, timestamp=now, action=action, metric=metric, baseline=reference)
    return row.model_copy(update={**facts, **more})


def log(state: LaneState, now: str, action: str = "log", note: str | None = None) -> tuple[LaneState, Row]:
    """Finish an iteration without a decision.

    Where the metric decides, such a row has no metric of its own. So no one moves the reference around a guard.
    """
    _must_run(state)
    active = state.active_iteration or ActiveIteration(iteration=state.iteration + 1, started_at=now)
    logged = action == "log" and state.acceptance == "log" and active.phase == "measured"
    error = note if action == "crash" else None
    row = _row(state, active, now, action, active.metric if logged else None, reason=note, error=error)
    return applied(state, row), row


def resume(state: LaneState, now: str, **raised: Any) -> tuple[LaneState, Row | None]:
    """Let a lane run again. One that had ended gets a fresh ladder, and a mark in its rows tells so."""
    raised = {name: value for name, value in raised.items() if value is not None}
    if state.status == "archived":
        raise Refused(f"{state.name} is archived.", f"Start another run: pi-marathon loop start … --lane {state.lane}")
    changed = state.with_(**raised)
    if why := end_of(changed, iterated=changed.iteration > 0):
        option = bound_option(changed)
        raise Refused(
            f"{state.name} is at its end: {why}.",
            f"Raise the bound to continue: {command('resume', state, option, exact=True)}",
        )
    if not raised and state.status in ("running", "paused"):
        return state.with_(status="running", finished_at=None), None
    changed = changed.with_(finished_at=None)
    row = Row(iteration=state.iteration, timestamp=now, action="resumed", setup=changed.setup())
    return applied(changed, row), row


def bound_option(state: LaneState) -> str:
    """The option that raises the bound that has ended the lane."""
    if state.max_iterations is not None and state.iteration >= state.max_iterations:
        return f"--max-iterations {2 * max(1, state.iteration)}"
    if end_of(state.with_(plateau=None)):
        return "--target X"
    return f"--plateau {2 * state.without_gain}"


def ended(state: LaneState, status: str, now: str) -> LaneState:
    """Pause, stop and archive: the same lane under another status."""
    return state.with_(status=status, finished_at=state.finished_at or now)


# Refusals that verbs share


def _must_run(state: LaneState) -> None:
    if state.measured_by == "runner":
        raise Refused(
            f"The runner measures {state.name} itself, so that no one has to take a number on trust.",
            f"Run it: {command('run', state)}   To report numbers yourself, start one with --measured-by agent.",
        )
    if state.status != "running":
        raise Refused(f"{state.name} is {state.status}.", f"To continue it: {continue_command(state)}")


def _must_have_baseline(state: LaneState) -> None:
    if state.reference is None:
        raise Refused(
            f"{state.name} has no baseline yet, so there is nothing to compare with.",
            f"Run verify and record the baseline: {measure_command(state)}",
        )


def _must_not_be_over(state: LaneState) -> None:
    if state.reference is not None and (why := end_of(state, iterated=state.iteration > 0)):
        raise Refused(f"{state.name} is at its end: {why}.", f"Close it: {command('stop', state)}")


def _must_be_numbers(state: LaneState, values: Sequence[float], verb: str) -> None:
    if not values or not finite(values):
        what = "needs at least one number" if not values else "takes finite numbers only"
        again = command("decide", state, "keep --value X") if verb == "decide" else measure_command(state)
        raise Refused(f"{verb} {what}.", f"Run verify again and pass what it printed: {again}")


def _same(values: Sequence[float], recorded: Sequence[float]) -> bool:
    """The same numbers, in any order."""
    pairs = zip(sorted(values), sorted(recorded), strict=False)
    return len(values) == len(recorded) and all(math.isclose(a, b, rel_tol=_SAME) for a, b in pairs)


# Commands, as a person or an agent would type them


def command(verb: str, state: LaneState, more: str = "", *, exact: bool = False) -> str:
    target = state.lane if state.alone and not exact else state.name
    return f"pi-marathon loop {verb} {target} {more}".rstrip()


def continue_command(state: LaneState) -> str:
    """A runner resumes its loop itself, and asks what a gate of it asks."""
    return command("run" if state.measured_by == "runner" else "resume", state, exact=True)


def measure_command(state: LaneState, values: str = "--value X") -> str:
    """With the verdicts that this lane wants: without them nothing would be kept."""
    checks = {"guard": state.guard_command, "prompt verifier": state.prompt_verifier}
    options = [f"--check {shlex.quote(f'{name}=pass:{about}')}" for name, about in checks.items() if about]
    return command("measure", state, " ".join([values, *options]))


def decide_command(state: LaneState, active: ActiveIteration, action: str) -> str:
    values = " ".join(f"--value {value!r}".removesuffix(".0") for value in active.measurements or ())
    return command("decide", state, f"{action} {values}")
