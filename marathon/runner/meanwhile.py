"""What changes in the project while a session runs that may not write there.

Only in a worktree can it be no one but the agent, so there it is undone. In a folder that a human works in as well, all
of it is kept, and the human may undo some of it at the next gate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.courses.workflow import Phase
from marathon.core.events import paths_written
from marathon.core.records import Answer, Remark, Undone, Writes
from marathon.core.text import one_line
from marathon.core.writes import rule, together, told, told_agent, without
from marathon.errors import MarathonError
from marathon.git.snapshot import NoSnapshot
from marathon.git.writes import Before, Kept
from marathon.store.events import follow
from marathon.store.files import unused_name
from marathon.store.home import INSTRUCTIONS
from marathon.store.places import index_folder
from marathon.store.task_index import known_tasks

if TYPE_CHECKING:
    from marathon.runner.gate_view import TaskAtGate
    from marathon.runner.marathon import Marathon


def look(marathon: Marathon, phase: Phase) -> tuple[Before | None, Writes | None]:
    """The project before a session that may not write everywhere, or why it cannot be compared afterwards."""
    if phase.writes == "project" or (phase.writes == "task" and is_held(marathon, phase)):
        return None, None
    try:
        if why := marathon.snapshots.problem:  # git has just tried, which may have taken long
            raise NoSnapshot(why)
        return marathon.snapshots.look(), None
    except (NoSnapshot, OSError, MarathonError) as error:
        unchecked = Writes(unchecked=one_line(str(error), 300))
        if not marathon.told_unchecked:
            marathon.tell(told(phase.id, unchecked, str(marathon.shown)))
            marathon.told_unchecked = True
        return None, unchecked


def is_held(marathon: Marathon, phase: Phase) -> bool:
    """Whether the sandbox keeps the project as it is in this phase, so that nothing in it has to be undone."""
    inside = marathon.project.is_relative_to(marathon.task.folder)
    return bool(marathon.options.sandbox) and phase.writes != "project" and not inside


def compare(marathon: Marathon, phase: Phase, before: Before, *, lost: bool = False) -> Writes | None:
    """What changed where the phase may not write. `lost`: its runner was killed, and a human may have come since."""
    task, life = marathon.task, marathon.life
    allowed = [task.folder / name for name in (phase.output, phase.checklist) if name]
    allowed = [task.folder] if phase.writes == "task" else allowed
    undoes = life.worktree is not None and not lost
    try:
        if undoes:
            patch = Path(task.runs.session_path(life.run, "writes", life.iteration, "patch"))
            writes = marathon.snapshots.hold(before, allowed, patch)
        else:
            log = task.runs.session_path(life.run, "events", life.iteration, "jsonl")
            written = {os.path.realpath(marathon.project / path) for path in paths_written(follow(log))}
            writes = marathon.snapshots.changed(before, allowed, written, lambda: other_tasks(marathon))
    except (NoSnapshot, OSError, ValueError, MarathonError) as error:
        why = f"It could not be compared. {one_line(str(error), 300)}"
        writes = Writes(left=why) if undoes else Writes(unchecked=why)
    if phase.writes == "none" and not marathon.snapshots.sees_task():
        writes = replace(writes or Writes(), unchecked="git does not see what is written in the task's folder.")
    if writes:
        marathon.tell(told(phase.id, writes, str(marathon.shown)), "warning")
    return writes


def other_tasks(marathon: Marathon) -> Sequence[Path]:
    """The folders in which other runners, and a human who makes a task, may write at any time."""
    beside = [each.parent for each in marathon.task.folder.parent.glob(f"*/{INSTRUCTIONS}")]
    known = [each.task for each in known_tasks(index_folder())]
    return [each for each in (*beside, *known) if each != marathon.task.folder]


def at_gate(seen: TaskAtGate) -> list[str]:
    """What a gate says of it, a line for each phase."""
    return _lines(seen.life.writes, seen.shown)


def _lines(found: Iterable[tuple[str, Writes]], shown: Path) -> list[str]:
    lines = [told(phase, writes, str(shown)) for phase, writes in together(found)]
    return list(dict.fromkeys(filter(None, lines)))


def kept(seen: TaskAtGate) -> list[Writes]:
    """What a human may undo."""
    return [writes for _, writes in seen.life.writes if writes.tree and (writes.files or writes.commit)]


def shown(seen: TaskAtGate) -> Kept:
    """The same with its diff, as it is now."""
    try:
        return seen.snapshots.kept(kept(seen))
    except (NoSnapshot, OSError) as error:
        raise MarathonError(f"What changed is not known any more. {error}") from error


def for_agent(marathon: Marathon, phase: Phase, name: str) -> list[str]:
    """What no session was told of yet, for one that may not write everywhere."""
    if not rule(phase, ""):
        return []
    told_of = [(where, each) for where, each in marathon.life.untold if each.count or each.commit or each.undone]
    found = together(told_of)
    return [told_agent(where, each, phase) if each.tree else told(where, each, name) for where, each in found]


def undo(marathon: Marathon, answer: Answer) -> None:
    """Undo what a human chose at the open gate, which stays open."""
    life, task = marathon.life, marathon.task
    patch = unused_name(Path(task.runs.session_path(life.run, "writes", life.iteration, "patch")))
    try:
        done, problem = marathon.snapshots.undo(kept(marathon), answer.files, patch, head=answer.head)
    except (NoSnapshot, OSError, MarathonError) as error:
        done, problem = Writes(), str(error)
    if problem:
        marathon.tell(f"Not all of it was undone. {one_line(problem, 300)}", "warning")
    if not (done.files or done.commit):
        return
    back = marathon.snapshots.command_back(done, marathon.options.home or marathon.project)
    rest = [(phase, without(each, done.files, done.commit)) for phase, each in life.writes]
    lines = _lines(rest, marathon.shown)
    marathon.record(Undone(files=done.files, commit=done.commit, put_back=[back] if back else [], writes=lines))
    what = [one_line(", ".join(done.files), 300)] if done.files else []
    what += [f"the branch, which was at {done.commit[:12]}"] if done.commit else []
    marathon.tell(f"Undone: {' and '.join(what)}.")


def note_kept(marathon: Marathon) -> None:
    """--auto-approve undoes nothing, and the record says so."""
    for line in at_gate(marathon) if kept(marathon) else ():
        marathon.record(Remark(text=f"not undone: {line}"))
        marathon.tell(f"Not undone: {line}", "warning")
