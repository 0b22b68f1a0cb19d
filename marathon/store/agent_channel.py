"""The runner state file: how the runner and what runs inside the agent's session talk to each other."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from marathon.errors import WrongUsage
from marathon.store.files import disk_errors, make_private_directory, opened, read_regular, write_atomic

MAX_BYTES = 4 * 1024 * 1024
STALE_AFTER = 24 * 3600.0
_RUNNER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def _or_none(value: object, read: ValidatorFunctionWrapHandler) -> object:
    try:
        return read(value)
    except ValidationError:
        return None


_Lenient = WrapValidator(_or_none)


class _Fields(BaseModel):
    """The fields the runner acts on. A field that makes no sense counts as empty. Other fields are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow", defer_build=True)

    pid: Annotated[int | None, Field(gt=0, lt=2**31), _Lenient] = None
    run: Annotated[int | None, _Lenient] = None
    iteration: Annotated[int | None, _Lenient] = None
    taskDir: Annotated[str | None, _Lenient] = None
    waitSeconds: Annotated[float | None, Field(gt=0, allow_inf_nan=False), _Lenient] = None
    waitReason: Annotated[str | None, _Lenient] = None
    feedbackQuestion: Annotated[str | None, _Lenient] = None
    sessionId: Annotated[str | None, _Lenient] = None
    sessionEnded: Annotated[bool | None, _Lenient] = None


class AgentChannel:
    """One runner's file. While an agent lives, only its side writes; otherwise only the runner writes.

    A sandboxed agent sees no other runner's file: for it `box` stands in the place of the folder, and its file in there
    is what the runner reads.
    """

    def __init__(self, folder: Path, runner: str, *, boxed: bool = False) -> None:
        if not _RUNNER_ID.fullmatch(runner):
            raise WrongUsage(f"{runner[:60]!r} is not a runner id.")
        self.folder = folder
        self.path = folder / f"{runner}.json"
        self.box = folder / runner
        if boxed:
            make_private_directory(self.box)

    def read(self) -> dict[str, Any]:
        """What is in the file. A file that cannot be read counts as empty."""
        path = self.box / self.path.name if self.box.is_dir() else self.path
        try:
            fields = _Fields.model_validate(json.loads(read_regular(path, MAX_BYTES) or b"{}"))
        except (OSError, ValueError, RecursionError):
            return {}
        return fields.model_dump(exclude_unset=True)

    def write(self, fields: dict[str, Any]) -> None:
        make_private_directory(self.folder)
        data = json.dumps(fields).encode() + b"\n"
        write_atomic(self.path, data, durable=False)
        if self.box.is_dir():
            write_atomic(self.box / self.path.name, data, durable=False)

    def update(self, **fields: Any) -> None:
        """Change some fields and keep the rest, one writer at a time."""
        make_private_directory(self.folder)
        with opened(self.folder, os.O_RDONLY) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.write({**self.read(), **fields})

    def remove(self) -> None:
        with disk_errors("remove", self.path):
            self.path.unlink(missing_ok=True)
            if self.box.is_dir():
                shutil.rmtree(self.box)


def channel_of(folder: Path, runner: str) -> AgentChannel | None:
    """The channel of an earlier runner, by the id that a file gives. None if that is not an id."""
    return AgentChannel(folder, runner) if _RUNNER_ID.fullmatch(runner) else None


def sweep(folder: Path, now: float) -> None:
    """Remove the files of runners that died long ago. The task's next runner may still read a younger file."""
    import psutil

    with contextlib.suppress(OSError):
        for path in folder.glob("*.json"):
            channel = channel_of(folder, path.stem)
            if channel is None or now - path.stat().st_mtime < STALE_AFTER:
                continue
            if not psutil.pid_exists(channel.read().get("pid") or -1):
                channel.remove()
