"""The files behind Claude Code's hooks: the state of a loop or a marathon, and the hooks' memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from marathon.core.text import one_line
from marathon.errors import DiskFailed
from marathon.store.files import SHARED_FILE, make_private_directory, read_regular, refuse_link, write_atomic
from marathon.store.places import states_folder

State = Mapping[str, Any]
MAX_BYTES = 1024 * 1024
MOST_SESSIONS = 50
SKILLS = Path(__file__).parent / "skills"  # for Claude Code only
MOST_NAMES = 20
BEGIN = "Your task for this session is in the file {}. Read all of it, then begin."  # to an agent in its own terminal


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
        except OSError:
            return False

    def write(self, state: State) -> None:
        refuse_link(self.state_file.parent)
        make_private_directory(self.state_file.parent)
        text = json.dumps(state, indent=2, ensure_ascii=False) + "\n"
        write_atomic(self.state_file, text.encode("utf-8", "replace"), mode=SHARED_FILE)

    def recall(self, session: str) -> object:
        """What was remembered of a session. The caller checks it, because anyone can write that file."""
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
            return loop_place(folder.parent)
    return None


def loop_place(project: Path) -> Place:
    """The loop of a project, whether there is one or not."""
    return Place(project / ".loop" / "state.json", project / ".loop" / "stop-hook.json")


def criteria_of(state: State) -> dict[str, Any]:
    """Every criterion with its verdict. One that is listed without a verdict is not met."""
    verdicts, names = state.get("criteriaStatus"), state.get("criteria")
    listed = [name if isinstance(name, str) else json.dumps(name) for name in names] if isinstance(names, list) else []
    return {**dict.fromkeys(listed, False), **(verdicts if isinstance(verdicts, dict) else {})}


def unmet_criteria(state: State) -> list[str]:
    return [name for name, met in criteria_of(state).items() if met is not True]


def max_iterations(state: State) -> int:
    """How often the loop may continue. 0 if the state does not say."""
    found = _number(state, "maxIterations")
    return int(found) if found and found >= 1 else 0


def iteration_of(state: State) -> int:
    """As Claude counts them."""
    return int(_number(state, "iteration") or 0)


def is_paid_up(state: State) -> bool:
    """Whether the recorded cost has reached the budget. Claude Code itself tells a hook no cost."""
    budget, cost = _number(state, "budget"), _number(state, "cost")
    return budget is not None and cost is not None and budget > 0 and cost >= budget


def _number(state: State, name: str) -> float | None:
    """The largest that is recorded: in the state itself, or in its metadata."""
    metadata = state.get("metadata")
    places = (state, metadata if isinstance(metadata, Mapping) else {})
    found: list[Any] = [place.get(name) for place in places]
    return max((float(each) for each in found if type(each) in (int, float) and abs(each) < 1e15), default=None)


def is_over(state: State) -> bool:
    """A completed loop is over only if every criterion is met, because criteriaStatus is the truth."""
    status = state.get("status", state.get("state"))
    status = status.strip().lower() if isinstance(status, str) else ""
    return status in ("paused", "cancelled", "canceled") or (status == "completed" and not unmet_criteria(state))


def joined(names: list[str]) -> str:
    """The first names, safe to show."""
    more = f"; and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return "; ".join(one_line(name) for name in names[:MOST_NAMES]) + more


def as_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in these bytes, or None for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = read_regular(path, MAX_BYTES)
    except OSError:
        return None
    return as_object(data) if data is not None and len(data) <= MAX_BYTES else None
