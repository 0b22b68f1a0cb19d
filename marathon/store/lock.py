"""One runner per task: an flock that its holder's death frees by itself, with a note of who holds it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from marathon.core.text import duration, one_line
from marathon.errors import TaskBusy, TaskInvalid
from marathon.store.files import PRIVATE_FILE, disk_errors, write_all


@dataclass(frozen=True)
class Holder:
    """Who holds, or last held, the lock."""

    pid: int
    host: str
    runner: str
    since: float
    resume: str = ""
    cwd: str = ""
    task: str = ""

    def __str__(self) -> str:
        age = duration(min(max(0.0, time.time() - self.since), 1e9))
        return f"pid {self.pid} on {one_line(self.host, 60)}, for {age}"


class TaskLock:
    """Held from construction until release() or the end of every process that inherited its fd."""

    def __init__(self, path: Path, task: Path, runner: str, resume: str = "", project: Path = Path()) -> None:
        with disk_errors("open", path):
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            _lock_now(self.fd)
        except OSError as error:
            holder = _read(self.fd)  # only now: the note before was another one's
            os.close(self.fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise TaskInvalid(
                    f"{path}: this filesystem has no locks ({error.strerror}). Move the task to a local disk."
                ) from error
            raise Held(task, holder) from error
        self.before = _read(self.fd)
        us = Holder(
            os.getpid(), socket.gethostname(), runner, time.time(), resume, str(project), str(path.resolve().parents[1])
        )
        note = json.dumps(asdict(us))
        with disk_errors("write", path):
            # In one piece and over the whole of the old one: whoever is killed here leaves a note that can be read.
            write_all(self.fd, note.encode().ljust(os.fstat(self.fd).st_size))
            os.ftruncate(self.fd, len(note))

    def release(self) -> None:
        os.close(self.fd)


class Held(TaskBusy):
    """Somebody else has the task."""

    def __init__(self, task: Path, holder: Holder | None) -> None:
        who = f" ({holder})" if holder else ""
        see, end = f"pi-marathon status {task}", f"pi-marathon stop {task}"
        super().__init__(f"Another runner has this task{who}. To see it: {see}   To end it: {end}")
        self.holder = holder


def _lock_now(fd: int) -> None:
    """Lock or fail; a `status` that looks at the same moment holds a shared lock for microseconds only."""
    for _ in range(25):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holder_of(path: Path) -> Holder | None:
    """Who holds the lock now, without taking it; None if it is free."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(fd) or Holder(0, "?", "", time.time())
    else:
        return None
    finally:
        os.close(fd)


def last_holder(path: Path) -> Holder | None:
    """Who holds or last held the lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(fd)
    finally:
        os.close(fd)


def _read(fd: int) -> Holder | None:
    try:
        value = json.loads(os.pread(fd, 1 << 20, 0), parse_constant=int)  # no NaN
        words = (str(value["host"]), str(value["runner"]))
        more = (str(value.get(name, "")) for name in ("resume", "cwd", "task"))
        return Holder(int(value["pid"]), *words, float(value["since"]), *more)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, OSError):
        return None
