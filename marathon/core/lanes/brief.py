"""What a session of a measured loop is told: the number to beat, what was tried, and what was learned.

The agent does not hear how many iterations or how much money is left. Models that see such a gauge stop early.
"""

from __future__ import annotations

from collections.abc import Sequence

from marathon.core.lanes.blocks import SEEN
from marathon.core.lanes.model import LaneState, Row
from marathon.core.lanes.numbers import number
from marathon.core.lanes.rules import PIVOT_AT, REFINE_AT, lesson
from marathon.core.text import one_line

_TRIED, _LESSONS = 20, 5


def brief(state: LaneState, rows: Sequence[Row]) -> str:
    parts = [_task(state, rows), _history(state, rows), _ladder(state), _worth_retrying(rows)]
    return "\n\n".join(part for part in parts if part)


def _task(state: LaneState, rows: Sequence[Row]) -> str:
    name, direction = state.metric_name or "the number", state.metric_direction
    lines = [
        "Make one change that improves the number, and nothing else. Do not measure for the record: when you stop, "
        "the runner measures exactly the tree that you leave, and keeps it or takes it back.",
        f"Verify prints {name}; {direction} is better: `{one_line(state.verify_command or '', 500)}`",
    ]
    if state.reference is not None:
        seen = max((SEEN * row.noise for row in rows if row.noise), default=0.0)
        noise = f" A gain under {100 * seen:.2g} % is mostly lost in the noise." if seen else ""
        lines.append(f"To beat: {number(state.reference)}.{noise}")
    if state.guard_command:
        lines.append(f"This must keep passing: `{one_line(state.guard_command, 500)}`")
    if state.also:
        lines.append(f"May not get much worse (metric:better:how much): {', '.join(map(one_line, state.also))}")
    if state.only_paths:
        lines.append(f"Only these may change: {', '.join(one_line(path, 100) for path in state.only_paths)}")
    else:
        frozen = ", ".join(one_line(path, 100) for path in state.frozen_paths or state.protected_paths or ())
        lines.append(f"Must not change: tests, build and test settings{frozen and ', '}{frozen}")
    if state.scope:
        lines.append(f"Stay within: {one_line(state.scope, 500)}")
    lines.append(
        "You may commit or not; what you leave in this working tree counts. Put into `note` one sentence: what you "
        "changed and why it should help."
    )
    return "\n".join(lines)


def _history(state: LaneState, rows: Sequence[Row]) -> str:
    tried = [row for row in rows if not row.is_mark and row.hypothesis][-_TRIED:]
    lines = [f"- {row.iteration}. {one_line(row.hypothesis or '', 200)}: {_outcome(row)}" for row in tried]
    told = [text for row in rows if (text := lesson(row))][-_LESSONS:]
    parts = ["Already tried. Do not try the same again:\n\n" + "\n".join(lines)] if lines else []
    if told:
        parts.append("Lessons:\n\n" + "\n".join(f"- {text}" for text in told))
    return "\n\n".join(parts)


def _outcome(row: Row) -> str:
    figure = f"{number(row.metric)}, " if row.metric is not None else ""
    failed = ", ".join(one_line(each.name, 60) for each in row.checks or () if not each.passed)
    return f"{figure}{row.action}" + (f" (failed: {failed})" if failed else "")


def _ladder(state: LaneState) -> str:
    if state.consecutive_failures >= REFINE_AT:
        return (
            f"The last {state.consecutive_failures} changes were not kept. Look closer at what was measured before you "
            "change something, and make a smaller or a better founded change."
        )
    if state.pivot_count and state.last_action == "revert" and state.consecutive_failures == 0:
        return (
            f"{PIVOT_AT} changes in a row were not kept. Choose another strategy, not another variant of the last one."
        )
    return ""


def _worth_retrying(rows: Sequence[Row]) -> str:
    """After a keep the ground has changed, so an earlier idea may work now."""
    if not rows or rows[-1].action != "keep":
        return ""
    before = [row for row in rows if row.action == "revert" and row.hypothesis][-_LESSONS:]
    if not before:
        return ""
    lines = "\n".join(f"- {row.iteration}. {one_line(row.hypothesis or '', 200)}" for row in before)
    return f"The last change was kept. Does it make one of these worth another try?\n\n{lines}"
