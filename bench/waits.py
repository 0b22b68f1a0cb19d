"""What a human waits for: --help and status, in bare Python starts, and the gate once the agent has ended."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Mapping, Sequence
from math import inf
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from bench.row import Row
from bench.scratch import MARATHON, WAITS_FOR_HUMAN, Scratch

SHOWN = b"Quit marathon"
_PATIENCE = 60.0


def starts(scratch: Scratch) -> list[Row]:
    scratch.new_task("reviewed")
    scratch.run(scratch.marathon("reviewed"), WAITS_FOR_HUMAN)
    bare = (sys.executable, "-c", "pass")
    commands = {"bare": bare, "--help": (*MARATHON, "--help"), "status": (*MARATHON, "status", "reviewed")}
    least = _least_work(scratch, commands, scratch.count(31, 2))

    def row(name: str, at_most: float) -> Row:
        about = f"{1000 * least[name]:.0f} ms of processor time; bare Python {1000 * least['bare']:.0f} ms"
        return Row(name, least[name] / least["bare"], "x", at_most, about)

    return [row("--help", 6), row("status", 15)]


def _least_work(scratch: Scratch, commands: Mapping[str, Sequence[str]], times: int) -> dict[str, float]:
    """The least processor time of each command, in seconds; they take turns, so that other work meets all alike.

    None of them waits for anything, and on a busy machine the clock tells of the others.
    """
    least = dict.fromkeys(commands, inf)
    for _ in range(times):
        for name, argv in commands.items():
            before = _work_of_children()
            scratch.run(argv)
            least[name] = min(least[name], _work_of_children() - before)
    return least


def _work_of_children() -> float:
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def gate(scratch: Scratch) -> list[Row]:
    waits = sorted(1000 * _wait_for_gate(scratch) for _ in range(scratch.count(15, 2)))
    about = f"median of {len(waits)} reviews, each with its own runner; the slowest {waits[-1]:.0f} ms"
    return [Row("a gate on screen after the agent's end", median(waits), "ms", 300, about)]


def _wait_for_gate(scratch: Scratch) -> float:
    scratch.new_task("reviewed")
    argv = scratch.marathon("reviewed", "--mode", "stream")
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(scratch.project)
            os.execve(argv[0], argv, scratch.environment())
        finally:
            os._exit(127)
    try:
        shown = _when_seen(terminal)
        os.write(terminal, b"q")
        os.waitpid(pid, 0)
    finally:
        os.close(terminal)  # also ends a runner that still waits
    return shown - scratch.spans()[-1][1]


def _when_seen(terminal: int) -> float:
    seen = b""
    while SHOWN not in seen:
        data = os.read(terminal, 65536) if select.select([terminal], [], [], _PATIENCE)[0] else b""
        if not data:
            raise RuntimeError(f"no gate on the terminal: {seen!r}")
        seen += data
    return time.time()
