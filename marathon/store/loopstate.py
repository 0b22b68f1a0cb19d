"""The files behind Claude Code's hooks: a marathon's STATE.json or a bare loop's, the transcript, and our memory."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from marathon.core.hook import as_object
from marathon.errors import DiskFailed
from marathon.store.files import make_private_directory, read_regular, write_atomic
from marathon.store.places import states_folder

MAX_BYTES = 1024 * 1024
TAIL = 1024 * 1024
MOST_SESSIONS = 50


class Place(NamedTuple):
    """Where the state of a session lies, and where we remember what we answered."""

    state_file: Path
    memory: Path
    marathon: bool = False
    prompt: str = ""

    def state(self) -> dict[str, Any] | None:
        """None where there is none, or nothing that can be read."""
        return _object_in(self.state_file)

    def written(self) -> bool:
        """Whether the state is younger than the session's prompt, which the runner writes after it."""
        try:
            return self.state_file.stat().st_mtime_ns > os.stat(self.prompt).st_mtime_ns
        except (OSError, ValueError):
            return False


def find_place(cwd: str, environ: Mapping[str, str]) -> Place | None:
    """A marathon's task by the environment, else the loop of the working directory; None where there is neither."""
    task = environ.get("MARATHON_TASK_DIR")
    if task:
        memory = states_folder(environ) / "hooks" / "stop.json"
        there = os.path.isdir(task)
        prompt = environ.get("MARATHON_PROMPT_FILE", "")
        return Place(Path(task) / "STATE.json", memory, marathon=True, prompt=prompt) if there else None
    for folder in _folders(cwd, environ.get("CLAUDE_PROJECT_DIR", "")):
        if os.path.lexists(folder / ".loop" / "state.json"):
            return Place(folder / ".loop" / "state.json", folder / ".loop" / "stop-hook.json")
    return None


def _folders(cwd: str, project: str) -> list[Path]:
    """Claude Code's working directory follows its `cd`; the project it was started in may lie above."""
    inside = bool(project) and Path(project) in Path(cwd).parents
    return [Path(cwd), *([Path(project)] if inside else [])]


def recall(memory: Path, session: str) -> object:
    """What was remembered of a session; the reader judges what it is worth."""
    return _sessions(memory).get(session)


def remember(memory: Path, session: str, facts: Mapping[str, Any] | None) -> bool:
    """Keep the facts of a session, or forget it; False where they could not be kept."""
    sessions = _sessions(memory)
    if facts is None and session not in sessions:
        return True
    sessions.pop(session, None)
    if facts is not None:
        sessions[session] = facts
    newest = dict(list(sessions.items())[-MOST_SESSIONS:])
    try:
        make_private_directory(memory.parent)
        write_atomic(memory, json.dumps({"sessions": newest}, indent=2).encode() + b"\n", durable=False)
    except (DiskFailed, OSError):
        return False
    return True


def tail_of(path: str) -> bytes:
    """The end of a file, bounded, from a full line on; nothing where it is no regular file. Never waits."""
    try:
        fd = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return b""
        before = max(0, found.st_size - TAIL)
        data = os.pread(fd, TAIL, before)
        return data.partition(b"\n")[2] if before else data
    except OSError:
        return b""
    finally:
        os.close(fd)


def _sessions(memory: Path) -> dict[str, Any]:
    sessions = (_object_in(memory) or {}).get("sessions")
    return sessions if isinstance(sessions, dict) else {}


def _object_in(path: Path) -> dict[str, Any] | None:
    try:
        data = read_regular(path, MAX_BYTES)
    except (OSError, ValueError):
        return None
    return as_object(data) if data is not None and len(data) <= MAX_BYTES else None
