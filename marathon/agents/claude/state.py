"""The state that Claude Code's hooks look at, in a loop or in a marathon, and what they remember of each session."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from marathon.core.text import one_line
from marathon.errors import DiskFailed
from marathon.store.files import make_private_directory, read_regular, write_atomic
from marathon.store.places import states_folder

State = Mapping[str, Any]
MAX_BYTES = 1024 * 1024
MOST_SESSIONS = 50
MOST_NAMES = 20


class Place(NamedTuple):
    """Where the state of a session is, and where the hooks remember what they answered."""

    state_file: Path
    memory: Path
    marathon: bool = False
    prompt: str = ""

    def state(self) -> dict[str, Any] | None:
        """None if there is no state or it cannot be read."""
        return _read(self.state_file)

    def written(self) -> bool:
        """Whether STATE.json is newer than the session's prompt, which the runner writes after STATE.json."""
        try:
            return self.state_file.stat().st_mtime_ns > os.stat(self.prompt).st_mtime_ns
        except (OSError, ValueError):
            return False

    def recall(self, session: str) -> object:
        """What was remembered of a session. Anyone can write that file, so the caller checks it."""
        return self._sessions().get(session)

    def remember(self, session: str, facts: State | None) -> bool:
        """Remember these facts about a session, or forget it. False if they could not be written."""
        sessions = self._sessions()
        if sessions.pop(session, None) is None and facts is None:
            return True
        newest = list(sessions.items())[1 - MOST_SESSIONS :]
        newest += [(session, facts)] if facts is not None else []
        try:
            make_private_directory(self.memory.parent)
            write_atomic(self.memory, json.dumps({"sessions": dict(newest)}).encode() + b"\n", durable=False)
        except (DiskFailed, OSError):
            return False
        return True

    def _sessions(self) -> dict[str, Any]:
        sessions = (_read(self.memory) or {}).get("sessions")
        return sessions if isinstance(sessions, dict) else {}


def find_place(cwd: str, environ: Mapping[str, str]) -> Place | None:
    """The marathon's task if the environment names one, else the loop of the working directory."""
    if task := environ.get("MARATHON_TASK_DIR"):
        memory = states_folder(environ) / "hooks" / "stop.json"
        place = Place(Path(task) / "STATE.json", memory, True, environ.get("MARATHON_PROMPT_FILE", ""))
        return place if os.path.isdir(task) else None
    project = environ.get("CLAUDE_PROJECT_DIR", "")
    # Claude's working directory follows its `cd`, so the project it was started in may be above.
    above = [project] if project and Path(project) in Path(cwd).parents else []
    for folder in (Path(each, ".loop") for each in (cwd, *above)):
        if os.path.lexists(folder / "state.json"):
            return Place(folder / "state.json", folder / "stop-hook.json")
    return None


def as_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in these bytes, or None for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def criteria_of(state: State) -> dict[str, Any]:
    """Every criterion with its verdict. One that is listed without a verdict is not met."""
    verdicts, names = state.get("criteriaStatus"), state.get("criteria")
    listed = [name if isinstance(name, str) else json.dumps(name) for name in names] if isinstance(names, list) else []
    return {**dict.fromkeys(listed, False), **(verdicts if isinstance(verdicts, dict) else {})}


def unmet_criteria(state: State) -> list[str]:
    return [name for name, met in criteria_of(state).items() if met is not True]


def is_over(state: State) -> bool:
    """A completed loop is over only if no criterion is unmet: criteriaStatus is the truth."""
    status = state.get("status", state.get("state"))
    status = status.strip().lower() if isinstance(status, str) else ""
    return status in ("paused", "cancelled", "canceled") or (status == "completed" and not unmet_criteria(state))


def joined(names: list[str]) -> str:
    """The first names, safe to show."""
    more = f"; and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return "; ".join(one_line(name) for name in names[:MOST_NAMES]) + more


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = read_regular(path, MAX_BYTES)
    except (OSError, ValueError):
        return None
    return as_object(data) if data is not None and len(data) <= MAX_BYTES else None
