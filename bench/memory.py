"""Whether a long marathon leaves anything behind in its runner: memory, open files, zombies."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.counts import Counts
from bench.row import Row, Target
from bench.scratch import LIMIT_REACHED, Scratch
from marathon.process.tree import is_alive

GROWTH = 10  # MiB
_PATIENCE = 600.0  # seconds until a look; far more than a healthy marathon needs
_A_MOMENT = 0.2  # between two looks: the agent's own `sleep` is a zombie too, until its shell has waited for it


@dataclass(frozen=True)
class Look:
    resident: float  # MiB
    files: int
    zombies: int


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    first, last = _looks(scratch, (counts.warm_up, counts.marathon))
    after = f"after session {counts.warm_up}"
    grown = last.resident - first.resident
    name = f"after {counts.marathon} sessions"
    return [
        Row(f"memory grown {name}", grown, "MiB", first.resident, after, Target("value", GROWTH)),
        Row(f"open files {name}", last.files, "", first.files, after, Target("value", first.files)),
        Row(f"zombies {name}", last.zombies, "", first.zombies, after, Target("value", 0)),
    ]


def _looks(scratch: Scratch, sessions: tuple[int, int]) -> tuple[Look, Look]:
    """A look in the middle of each of these sessions: their agent waits until the runner was looked at."""
    held = scratch.project / "held"
    held.mkdir()
    times, numbers = str(held / "times"), " ".join(map(str, sessions))
    argv = scratch.chunk_marathon("long", sessions[-1], "hold.sh", times, str(held), numbers)
    with subprocess.Popen(
        argv,
        cwd=scratch.project,
        env=scratch.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as runner:
        try:
            first, last = (_look_in(runner, held, number) for number in sessions)
            code = runner.wait(_PATIENCE)
        finally:
            runner.kill()
    if code != LIMIT_REACHED:
        raise RuntimeError(f"the long marathon ended with exit {code}")
    return first, last


def _look_in(runner: subprocess.Popen[bytes], held: Path, session: int) -> Look:
    deadline = time.monotonic() + _PATIENCE
    while not (held / f"holding-{session}").exists():
        if runner.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the long marathon did not come to session {session}")
        time.sleep(0.02)
    first = _zombies_below(runner.pid)
    time.sleep(_A_MOMENT)
    zombies = len(first & _zombies_below(runner.pid))
    look = Look(_resident(runner.pid), len(os.listdir(f"/proc/{runner.pid}/fd")), zombies)
    (held / f"go-{session}").touch()
    return look


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"pid {pid} has no VmRSS")


def _zombies_below(pid: int) -> set[psutil.Process]:
    return {process for process in psutil.Process(pid).children(recursive=True) if not is_alive(process)}
