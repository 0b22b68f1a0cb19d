"""Notes which tasks there are on this machine, for `list --all`. Losing a note loses nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from marathon.errors import MarathonError
from marathon.store.files import make_private_directory, read_regular, write_atomic
from marathon.store.home import home_of
from marathon.store.lock import holder_of

_LARGEST = 4 * 1024 * 1024


class Indexed(NamedTuple):
    """A task and the project it belongs to, both as absolute paths."""

    task: Path
    project: Path
    left: Mapping[str, Any] = {}  # where the last runner left it
    folder: str = ""  # in which its agent works now,
    phase: str = ""  # and at what


def remember_task(index: Path, task: Path, project: Path, left: Mapping[str, Any] | None = None) -> None:
    """Note a task. A disk that does not take the note is no reason to stop."""
    facts = json.dumps({"task": str(task), "project": str(project), "left": left or {}}).encode()
    path = _note(index, task)
    with contextlib.suppress(OSError, MarathonError):
        if not path.exists() or path.read_bytes() != facts:
            make_private_directory(index)
            write_atomic(path, facts, durable=False)


def forget_task(index: Path, task: Path) -> None:
    with contextlib.suppress(OSError):
        _note(index, task).unlink(missing_ok=True)


def _note(index: Path, task: Path) -> Path:
    return index / f"{hashlib.sha256(os.fsencode(task)).hexdigest()[:24]}.json"


def tasks_at_work(states: Path) -> list[Indexed]:
    """What runs now, by the runners' state files. An agent can write those, so each is held against its task's lock."""
    found = []
    for path in states.glob("*.json"):
        try:
            facts = json.loads(read_regular(path, _LARGEST) or b"")
            task, folder, phase = Path(facts["taskDir"]), str(facts["cwd"]), str(facts["phase"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
        if holder := holder_of(home_of(task) / "lock"):
            found.append(Indexed(task, Path(holder.cwd or folder), {}, folder, phase))
    return found


def known_tasks(index: Path) -> list[Indexed]:
    """Every noted task that still exists. The notes of others are removed."""
    return [found for path in sorted(index.glob("*.json")) if (found := _read(path)) is not None]


def _read(path: Path) -> Indexed | None:
    try:
        facts = json.loads(path.read_bytes())
        found = Indexed(Path(facts["task"]), Path(facts["project"]), facts.get("left") or {})
        if found.task.is_dir():
            return found
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    with contextlib.suppress(OSError):
        path.unlink()
    return None
