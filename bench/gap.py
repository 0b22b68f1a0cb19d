"""What lies between the end of one session and the start of the next, seen from inside the agent."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.counts import Counts
from bench.row import Row, Target
from bench.scratch import AGENTS, BARE, LIMIT_REACHED, Scratch, seconds_of

DURABLE_WRITES = 6


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    """Medians of all blocks together. All take turns in small blocks, so that other work meets all alike."""
    runner: list[float] = []
    loop: list[float] = []
    writes: list[float] = []
    starts: list[float] = []
    for block in range(counts.blocks):
        runner += _runner_gaps(_fresh(scratch, f"gap-{block}"), counts.sessions)
        writes += [_durable_write(scratch.project / "durable", 200) for _ in range(counts.writes)]
        loop += _loop_gaps(_fresh(scratch, f"loop-{block}"), counts.sessions)
        starts += [seconds_of(scratch, BARE), seconds_of(scratch, BARE)]
    gap, bare, write, start = (1000 * median(seconds) for seconds in (runner, loop, writes, starts))
    own = gap - bare
    return [
        Row("between two sessions", gap, "ms", bare, "the same in a bash loop"),
        Row("of that the runner's own", own, "ms", write, "a durable write", Target("ratio", DURABLE_WRITES)),
        Row("the same, otherwise compared", own, "ms", start, "python -c pass"),
    ]


def _fresh(scratch: Scratch, name: str) -> Scratch:
    """A project of its own for each block: the runner looks through all of it for what a session changed."""
    project = scratch.project / name
    project.mkdir()
    return Scratch(project)


def _runner_gaps(scratch: Scratch, sessions: int) -> list[float]:
    times = scratch.project / "times"
    scratch.run(scratch.chunk_marathon("task", sessions, "chunk.sh", str(times)), LIMIT_REACHED)
    return _gaps(times, sessions)


def _loop_gaps(scratch: Scratch, sessions: int) -> list[float]:
    times = scratch.project / "times"
    task = scratch.new_task("task")
    loop = 'for ((n = 0; n < $1; n++)); do bash "$2" "$3"; done'
    argv = ["bash", "-c", loop, "loop", str(sessions), str(AGENTS / "chunk.sh"), str(times)]
    scratch.run(argv, MARATHON_TASK_DIR=str(task))
    return _gaps(times, sessions)


def _gaps(times: Path, sessions: int) -> list[float]:
    spans = [tuple(map(float, line.split())) for line in times.read_text().splitlines()]
    if len(spans) != sessions:
        raise RuntimeError(f"{times.name}: {len(spans)} sessions instead of {sessions}")
    return [after[0] - before[1] for before, after in pairwise(spans)]


def _durable_write(path: Path, size: int) -> float:
    """What replacing a file costs if it is to survive a power cut, without anything around it."""
    began = time.perf_counter()
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, b"x" * size)
    os.fsync(fd)
    os.close(fd)
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
    return time.perf_counter() - began
