"""What a phase may write: how an agent is told beforehand, and how a human is told of what it wrote elsewhere."""

from __future__ import annotations

from marathon.core.courses.workflow import Phase
from marathon.core.records import Writes
from marathon.core.text import clean, counted, one_line

UNCHECKED = "Not checked:"
_SHOWN = 5


def rule(phase: Phase, task: str) -> str:
    """The line of the prompt. Empty where a phase may write the whole project."""
    if phase.writes == "project":
        return ""
    only = f"in `{task}/`"
    if phase.writes == "none":
        only = " and ".join(f"`{task}/{name}`" for name in (phase.output, phase.checklist, "STATE.json") if name)
    return (
        f"- In this phase write only {only}. The runner undoes what you write elsewhere in the project, commits "
        "included. For an experiment, use a temporary folder outside of the project.\n"
    )


def told(phase: str, writes: Writes, task: str) -> str:
    """The sentences for a gate."""
    unchecked = f"{UNCHECKED} whether {phase} wrote where it may not. {writes.unchecked}" if writes.unchecked else ""
    if not (writes.count or writes.commit or writes.left):
        return unchecked
    names = ", ".join(one_line(clean(name), 80) for name in writes.files[:_SHOWN])
    names += f" and {writes.count - _SHOWN} more" if writes.count > _SHOWN else ""
    did = [f"changed {counted(writes.count, 'file')} ({names})"] if writes.count else []
    did += [f"committed {writes.commit[:12]} (kept in refs/pi-marathon/undone)"] if writes.commit else []
    said = f"{phase} {' and '.join(did)} although it may not." if did else f"{phase} may have written where it may not."
    undone = f"Not all of it was undone: {writes.left}" if writes.left else "It was undone."
    kept = f"A copy is kept as {task}/{writes.patch}." if writes.patch else ""
    return " ".join(filter(None, (said, undone, kept, unchecked)))
