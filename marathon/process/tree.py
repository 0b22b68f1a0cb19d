"""Processes: who belongs to whom, and ending them without ever signalling a stranger.

A pid alone names no one for long. psutil knows a process by pid and start time, and signals no other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import psutil

from marathon.process import linux
from marathon.process.start import MARK

SESSION = "MARATHON_RUNNER_ID"  # in the environment of everything that works in a session
T = TypeVar("T")
_LOOKS = 20
_KILL_PATIENCE = 1.0
_LOOK_AGAIN = 0.02
_first_began: list[float] = []  # when the process began for which we go on in the background


def in_a_session(pid: int) -> bool:
    """Whether a process works in an agent's session, or below one.

    The guardian of a session is known by its name, which only itself could change, and it is the subreaper: whatever
    detaches itself stays below it. Without that (not on Linux, or a runner with MARATHON_PORTABLE) the environment of
    the process and of its ancestors tells; a daemon with an empty one gets away there.
    """
    if pid == os.getpid() and os.environ.get(SESSION):
        return True
    line = _line_of(pid)
    return line is None or any(_is_of_a_session(process) for process in line)


def session_lives(state: Callable[[Mapping[str, str]], str]) -> bool:
    """Whether a session lives that has the same state folder as we, by its environment."""
    ours = state(os.environ)
    found = (each for each in everyone() if _is_of_a_session(each))
    return any(state(_ask(each.environ, dict[str, str]())) == ours for each in found)


def _is_of_a_session(process: psutil.Process) -> bool:
    return _ask(process.name, "") == linux.GUARDIAN or bool(_variable(process, SESSION))


def _line_of(pid: int) -> list[psutil.Process] | None:
    """A process and all its ancestors. None if it is gone, or if no look saw all of them: they may die meanwhile."""
    for _ in range(_LOOKS):
        line, at = list[psutil.Process](), pid
        with contextlib.suppress(psutil.Error):
            while at > 0:
                if line and _is_hidden(at):
                    return line
                line.append(psutil.Process(at))
                at = line[-1].ppid()
            return line or None
    return None


def _is_hidden(pid: int) -> bool:
    """Whether it is another user's, and this machine does not show those (hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return look(pid) is None
    except OSError:
        pass
    return False


def look(pid: int) -> psutil.Process | None:
    return _ask(lambda: psutil.Process(pid), None)


def everyone() -> list[psutil.Process]:
    return [process for pid in psutil.pids() if (process := look(pid))]


def status(process: psutil.Process) -> str:
    """One of psutil's STATUS_ values."""
    return _ask(process.status, psutil.STATUS_DEAD) if process.is_running() else psutil.STATUS_DEAD


def is_alive(process: psutil.Process) -> bool:
    return status(process) not in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)


def command_of(process: psutil.Process) -> str:
    return _ask(lambda: " ".join(process.cmdline()) or process.name(), "?")


def session_of(process: psutil.Process) -> int:
    """0 if it is gone, or if its session began outside of our container."""
    return _ask(lambda: os.getsid(process.pid), 0)


def ancestors(pid: int) -> list[int]:
    return [process.pid for process in _ask(lambda: psutil.Process(pid).parents(), list[psutil.Process]())]


def descendants(pid: int) -> list[psutil.Process]:
    """The whole tree below `pid`, parents before their children, zombies left out."""
    below = _ask(lambda: psutil.Process(pid).children(recursive=True), list[psutil.Process]())
    return [process for process in below if is_alive(process)]


def find_by_environ(name: str, value: str) -> list[psutil.Process]:
    """Our user's processes that were started with NAME=VALUE, except ourselves and our ancestors."""
    exempt = {os.getpid(), *ancestors(os.getpid())}
    return [each for each in everyone() if each.pid not in exempt and _has(each, name, value)]


def strays(mark: str, agent: int) -> list[psutil.Process]:
    """What is left of a tree whose guardian is dead: what bears its mark, or is in the session of its agent."""
    return [each for each in _later_than_us() if _has(each, MARK, mark) or (agent and session_of(each) == agent)]


class Family:
    """Everything the agent of this guardian has started, whatever its parent is now."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._known: set[psutil.Process] = set()
        self._sessions: set[int] = set()  # of the known, as of the last look: a number is used again some day

    def living(self, *, thorough: bool = True) -> list[psutil.Process]:
        """Without a subreaper, orphans are known by an earlier look, their session, or (thorough) their mark."""
        family = descendants(os.getpid())
        if linux.HERE:
            return family
        for each in _later_than_us():
            ours = each in self._known or session_of(each) in self._sessions
            if each not in family and (ours or (thorough and _has(each, MARK, self._mark))) and is_alive(each):
                family += [one for one in (each, *descendants(each.pid)) if one not in family]
        self._known = set(family)
        self._sessions = {session_of(each) for each in family} - {0, os.getsid(0)}
        return family


def send(process: psutil.Process, signum: int) -> bool:
    """Signal exactly this process; False if it is gone or not ours to signal."""
    try:
        process.send_signal(signum)
    except psutil.Error:
        return False
    return True


def end(processes: Iterable[psutil.Process], grace: float) -> int:
    """TERM, wait, KILL; returns how many had to be ended."""
    alive = [process for process in processes if is_alive(process)]
    for process in alive:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)
    stubborn = wait(alive, grace)
    for process in stubborn:
        send(process, signal.SIGKILL)
    wait(stubborn, _KILL_PATIENCE)
    return len(alive)


def wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Until all have ended, but no longer than this; returns those that have not."""
    deadline = time.monotonic() + seconds
    while (left := [each for each in processes if is_alive(each)]) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN)
    return left


def _later_than_us() -> list[psutil.Process]:
    """Nothing that began before us can be ours: a safeguard against ever taking a stranger for one of the family."""
    us = psutil.Process()
    began = (*_first_began, us.create_time())[0]
    return [each for each in everyone() if each != us and _ask(each.create_time, 0.0) >= began]


def remember_beginning() -> None:
    """Before a fork of this process goes on in its place: what we have started is older than the fork."""
    if not _first_began:
        _first_began.append(psutil.Process().create_time())


def _has(process: psutil.Process, name: str, value: str) -> bool:
    """Whether it is our user's and was started with NAME=VALUE."""
    return _variable(process, name) == value


def _variable(process: psutil.Process, name: str) -> str | None:
    return _ask(lambda: process.environ().get(name) if process.uids().effective == os.geteuid() else None, None)


def _ask(question: Callable[[], T], otherwise: T) -> T:
    """For a process that may be gone by now, not ours to know, or none at all, such as pid -1 from a file."""
    try:
        return question()
    except (psutil.Error, OSError, ValueError):
        return otherwise
