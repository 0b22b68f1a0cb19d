"""What the runner found out about one change, and the row that follows from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.noise import NoiseFloor, confirmed
from marathon.core.lanes.numbers import change, confidence, improved, number
from marathon.core.lanes.rules import escalation
from marathon.core.text import one_line


@dataclass(frozen=True)
class Trial:
    """Samples of a candidate, and of the reference where it was measured again, with every check."""

    values: tuple[float, ...] = ()  # the screen's, or those of the confirmation where there was one
    reference: tuple[float, ...] = ()  # taken in turn with them
    checks: tuple[Check, ...] = ()
    error: str = ""  # verify gave no number
    skipped: str = ""  # why there was nothing to measure

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.checks)


def accepted(state: LaneState, trial: Trial) -> bool:
    """Only a confirmed gain with every check passed is kept. A lane that logs takes whatever passed its checks."""
    if trial.error or trial.skipped or not trial.passed:
        return False
    return state.acceptance == "log" or confirmed(trial.values, trial.reference, state.metric_direction)


def trial_row(state: LaneState, trial: Trial, hypothesis: str | None = None, changes: str | None = None) -> Row:
    """The row of an iteration. Its time and, where the change stays, its commit are added when it is carried out."""
    reference = median(trial.reference) if trial.reference else state.reference
    metric = median(trial.values) if trial.values else None
    stays = accepted(state, trial)
    action = _action(state, trial, stays)
    step = escalation(state.consecutive_failures + 1, state.pivot_count) if action == "revert" else None
    return Row(
        iteration=state.iteration + 1,
        action=action,
        metric=metric,
        baseline=reference,
        delta=metric - reference if metric is not None and reference is not None else None,
        confidence=confidence(trial.values) if trial.values else None,
        hypothesis=hypothesis,
        changes=changes,
        reason=trial.skipped or None,
        should_escalate=True if step else None,
        escalation_type=step,
        error=trial.error or None,
        measurements=list(trial.values) or None,
        reference_measurements=list(trial.reference) or None,
        checks=list(trial.checks) or None,
        acceptance_passed=stays,
        acceptance_reason=_reason(state, trial),
    )


def _action(state: LaneState, trial: Trial, stays: bool) -> str:
    if trial.error:
        return "crash"
    if trial.skipped:
        return "skip"
    if state.acceptance == "log":
        return "log"
    return "keep" if stays else "revert"


def _reason(state: LaneState, trial: Trial) -> str | None:
    if trial.error or trial.skipped:
        return None
    failed = [one_line(each.name, 60) for each in trial.checks if not each.passed]
    if failed:
        return f"failed checks: {', '.join(failed)}"
    if trial.reference:
        sure = confirmed(trial.values, trial.reference, state.metric_direction)
        return "the gain was confirmed" if sure else "the gain was not there when it was measured again"
    reference = state.reference
    is_better = reference is not None and improved(trial.values, reference, state.metric_direction)
    return "metric improved" if is_better else "metric did not improve"


def drift_row(state: LaneState, values: Sequence[float]) -> Row:
    """The reference measured again gave another number, though nothing was changed. That is no one's failure."""
    return Row(
        iteration=state.iteration,
        action="drift",
        metric=median(values),
        baseline=state.reference,
        measurements=list(values),
        reason="the same tree gives another number than before; this is the reference from now on",
    )


def commit_message(state: LaneState, row: Row) -> str:
    """The numbers of a keep, for people and as a trailer for programs."""
    name, reference = one_line(state.metric_name or "metric", 40), row.baseline
    figure = "" if row.metric is None else f" {number(row.metric)}"
    if row.metric is not None and reference is not None:
        figure += f", {change(row.metric, reference, state.metric_direction)}"
    facts = {"loop": state.name, "iteration": row.iteration, "metric": row.metric, "reference": reference}
    head = f"{state.lane} {row.iteration}: {name}{figure}"
    about = f"\n{one_line(row.hypothesis, 500)}\n" if row.hypothesis else ""
    return f"{head}\n{about}\nResult: {json.dumps(facts)}\n"


def floor_line(floor: NoiseFloor, name: str) -> str:
    """What the A/A check says, for people."""
    percent = "" if floor.percent is None else f" ({floor.percent:.1f} %)"
    if floor.sigma == 0:
        return f"{name} has no noise: every gain can be seen"
    seen = number(floor.smallest_gain)
    return f"the noise of {name} is {number(floor.sigma)}{percent}; a gain of less than {seen} may not be seen"
