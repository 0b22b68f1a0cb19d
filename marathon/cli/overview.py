"""What is known of several tasks at once. What the last runner left saves reading the journal of a task at rest."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from marathon.core.budgets import Usage
from marathon.errors import MarathonError
from marathon.show.listing import Row
from marathon.show.status import Status
from marathon.store.lock import holder_of
from marathon.store.runs import Runs

_TOUCHED = (".marathon/journal.jsonl", "STATE.json", "instructions.md", ".")


def overview(tasks: Iterable[Path], project: Path) -> list[Row]:
    """A row for each task."""
    now = time.time()
    return [Row(task, project, _status(task, project), max(0.0, now - last_change(task))) for task in tasks]


def last_change(task: Path) -> float:
    """When something last happened to a task: the time of its journal, or of the files it has before its first run."""
    for name in _TOUCHED:
        with contextlib.suppress(OSError):
            return os.stat(task / name).st_mtime
    return 0.0


def at_rest(folder: Path) -> Status | None:
    """What the last runner left, if nothing has happened to the task since."""
    own = folder / ".marathon"
    facts = Runs(own).summary()
    if facts is None or facts.get("condition") == "waiting" or holder_of(own / "lock"):
        return None
    try:
        return Status(**{**facts, "usage": Usage(**facts["usage"])})
    except (TypeError, KeyError):  # another version wrote it
        return None


def _status(folder: Path, project: Path) -> Status:
    known = at_rest(folder)
    if known:
        return replace(known, task=str(folder))
    from marathon.cli.status_query import status_of_task  # this reads the journal, for which it loads far more

    try:
        return status_of_task(folder, project)
    except MarathonError as error:
        return Status(task=str(folder), condition=f"unreadable: {error}")
