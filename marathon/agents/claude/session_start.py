"""What a new session of Claude Code is told about the loop or the marathon that it is part of."""

from __future__ import annotations

from marathon.agents.claude.state import State, criteria_of, is_over, joined, unmet_criteria
from marathon.core.text import COMPLETE_MARK, one_line


def about_loop(state: State | None) -> str:
    """For a project with .loop/state.json. Nothing if no loop is active."""
    if state is None or is_over(state):
        return ""
    lines = [f"A loop is in progress here (.loop/state.json){_iteration(state)}."]
    if isinstance(spec := state.get("spec"), str) and spec.strip():
        lines.append(f"Spec: {one_line(spec, 600)}")
    if steps := remaining_steps(state):
        lines.append(f"Remaining steps: {joined(steps)}")
    last = f"say {COMPLETE_MARK} only when every criterion is true in criteriaStatus."
    return "\n".join([*lines, *_unmet(state), f"Do the next step, keep .loop/state.json up to date, and {last}"])


def about_marathon(state: State | None, task: str, phase: str) -> str:
    """For a session of a marathon. `phase` is the runner's word, used if STATE.json names none."""
    state = state or {}
    said = state.get("phase")
    named = one_line(said if isinstance(said, str) and said.strip() else phase, 100) or "not known"
    where = f"phase {named}{_iteration(state)}. Task directory: {one_line(task, 1000)}"
    last = "Work on this phase only. Write STATE.json there last, as the prompt says, then stop."
    return "\n".join([f"This is a session of a marathon: {where}", *_unmet(state), last])


def remaining_steps(state: State) -> list[str]:
    remaining = state.get("remainingSteps")
    if isinstance(remaining, list):
        return _strings(remaining)
    done = _strings(state.get("completedSteps"))
    return [step for step in _strings(state.get("steps")) if step not in done]


def _unmet(state: State) -> list[str]:
    unmet = unmet_criteria(state)
    return [f"Unmet criteria ({len(unmet)} of {len(criteria_of(state))}): {joined(unmet)}"] if unmet else []


def _iteration(state: State) -> str:
    iteration = state.get("iteration")
    return f", iteration {iteration}" if type(iteration) is int else ""


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
