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
from marathon.core.comments import Comment, anchor, quote_of
from marathon.core.records import Commented, parse_record

SHOWN = b"Quit marathon"
_PATIENCE = 60.0


def starts(scratch: Scratch) -> list[Row]:
    scratch.new_task("reviewed")
    scratch.run(scratch.marathon("reviewed"), WAITS_FOR_HUMAN)
    bare = (sys.executable, "-c", "pass")
    commands = {"bare": bare, "--help": (*MARATHON, "--help"), "status": (*MARATHON, "status", "reviewed")}
    least = least_work(scratch, commands, scratch.count(31, 2))

    def row(name: str, at_most: float) -> Row:
        about = f"{1000 * least[name]:.0f} ms of processor time; bare Python {1000 * least['bare']:.0f} ms"
        return Row(name, least[name] / least["bare"], "x", at_most, about)

    return [row("--help", 6), row("status", 15)]


def least_work(scratch: Scratch, commands: Mapping[str, Sequence[str]], times: int) -> dict[str, float]:
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


def comments(scratch: Scratch) -> list[Row]:
    """Hundreds of comments on a long plan whose lines have moved."""
    text = "".join(f"Line {number % 7000} of a plan, with a few words more.\n\n" for number in range(24_000))
    made = []
    for number in range(1, 501):
        first, last, quote = quote_of(text, number * 90, number * 90 + number % 15)
        made.append(Comment(f"c{number}", "Why so?", "must", "plan.md", first, last, quote))
    line = Commented(comments=made).to_json().encode()
    moved, waits = f"{text[:500_000]}\nnew\n{text[500_000:]}", []
    for turn in range(scratch.count(5, 1)):
        began = time.perf_counter()
        now = f"{moved}{turn}"
        record = parse_record(line)
        assert isinstance(record, Commented)
        found = [anchor(each, now) for each in record.comments]
        waits.append(1000 * (time.perf_counter() - began))
    lost = found.count(None)
    about = f"500 comments on {len(moved) / 1e6:.1f} MB, of which {lost} were not found; median of {len(waits)}"
    return [Row("comments found again in a changed plan", median(waits), "ms", 500, about)]


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
