"""The runner state file: the mailbox between the runner and whatever runs inside the agent's session."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marathon.errors import WrongUsage
from marathon.store.files import disk_errors, make_private_directory, read_regular, write_atomic

MAX_BYTES = 4 * 1024 * 1024
STALE_AFTER = 24 * 3600.0
_RUNNER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class AgentChannel:
    """One runner's file. While an agent lives, only its side writes; otherwise only the runner."""

    def __init__(self, folder: Path, runner: str) -> None:
        if not _RUNNER_ID.fullmatch(runner):
            raise WrongUsage(f"{runner[:60]!r} is not a runner id.")
        self.folder = folder
        self.path = folder / f"{runner}.json"

    def read(self) -> dict[str, Any]:
        """What is in it; an unreadable one is an empty one."""
        try:
            value = json.loads(read_regular(self.path, MAX_BYTES) or b"{}")
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, fields: dict[str, Any]) -> None:
        make_private_directory(self.folder)
        write_atomic(self.path, _bytes(fields), durable=False)

    def update(self, **fields: Any) -> None:
        """Change some fields and keep the rest, one writer at a time."""
        with _locked(self.folder):
            self.write({**self.read(), **fields})

    def remove(self) -> None:
        with disk_errors("remove", self.path):
            self.path.unlink(missing_ok=True)


def _bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def sweep(folder: Path, now: float) -> None:
    """Remove the files of runners that died a while ago; the task's next runner reads a fresh one before it goes."""
    with contextlib.suppress(OSError):
        for path in folder.glob("*.json"):
            if now - path.stat().st_mtime < STALE_AFTER or not _RUNNER_ID.fullmatch(path.stem):
                continue
            if not _alive(AgentChannel(folder, path.stem).read().get("pid")):
                path.unlink(missing_ok=True)


def channel_of(folder: Path, runner: str) -> AgentChannel | None:
    """The mailbox of an earlier runner, by what a file says its id was."""
    return AgentChannel(folder, runner) if _RUNNER_ID.fullmatch(runner) else None


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    make_private_directory(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
