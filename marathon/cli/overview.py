"""What is known of several tasks at once. What the last runner left saves reading the journal of a task at rest."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from marathon.cli.find import tasks_of
from marathon.core.budgets import Usage
from marathon.errors import MarathonError
from marathon.show.listing import Row
from marathon.show.status import Status
from marathon.store.home import Home, home_of
from marathon.store.lock import holder_of, last_holder
from marathon.store.places import index_folder, states_folder
from marathon.store.runs import Runs
from marathon.store.task_index import known_tasks, tasks_at_work

LOOPS, LOOP_TASK = ".multiloop", "task"
_SHOWN = ("condition", "phase", "run", "iteration", "seconds", "waits_for", "resume", "worktree", "branch")
_TOUCHED = ("STATE.json", "instructions.md", ".")


def overview(tasks: Iterable[Path], project: Path, left: Mapping[Path, Mapping[str, Any]] | None = None) -> list[Row]:
    """A row for each task. `left` is what the index knows of them."""
    now, left = time.time(), left or {}
    return [
        Row(task, project, _noted(task, left.get(task)) or status_at(task, project), max(0.0, now - last_change(task)))
        for task in tasks
    ]


def in_index(status: Status, journal_size: int) -> dict[str, Any]:
    """What a list shows of a task at rest."""
    shown = {name: getattr(status, name) for name in _SHOWN}
    return {**shown, "cost": status.usage.cost, "journal": journal_size}


def _noted(task: Path, left: Mapping[str, Any] | None) -> Status | None:
    """The task as the index tells of it, if nothing has happened to it since."""
    own = home_of(task)
    if not left or left.get("condition", "waiting") == "waiting" or not Runs(own).unchanged_since(left.get("journal")):
        return None
    if holder_of(own / "lock"):
        return None
    try:
        shown = {name: left[name] for name in _SHOWN}
        return with_reboot(task, Status(task=str(task), usage=Usage(cost=left["cost"]), **shown))
    except (TypeError, KeyError):  # another version wrote it
        return None


def last_change(task: Path) -> float:
    """When something last happened to a task: the time of its journal, or of the files it has before its first run."""
    for path in (home_of(task) / "journal.jsonl", *(task / name for name in _TOUCHED)):
        with contextlib.suppress(OSError):
            return os.stat(path).st_mtime
    return 0.0


def everywhere(here: Path) -> list[Row]:
    """A row for each task and each measured loop that is known on this machine, and for those of this project."""
    projects, left = {here: list[Path]()}, dict[Path, Mapping[str, Any]]()
    for known in (*known_tasks(index_folder()), *tasks_at_work(states_folder())):
        tasks = projects.setdefault(known.project, [])
        if LOOPS not in known.task.parts:
            tasks.append(known.task)
            left[known.task] = known.left
    return [
        row
        for project, tasks in projects.items()
        for row in (*overview(tasks_of(project, tasks), project, left), *_loops(project))
    ]


def _loops(project: Path) -> list[Row]:
    """The measured loops of a project that are not archived, with what their runners left."""
    if not (project / LOOPS).is_dir() or (project / LOOPS).is_symlink():
        return []
    from marathon.store.lanes import Lanes

    lanes, rows = Lanes(project), []
    for run in lanes.runs():
        folder = lanes.folder(run)
        task = folder / LOOP_TASK
        status = Status(task=str(folder), condition="active" if run.status == "running" else run.status)
        if Home(task).exists():
            by_runner = status_at(task, project)
            if run.status == "running" or by_runner.runner or by_runner.condition == "gate":
                status = by_runner
        idle = max(0.0, time.time() - last_change(folder))
        rows += [] if run.status == "archived" else [Row(folder, project, status, idle, loop=run.name)]
    return rows


def at_rest(folder: Path) -> Status | None:
    """What the last runner left, if nothing has happened to the task since."""
    own = home_of(folder)
    facts = Runs(own).summary()
    if facts is None or facts.get("condition") == "waiting" or holder_of(own / "lock"):
        return None
    try:
        return with_reboot(folder, Status(**{**facts, "usage": Usage(**facts["usage"])}))
    except (TypeError, KeyError):  # another version wrote it
        return None


def status_at(folder: Path, project: Path) -> Status:
    """Where a task stands; also of one that cannot be read."""
    known = at_rest(folder)
    if known:
        return replace(known, task=str(folder))
    from marathon.runner.status_query import status_of_task  # this reads the journal, for which it loads far more

    try:
        return with_reboot(folder, status_of_task(folder, project))
    except MarathonError as error:
        return Status(task=str(folder), condition=f"unreadable: {error}")


def with_reboot(folder: Path, status: Status) -> Status:
    """The status says so if the machine has started again since, and the runner had no end of its own."""
    own = home_of(folder)
    if status.runner or status.condition not in ("running", "ready", "interrupted", "waiting"):
        return status
    from marathon.process.clock import boot_id

    before = last_holder(own / "lock")
    if not before or not before.boot or before.boot == boot_id() or before.runner == Runs(own).left_by():
        return status
    return replace(status, rebooted=True)
