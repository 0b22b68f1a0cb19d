"""What a new session of Claude Code is told about the loop or the marathon it finds itself in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marathon.core.hook import criteria_of, is_over, listed, unmet_criteria
from marathon.core.text import COMPLETE_MARK, one_line


def of_loop(state: Mapping[str, Any] | None) -> str:
    """For a project with a .loop/state.json; empty where no loop is active."""
    if state is None or is_over(state):
        return ""
    lines = [f"A loop is in progress here (.loop/state.json){_iteration(state)}."]
    if isinstance(spec := state.get("spec"), str) and spec.strip():
        lines.append(f"Spec: {one_line(spec, 600)}")
    if steps := remaining_steps(state):
        lines.append(f"Remaining steps: {listed(steps)}")
    lines += _unmet(state)
    lines.append(
        "Continue with the next step, keep .loop/state.json up to date, "
        f"and say {COMPLETE_MARK} only when every criterion is true in criteriaStatus."
    )
    return "\n".join(lines)


def of_marathon(state: Mapping[str, Any] | None, task: str, phase: str) -> str:
    """For a session inside a marathon; `phase` as the runner says it, where STATE.json does not."""
    state = state or {}
    said = state.get("phase")
    named = one_line(said if isinstance(said, str) and said.strip() else phase, 100) or "not known"
    lines = [
        f"This is a session of a marathon: phase {named}{_iteration(state)}. Task directory: {one_line(task, 1000)}"
    ]
    lines += _unmet(state)
    lines.append("Work on this phase only; as the last thing, write STATE.json there as the prompt says, then stop.")
    return "\n".join(lines)


def remaining_steps(state: Mapping[str, Any]) -> list[str]:
    remaining = state.get("remainingSteps")
    if isinstance(remaining, list):
        return _strings(remaining)
    done = _strings(state.get("completedSteps"))
    return [step for step in _strings(state.get("steps")) if step not in done]


def _unmet(state: Mapping[str, Any]) -> list[str]:
    unmet = unmet_criteria(state)
    return [f"Unmet criteria ({len(unmet)} of {len(criteria_of(state))}): {listed(unmet)}"] if unmet else []


def _iteration(state: Mapping[str, Any]) -> str:
    iteration = state.get("iteration")
    return f", iteration {iteration}" if isinstance(iteration, int) and not isinstance(iteration, bool) else ""


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
