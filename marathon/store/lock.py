"""One runner per task: an flock that the death of its holder frees, with a note of who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import socket
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from marathon.core.text import duration, one_line
from marathon.errors import TaskBusy, TaskInvalid
from marathon.store.files import PRIVATE_FILE, disk_errors, opened, write_all
from marathon.store.seal import is_sealed, seal

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
            return "its note was changed, so its pid is not known"
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
    """Held from construction until release() or the end of every process that inherited its fd."""

    def __init__(
        self, path: Path, task: Path, runner: str, resume: str = "", project: Path = Path(), boot: str = ""
    ) -> None:
        with disk_errors("open", path):
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        try:
            _lock_now(self.fd)
        except OSError as error:
            holder = _note(self.fd, path)
            os.close(self.fd)
            if isinstance(error, BlockingIOError | PermissionError):
                raise Held(task, holder) from error
            advice = "Move the task to a local disk."
            raise TaskInvalid(f"{path}: this file system has no locks ({error.strerror}). {advice}") from error
        self.before = _note(self.fd, path)
        folder = str(path.resolve().parents[1])
        self._us = Holder(0, socket.gethostname(), runner, time.time(), resume, str(project), folder, boot)
        self._path = path
        self.sign()

    def sign(self, *, background: bool = False) -> None:
        """Note that this process has the lock. A fork that goes on with the lock signs again."""
        import psutil

        us = asdict(replace(self._us, pid=os.getpid(), born=psutil.Process().create_time(), background=background))
        note = json.dumps({**us, "seal": seal(self._path, us)}).encode()
        with disk_errors("write", self._path):
            # One write covers all of the old note, so a runner that is killed here leaves a note that can be read.
            os.lseek(self.fd, 0, os.SEEK_SET)
            write_all(self.fd, note.ljust(os.fstat(self.fd).st_size))
            os.ftruncate(self.fd, len(note))

    @property
    def previous_runner(self) -> str:
        return self.before.runner if self.before else ""

    def renew(self, path: Path) -> bool:
        """Lock again, because whoever inherited the lock can let it go. False if the file is another one by now."""
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self.fd), os.lstat(path)):
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
        return False

    def release(self) -> None:
        os.close(self.fd)


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
            return _note(fd, path) or Holder(0, "?", "", time.time())
    return None


def last_holder(path: Path) -> Holder | None:
    """The runner that holds or last held the lock."""
    with contextlib.suppress(OSError), opened(path, _LOOK) as fd:
        return _note(fd, path)
    return None


def _note(fd: int, path: Path) -> Holder | None:
    """Only what a runner of this task wrote. An agent can write this file, and a human may be told to type it."""
    try:
        facts = json.loads(os.pread(fd, 1 << 20, 0))
        mark = facts.pop("seal", "")
        return Holder(**facts) if is_sealed(path, facts, mark) else None
    except (ValueError, OSError, AttributeError, TypeError, RecursionError):
        return None
