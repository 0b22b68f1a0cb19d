"""Processes as /proc shows them: who descends from whom, and ending them without ever signalling a stranger.

A pid alone names nobody for long, so a process is a pid together with its start time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

_GONE = "ZX"
_KILL_PATIENCE = 1.0


class Process:
    """No dataclass: their module alone would double what the guardian has to load."""

    __slots__ = ("command", "parent", "pid", "start", "state")

    def __init__(self, pid: int, start: int, parent: int, state: str, command: str) -> None:
        self.pid = pid
        self.start = start  # clock ticks after boot
        self.parent = parent
        self.state = state  # one letter as in proc(5): R, S, D, T, Z …
        self.command = command  # the command line where it was asked for, else the short name

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.start

    @property
    def gone(self) -> bool:
        return self.state in _GONE

    @property
    def stopped(self) -> bool:
        return self.state in "Tt"


def look(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, tail = file.read().rpartition(b")")
    except OSError:
        return None
    fields = tail.split()
    name = head.partition(b"(")[2].decode(errors="replace")
    return Process(pid, int(fields[19]), int(fields[1]), fields[0].decode(), name)


def identity(pid: int) -> tuple[int, int] | None:
    process = look(pid)
    return process.identity if process else None


def everybody() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := look(int(name))):
            yield process


def child_pids(pid: int) -> list[int]:
    """Who has this parent, by the kernel's own list where it keeps one: it need not look at everybody."""
    try:
        listed = [_words(f"/proc/{pid}/task/{thread}/children") for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return [process.pid for process in everybody() if process.parent == pid]
    return [int(word) for words in listed for word in words]


def children(pid: int) -> list[Process]:
    return [process for child in child_pids(pid) if (process := look(child))]


def descendants(pid: int) -> list[Process]:
    """The whole tree below `pid`, parents before their children, zombies left out."""
    children: dict[int, list[Process]] = defaultdict(list)
    for process in everybody():
        children[process.parent].append(process)
    found: list[Process] = []
    parents = [pid]
    while parents:
        below = [child for parent in parents for child in children.pop(parent, [])]
        found += below
        parents = [child.pid for child in below]
    return [process for process in found if not process.gone]


def ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while (process := look(pid)) and process.parent > 0:
        pid = process.parent
        found.append(pid)
    return found


def find_by_environ(name: str, value: str) -> list[Process]:
    """Our user's processes that were started with NAME=VALUE, except ourselves and our ancestors."""
    wanted = os.fsencode(f"{name}={value}")
    exempt = {os.getpid(), *ancestors(os.getpid())}
    return [
        Process(process.pid, process.start, process.parent, process.state, _command_line(process))
        for process in everybody()
        if process.pid not in exempt and _is_ours(process.pid) and wanted in _environ(process.pid)
    ]


def send(process: Process, signum: int) -> bool:
    """Signal exactly this process; False if it is gone or not ours to signal."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:  # no pidfds here: what is left is a very short race
        return _send_by_pid(process, signum)
    try:
        if not _exists(process):
            return False
        signal.pidfd_send_signal(handle, signum)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def wait(processes: Iterable[Process], seconds: float) -> list[Process]:
    """Wait until all have ended, but no longer than this; returns those that have not."""
    deadline = time.monotonic() + seconds
    return [process for process in processes if not _ended_by(process, deadline)]


def end(processes: Iterable[Process], grace: float) -> int:
    """TERM, wait, KILL; returns how many had to be ended."""
    alive = [process for process in processes if _exists(process)]
    for process in alive:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)
    stubborn = wait(alive, grace)
    for process in stubborn:
        send(process, signal.SIGKILL)
    wait(stubborn, _KILL_PATIENCE)
    return len(alive)


def _exists(process: Process) -> bool:
    now = look(process.pid)
    return now is not None and now.start == process.start and not now.gone


def _send_by_pid(process: Process, signum: int) -> bool:
    if not _exists(process):
        return False
    try:
        os.kill(process.pid, signum)
    except OSError:
        return False
    return True


def _ended_by(process: Process, deadline: float) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        while _exists(process) and time.monotonic() < deadline:
            time.sleep(0.02)
        return not _exists(process)
    try:
        if _exists(process):
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
    finally:
        os.close(handle)
    return not _exists(process)


def _is_ours(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    return False


def _environ(pid: int) -> list[bytes]:
    return _strings(f"/proc/{pid}/environ")


def _command_line(process: Process) -> str:
    words = _strings(f"/proc/{process.pid}/cmdline")
    return " ".join(word.decode(errors="replace") for word in words) or process.command


def _words(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        return file.read().split()


def _strings(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
