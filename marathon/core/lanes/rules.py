"""What a row does to a lane, which action a measurement leads to, and when a lane ends.

`applied` is used for a new row and for the rows of a file. So a lane that is rebuilt is the lane that was.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from statistics import median
from typing import Any, cast

from marathon.core.lanes.model import (
    PINNED,
    ActiveIteration,
    Check,
    Escalation,
    LaneState,
    Recommended,
    Row,
    Status,
    state_of,
)
from marathon.core.lanes.numbers import better, confidence, improved, number, reached
from marathon.core.text import one_line

REFINE_AT = 3
PIVOT_AT = 5
MOST_PIVOTS = 2
REANCHOR_EVERY = 10
_COUNTERS = {"keep": "keeps", "revert": "reverts", "log": "logs", "crash": "crashes", "blocked": "blocked"}


# A row


def applied(state: LaneState, row: Row) -> LaneState:
    """The lane after a row. A row of an unknown action only counts as an iteration."""
    changes = _counted(state, row)
    if row.action == "baseline" and row.metric is not None:
        changes |= _set_up(state, row) | dict.fromkeys(("baseline", "current_metric", "best_metric"), row.metric)
    elif row.action == "resumed":
        changes |= _set_up(state, row) | {"consecutive_failures": 0, "pivot_count": 0}
    elif row.action == "keep":
        changes |= _moved(state, row) | {"consecutive_failures": 0}
        if state.measured_by == "runner":  # the seed's ladder gives pivots back to no one
            changes["pivot_count"] = 0
    elif row.action == "log":
        changes |= _moved(state, row)
    elif row.action == "revert":
        pivot = row.escalation_type == "pivot"
        changes["consecutive_failures"] = 0 if pivot else state.consecutive_failures + 1
        changes["pivot_count"] = state.pivot_count + pivot
    after = state.with_(**changes)
    status = _status_after(after, row)
    if status == state.status:
        return after
    return after.with_(status=status, finished_at=state.finished_at if status == "running" else row.timestamp)


def _counted(state: LaneState, row: Row) -> dict[str, Any]:
    active = state.active_iteration
    changes: dict[str, Any] = {"iteration": row.iteration}
    if active and active.iteration <= row.iteration:
        changes["active_iteration"] = None
    if not row.is_mark:
        changes |= {"last_action": row.action, "last_action_at": row.timestamp}
        if counter := _COUNTERS.get(row.action):
            changes[counter] = getattr(state, counter) + 1
        changes["without_gain"] = 0 if _gains(state, row) else state.without_gain + 1
    return changes


def _gains(state: LaneState, row: Row) -> bool:
    """Whether the best number moves: with a keep, and in a lane that logs with a better number."""
    if row.action != "log":
        return row.action == "keep"
    best = state.best_metric
    passed = row.metric is not None and row.acceptance_passed is not False
    return passed and (best is None or better(best, cast(float, row.metric), state.metric_direction) != best)


def _moved(state: LaneState, row: Row) -> dict[str, Any]:
    """Keep and log move the metric. The best one moves only with a row whose checks passed."""
    if row.metric is None:
        return {}
    best = state.best_metric
    if row.acceptance_passed is not False:
        best = row.metric if best is None else better(best, row.metric, state.metric_direction)
    return {"current_metric": row.metric, "best_metric": best}


def _set_up(state: LaneState, row: Row) -> dict[str, Any]:
    """The settings as the row has them. The file's names become ours."""
    known = state_of({**(row.setup or {}), "lane": state.lane, "runTag": state.run_tag})
    return {name: getattr(known, name) for name in PINNED & known.model_fields_set}


def _status_after(state: LaneState, row: Row) -> Status:
    if row.escalation_type == "stop":
        return "stopped"
    if row.action in _STATUS:
        return _STATUS[row.action]
    checked = row.action != "baseline" or row.acceptance_passed is not False
    return "completed" if checked and end_of(state, iterated=row.action != "baseline") else state.status


_STATUS: dict[str, Status] = {"resumed": "running", "paused": "paused", "stopped": "stopped"}


def runners_own(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows since the runner measures: its own baseline and all after it. An agent may have measured before."""
    first = next((at for at, row in enumerate(rows) if row.action == "baseline" and row.commit), len(rows))
    return tuple(rows[first:])


def replayed(rows: Sequence[Row]) -> LaneState | None:
    """The lane of a runner's journal, which has all that was ever settled. None before anything was measured."""
    first = next((row.setup for row in rows if row.setup), None)
    if first is None:
        return None
    state = state_of(first)
    for row in rows:
        state = applied(state, row).with_(last_updated=row.timestamp)
    return state


def rebuilt(snapshot: LaneState, rows: Sequence[Row]) -> LaneState:
    """The lane as its rows tell it. Only what no row tells comes from the snapshot."""
    active = snapshot.active_iteration
    if not rows:
        stale = active is not None and active.iteration <= snapshot.iteration
        return snapshot.with_(active_iteration=None) if stale else snapshot
    known = list(takewhile(lambda row: _is_in(snapshot, row), rows))
    first = snapshot.baseline if snapshot.baseline is not None else snapshot.current_metric
    state = snapshot.with_(
        **dict.fromkeys(("iteration", "consecutive_failures", "pivot_count", "without_gain", *_COUNTERS.values()), 0),
        **{"current_metric": first, "best_metric": first, "last_action": None, "last_action_at": None},
        status="running",
    )
    for row in known:
        state = applied(state, row)
    state = state.with_(status=snapshot.status, finished_at=snapshot.finished_at)
    for row in rows[len(known) :]:
        state = applied(state, row)
    if not any(row.escalation_type or row.action == "resumed" for row in rows):
        state = state.with_(pivot_count=snapshot.pivot_count)  # rows of the first versions do not tell
    return state


def _is_in(snapshot: LaneState, row: Row) -> bool:
    """Whether the snapshot was saved after this row."""
    return row.iteration <= snapshot.iteration and (row.action != "baseline" or snapshot.baseline is not None)


# A measurement


def baseline_row(state: LaneState, values: Sequence[float], checks: Sequence[Check], **more: Any) -> Row:
    """Row 0. It has the settings of the lane, so that an edit of its snapshot changes nothing."""
    return Row(
        iteration=state.iteration,
        action="baseline",
        metric=median(values),
        measurements=list(values),
        confidence=confidence(values),
        checks=list(checks) or None,
        acceptance_passed=all(each.passed for each in checks),
        setup={**state.setup(), "lane": state.lane, "runTag": state.run_tag},
        **more,
    )


def with_missing_checks(state: LaneState, checks: Sequence[Check]) -> list[Check]:
    """The checks with a failed one for each configured verifier that has no verdict. Its name does not matter."""
    named = [
        each.model_copy(update={"name": each.name.strip() or f"check-{place}"})
        for place, each in enumerate(checks, start=1)
    ]
    missing = []
    guard, prompt = (state.guard_command or "").strip(), (state.prompt_verifier or "").strip()
    if guard and all((each.command or "").strip() != guard for each in named):
        missing.append(Check(name="guard", passed=False, kind="guard", command=guard, evidence=NO_VERDICT))
    if prompt and all((each.prompt or "").strip() != prompt for each in named):
        missing.append(Check(name="prompt verifier", passed=False, kind="prompt", prompt=prompt, evidence=NO_VERDICT))
    return named + missing


NO_VERDICT = "no verdict was given, so it counts as failed"


def measured(state: LaneState, values: Sequence[float], checks: Sequence[Check], now: str) -> ActiveIteration:
    """The iteration with these numbers, whether they are accepted, and the action that follows."""
    active = state.active_iteration or ActiveIteration(iteration=state.iteration + 1, started_at=now)
    all_checks = with_missing_checks(state, checks)
    is_better = state.reference is not None and improved(values, state.reference, state.metric_direction)
    passed = all(each.passed for each in all_checks)
    recommended: Recommended = "log"
    if state.acceptance == "keep-revert":
        passed = passed and is_better
        recommended = "keep" if passed else "revert"
    return active.model_copy(
        update={
            "phase": "measured",
            "measurements": list(values),
            "metric": median(values),
            "checks": all_checks,
            "acceptance_passed": passed,
            "acceptance_reason": f"metric {'improved' if is_better else 'did not improve'}; {_said(all_checks)}",
            "recommended_action": recommended,
            "measured_at": now,
        }
    )


def _said(checks: Sequence[Check]) -> str:
    failed = [one_line(each.name, 60) for each in checks if not each.passed]
    if failed:
        return f"failed checks: {', '.join(failed)}"
    return "all checks passed" if checks else "no extra checks recorded"


# The ladder, and how a lane ends


def escalation(streak: int, pivots: int, *, stops: bool = True) -> Escalation | None:
    """What a failure leads to, by the length of the streak that it ends. Without `stops` the ladder only advises."""
    if streak >= PIVOT_AT:
        return "stop" if stops and pivots >= MOST_PIVOTS else "pivot"
    return "refine" if streak >= REFINE_AT else None


def reanchors(iteration: int) -> bool:
    return iteration > 0 and iteration % REANCHOR_EVERY == 0


def end_of(state: LaneState, *, iterated: bool = True) -> str:
    """Why the lane has reached its end, or nothing. A cap does not end a lane at its baseline."""
    if iterated and state.max_iterations is not None and state.iteration >= state.max_iterations:
        return f"{state.iteration} of {state.max_iterations} iterations are used"
    target, best = state.target_metric, state.best_metric
    if target is not None and best is not None and reached(best, target, state.metric_direction):
        return f"the target {number(target)} is reached ({number(best)})"
    if iterated and state.plateau is not None and state.without_gain >= state.plateau:
        return f"the last {state.without_gain} iterations brought no gain (--plateau {state.plateau})"
    return ""


def lesson(row: Row) -> str:
    """What is worth remembering of an iteration that was not kept, or nothing."""
    if row.action not in ("revert", "crash", "blocked"):
        return ""
    tried = one_line(row.hypothesis or row.changes or "", 200)
    figure = "" if row.metric is None else f" gave {number(row.metric)}"
    against = "" if row.metric is None or row.baseline is None else f" against {number(row.baseline)}"
    why = one_line(row.acceptance_reason or row.reason or row.error or row.action, 200)
    next_step = {
        "pivot": f" {PIVOT_AT} failures in a row: change the strategy.",
        "stop": " The ladder is used up: the lane stopped.",
        "refine": f" {REFINE_AT} or more failures in a row: refine the approach.",
    }.get(row.escalation_type or "", "")
    return (
        f"Iteration {row.iteration}{f' ({tried})' if tried else ''}{figure}{against}: {row.action}, {why}.{next_step}"
    )
