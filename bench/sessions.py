"""What lies between two sessions, what the runner does during one, and what a thousand of them leave behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import psutil

from bench.row import Row
from bench.scratch import AGENTS, LIMIT_REACHED, MARATHON, Scratch
from marathon.process import tree

MINUTE = 60.0
_STANDIN = "a stand-in that tells 30 pieces of text and a tool call of 10 kB"
# What is measured beside the runner: what it tells each second, as in agents/.
BUSY = {
    "command": "a shell script that prints 20 lines",
    **dict.fromkeys(("pi", "pi on a terminal", "claude", "codex", "acp"), _STANDIN),
}
_PATIENCE = 600.0  # seconds until a session is reached; far more than a healthy marathon needs
_A_MOMENT = 0.2  # between two looks at zombies: the agent's own `sleep` is one too, until its shell has waited for it


def between(scratch: Scratch) -> list[Row]:
    """The median gap between two sessions, seen from inside the agent; on a real disk, since records are synced."""
    sessions = scratch.count(150, 5)
    _look(scratch, "command", (sessions,))
    gaps = sorted(1000 * (began - ended) for (_, ended), (began, _) in pairwise(scratch.spans()))
    about = f"median of {len(gaps)}; 95 of 100 within {gaps[int(0.95 * len(gaps))]:.0f} ms"
    return [Row("between two sessions", median(gaps), "ms", 100, about)]


def during(scratch: Scratch) -> list[Row]:
    """The runner's own processor time in a session of one minute, with each agent."""
    return [_share(scratch, agent) for agent in BUSY]


def _share(scratch: Scratch, agent: str) -> Row:
    """What each session costs is taken from short ones, what its output costs from a longer one, scaled to a minute."""
    short, seconds = scratch.count(20, 2), scratch.count(20, 1)
    first, last = _look(scratch, agent, (2, 2 + short))
    fixed = last.work_since(first) / short
    first, last = _look(scratch, agent, (2, 3), seconds)
    per_second = max(0.0, last.work_since(first) - fixed) / (last.at - first.at)
    work = fixed + MINUTE * per_second
    cost = f"{1000 * fixed:.1f} ms of processor time a session, {1000 * per_second:.1f} ms each second"
    return Row(f"the runner's share of a minute ({agent})", 100 * work / MINUTE, "%", 1, f"{cost} with {BUSY[agent]}")


def after(scratch: Scratch) -> list[Row]:
    """Memory, open files and zombies after many sessions."""
    warm, many = scratch.count(50, 3), scratch.count(1000, 8)
    first, last = _look(scratch, "command", (warm, many))
    name = f"after {many} sessions"
    about = f"{first.memory:.1f} MiB after session {warm}"
    return [
        Row(f"memory grown {name}", last.memory - first.memory, "MiB", 10, about),
        Row(f"more open files {name}", last.files - first.files, "", 0, f"{first.files} after session {warm}"),
        Row(f"zombies {name}", last.zombies, "", 0, "below the runner"),
    ]


@dataclass(frozen=True)
class Look:
    """The runner and its helpers, without the agent, while an agent waits."""

    at: float
    work: dict[int, float]  # processor seconds of each of them
    memory: float  # MiB
    files: int  # the runner's
    zombies: int

    def work_since(self, earlier: Look) -> float:
        return sum(seconds - earlier.work.get(pid, 0.0) for pid, seconds in self.work.items())


def _look(scratch: Scratch, agent: str, sessions: tuple[int, ...], seconds: int = 0) -> list[Look]:
    """A look in the middle of each of these sessions of implement: their agent waits until it is let go.

    The last of these sessions is a busy one for so many seconds.
    """
    scratch.new_task("task", "implement")
    held, limit = " ".join(map(str, sessions)), ("--max-iterations", str(sessions[-1]))
    argv = scratch.marathon("task", *limit, held=held, seconds=seconds)
    name = agent.partition(" ")[0]
    program = _standin(scratch, name)
    if name != "command":
        after = ("--", name) if name == "acp" else ()
        argv = [*MARATHON, "--task", "task", "--agent", name, "--mode", "stream", "--adopt", *limit, *after]
    told = json.dumps([str(scratch.held), held, str(seconds)])
    env = scratch.environment(BENCH_AGENT=told)
    env["PATH"] = os.pathsep.join((str(program.parent), env["PATH"]))
    window, terminal = os.openpty()
    watched = agent == "pi on a terminal"
    out = terminal if watched else subprocess.DEVNULL
    threading.Thread(target=_watch, args=(window,), daemon=True).start()
    with subprocess.Popen(argv, cwd=scratch.project, env=env, stdin=out, stdout=out, stderr=out) as runner:
        try:
            looks = [_look_in(runner, scratch.held, number) for number in sessions]
            code = LIMIT_REACHED if watched else runner.wait(_PATIENCE)  # on a terminal, it asks at the limit
        finally:
            runner.kill()
            os.close(terminal)
    if code != LIMIT_REACHED:
        raise RuntimeError(f"the marathon of {sessions[-1]} sessions ended with exit {code}")
    return looks


def _watch(window: int) -> None:
    """Read what is shown, until the terminal is closed."""
    fcntl.ioctl(window, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    with contextlib.suppress(OSError):
        while os.read(window, 65536):
            pass
    os.close(window)


def _standin(scratch: Scratch, name: str) -> Path:
    """A program of that name."""
    program = scratch.project / "bin" / name
    program.parent.mkdir(exist_ok=True)
    argv = [sys.executable, "-IS", str(AGENTS / "standin.py"), name]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    program.chmod(0o755)
    return program


def _look_in(runner: subprocess.Popen[bytes], held: Path, session: int) -> Look:
    deadline = time.monotonic() + _PATIENCE
    while not (held / f"holding-{session}").exists():
        if runner.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the marathon did not come to session {session}")
        time.sleep(0.02)
    us = psutil.Process(runner.pid)
    zombies = _zombies(us)
    time.sleep(_A_MOMENT)
    zombies &= _zombies(us)
    agent = psutil.Process(int((held / "agent").read_text()))
    theirs = {agent, *agent.children(recursive=True)}
    ours = [us, *(each for each in us.children(recursive=True) if each not in theirs)]
    work, memory = {}, 0.0
    for each in ours:
        times = each.cpu_times()
        work[each.pid] = times.user + times.system
        memory += each.memory_info().rss / 2**20
    look = Look(time.monotonic(), work, memory, us.num_fds(), len(zombies))
    (held / f"go-{session}").touch()
    return look


def _zombies(runner: psutil.Process) -> set[psutil.Process]:
    return {each for each in runner.children(recursive=True) if tree.status(each) == psutil.STATUS_ZOMBIE}
