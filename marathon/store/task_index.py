"""Notes which tasks there are on this machine, for `list --all`. Losing a note loses nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from marathon.errors import MarathonError
from marathon.store.files import make_private_directory, write_atomic


class Indexed(NamedTuple):
    """A task and the project it belongs to, both as absolute paths."""

    task: Path
    project: Path


def remember_task(index: Path, task: Path, project: Path) -> None:
    """Note a task. A disk that does not take the note is no reason to stop."""
    name = hashlib.sha256(str(task).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    facts = json.dumps({"task": str(task), "project": str(project)}).encode()
    path = index / f"{name}.json"
    with contextlib.suppress(OSError, MarathonError):
        if not path.exists() or path.read_bytes() != facts:
            make_private_directory(index)
            write_atomic(path, facts, durable=False)


def known_tasks(index: Path) -> list[Indexed]:
    """Every noted task that still exists. The notes of others are removed."""
    return [found for path in sorted(index.glob("*.json")) if (found := _read(path)) is not None]


def _read(path: Path) -> Indexed | None:
    try:
        facts = json.loads(path.read_bytes())
        found = Indexed(Path(facts["task"]), Path(facts["project"]))
        if found.task.is_dir():
            return found
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    with contextlib.suppress(OSError):
        path.unlink()
    return None
