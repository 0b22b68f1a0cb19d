"""One runner per task: an flock that the death of its holder frees, with a note of who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import shlex
import socket
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from marathon.core.text import duration, one_line
from marathon.errors import TaskBusy, TaskInvalid
from marathon.store.files import PRIVATE_FILE, disk_errors, opened, write_all

_LOOK = os.O_RDONLY | os.O_NOFOLLOW


@dataclass(frozen=True)
class Holder:
    """The runner that holds, or last held, the lock."""

    pid: int
    host: str
    runner: str
    since: float
    resume: str = ""
    cwd: str = ""
    task: str = ""
    boot: str = ""  # of the machine, so that a runner that ended with it is known
    background: bool = False
    born: float = 0  # when this process began, so that its pid is not taken for another process

    def __str__(self) -> str:
        if not self.pid:
            return "it has just begun"
        age = duration(min(max(0.0, time.time() - self.since), 1e9))
        where = ", in the background" if self.background else ""
        return f"pid {self.pid} on {one_line(self.host, 60)}, for {age}{where}"


class Held(TaskBusy):
    """Another runner has the task."""

    def __init__(self, task: Path, holder: Holder | None) -> None:
        who = f" ({holder})" if holder else ""
        see, end = (f"pi-marathon {verb} {shlex.quote(str(task))}" for verb in ("attach", "stop"))
        super().__init__(f"Another runner has this task{who}. To see it and answer: {see}   To end it: {end}")
        self.holder = holder


class TaskLock:
    """Two locks. The runner's own, in the task's home, says who has the task.

    The other one, on the task's folder, is inherited by the agent, so that it is held as long as the agent lives. It
    keeps two homes from running one task, and nothing is read from it.
    """

    def __init__(
        self, path: Path, task: Path, shown: Path, runner: str, resume: str = "", project: Path = Path(), boot: str = ""
    ) -> None:
        self._path = path
        self._own = _locked(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, shown)
        self.before = _note(self._own)
        try:
            self.fd = _locked(task, os.O_RDONLY | os.O_DIRECTORY, shown)
        except BaseException as error:
            os.close(self._own)
            if isinstance(error, Held):  # an agent outlived its runner, or the other runner has another home
                raise Held(shown, self.before) from error
            raise
        self._us = Holder(0, socket.gethostname(), runner, time.time(), resume, str(project), str(task), boot)
        self._sign(background=False)

    def sign(self) -> None:
        """A fork that goes on with the lock, in the background, notes that it has it now."""
        self._sign(background=True)

    def _sign(self, *, background: bool) -> None:
        import psutil

        us = asdict(replace(self._us, pid=os.getpid(), born=psutil.Process().create_time(), background=background))
        note = json.dumps(us).encode()
        with disk_errors("write", self._path):
            # One write covers all of the old note, so a runner that is killed here leaves a note that can be read.
            os.lseek(self._own, 0, os.SEEK_SET)
            write_all(self._own, note.ljust(os.fstat(self._own).st_size))
            os.ftruncate(self._own, len(note))

    @property
    def previous_runner(self) -> str:
        return self.before.runner if self.before else ""

    def release(self) -> None:
        os.close(self.fd)
        os.close(self._own)


def _locked(path: Path, flags: int, shown: Path) -> int:
    with disk_errors("open", path):
        fd = os.open(path, flags, PRIVATE_FILE)
    try:
        _lock_now(fd)
    except OSError as error:
        holder = _note(fd)
        os.close(fd)
        if isinstance(error, BlockingIOError | PermissionError):
            raise Held(shown, holder) from error
        advice = "Move it to a local disk."
        raise TaskInvalid(f"{path}: this file system has no locks ({error.strerror}). {advice}") from error
    return fd


def _lock_now(fd: int) -> None:
    """Lock, or fail within a moment. A `status` that looks just now holds a shared lock for microseconds."""
    for _ in range(25):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.01)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holder_of(path: Path) -> Holder | None:
    """The runner that holds the lock now, found without taking the lock. None if the lock is free."""
    with contextlib.suppress(OSError), opened(path, _LOOK) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _note(fd) or Holder(0, "?", "", time.time())
    return None


def last_holder(path: Path) -> Holder | None:
    """The runner that holds or last held the lock."""
    with contextlib.suppress(OSError), opened(path, _LOOK) as fd:
        return _note(fd)
    return None


def _note(fd: int) -> Holder | None:
    """A runner that was killed while it wrote leaves half of one, and an older version another form."""
    try:
        facts = json.loads(os.pread(fd, 1 << 20, 0))
        facts.pop("seal", None)
        found = Holder(**facts)
        texts = (found.host, found.runner, found.resume, found.cwd, found.task, found.boot)
        sound = found.pid >= 0 and math.isfinite(found.since) and math.isfinite(found.born)
        return found if sound and all(isinstance(text, str) for text in texts) else None
    except (ValueError, OSError, TypeError, AttributeError, RecursionError):
        return None
