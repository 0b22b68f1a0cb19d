"""What the runner found out about one change, and the row that follows from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from marathon.core.lanes.blocks import SEEN, Block, Verdict, chance, lost, ratio
from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.numbers import change, confidence, gain, mad, number
from marathon.core.lanes.rules import escalation
from marathon.core.text import one_line

AT_START = 12  # runs of the tree before any change: eleven pairs that may differ
TOO_GOOD = 0.5
NOISY = 0.1  # a gain of less may be missed: a human is asked before the loop starts
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Trial:
    """The blocks of a candidate and what they say, with every check."""

    blocks: tuple[Block, ...] = ()
    verdict: Verdict | None = None
    noiseless: bool = False
    checks: tuple[Check, ...] = ()
    error: str = ""  # there is no number
    skipped: str = ""  # why there was nothing to measure

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.checks)

    @property
    def candidate(self) -> list[float]:
        return [value for block in self.blocks for value in block.candidate]

    @property
    def reference(self) -> list[float]:
        return [value for block in self.blocks for value in block.reference]


def stays(state: LaneState, trial: Trial) -> bool:
    """Only a sure gain with every check passed is kept. A lane that logs takes whatever passed its checks."""
    if trial.error or trial.skipped or not trial.passed:
        return False
    return state.acceptance == "log" or trial.verdict == "keep"


def trial_row(state: LaneState, trial: Trial, hypothesis: str | None = None, changes: str | None = None) -> Row:
    """The row of an iteration. Its time and its commit are added when it is carried out."""
    reference = median(trial.reference) if trial.blocks else state.reference
    metric = median(trial.candidate) if trial.blocks else None
    kept = stays(state, trial)
    action = _action(state, trial, kept)
    streak = state.consecutive_failures + 1
    step = escalation(streak, state.pivot_count, stops=state.ladder == "seed") if action == "revert" else None
    found = ratio(trial.blocks)
    return Row(
        iteration=state.iteration + 1,
        action=action,
        metric=metric,
        baseline=reference,
        delta=metric - reference if metric is not None and reference is not None else None,
        confidence=confidence(trial.candidate) if trial.blocks else None,
        hypothesis=hypothesis,
        changes=changes,
        reason=trial.skipped or None,
        should_escalate=True if step else None,
        escalation_type=step,
        error=trial.error or None,
        measurements=trial.candidate or None,
        reference_measurements=trial.reference or None,
        blocks=[[*block.reference, *block.candidate] for block in trial.blocks] or None,
        chance=_chance(state, trial.blocks) if trial.blocks and not trial.noiseless else None,
        ratio=list(found) if found else None,
        checks=list(trial.checks) or None,
        acceptance_passed=kept,
        acceptance_reason=_reason(state, trial),
        doubtful=_doubtful(state, metric, reference) if action == "keep" else None,
    )


def _action(state: LaneState, trial: Trial, kept: bool) -> str:
    if trial.error:
        return "crash"
    if trial.skipped:
        return "skip"
    if state.acceptance == "log":
        return "log"
    return "keep" if kept else "revert"


def _reason(state: LaneState, trial: Trial) -> str | None:
    if trial.error or trial.skipped:
        return None
    if failed := [one_line(each.name, 60) for each in trial.checks if not each.passed]:
        return f"failed checks: {', '.join(failed)}"
    if state.acceptance == "log":
        return "all checks passed"
    if trial.noiseless:
        asked = f" by {100 * state.min_gain:.3g} %" if state.min_gain else ""
        return f"{'better' if trial.verdict == 'keep' else 'not better'}{asked}, and the number has no noise"
    return ("a sure gain, " if trial.verdict == "keep" else "no sure gain, ") + won(state, trial.blocks)


def won(state: LaneState, blocks: Sequence[Block], between: str = ", ") -> str:
    """Such as: 12 of 12 comparisons won, p 0.0046."""
    count = sum(lost(block, state.metric_direction, state.min_gain or 0) for block in blocks)
    told = f"{number(4 * len(blocks) - count)} of {4 * len(blocks)} comparisons won"
    return f"{told}{between}p {_chance(state, blocks):.2g}"


def _chance(state: LaneState, blocks: Sequence[Block]) -> float:
    return chance(sum(lost(block, state.metric_direction, state.min_gain or 0) for block in blocks), len(blocks))


def _doubtful(state: LaneState, metric: float | None, reference: float | None) -> str | None:
    if not metric or not reference or gain(metric, reference, state.metric_direction) <= TOO_GOOD * abs(reference):
        return None
    return "looks too good: see the diff"


def noise_of(values: Sequence[float]) -> float:
    """The standard deviation as a share of the number, by what most runs say."""
    middle = median(values)
    return _MAD_TO_SIGMA * mad(values) / abs(middle) if middle else 0.0


def noise_line(values: Sequence[float], name: str) -> str:
    """What measuring one tree several times tells, for people."""
    if len(set(values)) == 1:
        return f"{name} has no noise: any gain can be seen"
    noise = noise_of(values)
    return f"noise {100 * noise:.2g} %: a gain under {100 * SEEN * noise:.2g} % is mostly missed"


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
