"""What it costs to watch a marathon, and to let one wait in the background."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from bench.row import Row
from bench.scratch import MARATHON, Scratch

_PATIENCE = 60.0
_STAMP = re.compile(rb"now (\d+\.\d+)")
_SPEAKING = 'while :; do echo "now $EPOCHREALTIME"; sleep 0.3; done'


def background(scratch: Scratch) -> list[Row]:
    return [*_watched(scratch), _waiting(scratch)]


def _watched(scratch: Scratch) -> list[Row]:
    scratch.new_task("watched")
    agent = ("bash", "-c", _SPEAKING)
    scratch.run([*MARATHON, "--task", "watched", "--agent", "command", "--adopt", "--detach", "--", *agent])
    try:
        with _attached(scratch) as (_, terminal):
            for _ in range(3):  # lines that were there before, or came while attach was loading
                _lag(terminal)
            lags = sorted(1000 * _lag(terminal) for _ in range(scratch.count(30, 2)))
        _lengthen(next((scratch.project / "watched" / ".marathon").rglob("events/*.jsonl")))
        firsts = [_first_screen(scratch) for _ in range(scratch.count(9, 1))]
    finally:
        scratch.run([*MARATHON, "stop", "--now", "watched"])
    return [
        _first_row(*(1000 * median(each) for each in zip(*firsts, strict=True))),
        Row("attach: from a line to the screen", median(lags), "ms", 200, f"the slowest {lags[-1]:.0f} ms"),
    ]


def _first_row(work: float, clock: float) -> Row:
    """Nothing is waited for, and on a busy machine the clock tells of the others."""
    about = f"of processor time; {clock:.0f} ms by the clock"
    return Row("attach: first screen, log of 100 MB", work, "ms", 300, about)


def _waiting(scratch: Scratch) -> Row:
    scratch.new_task("reviewed")
    scratch.run(scratch.marathon("reviewed", "--detach"))
    own = scratch.project / "reviewed" / ".marathon"
    try:
        deadline = time.monotonic() + _PATIENCE
        while b"gate_opened" not in (own / "journal.jsonl").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.05)
        runner = psutil.Process(json.loads((own / "lock").read_text())["pid"])
        seconds, before = scratch.count(30, 2), sum(runner.cpu_times()[:2])
        time.sleep(seconds)
        share = 100 * (sum(runner.cpu_times()[:2]) - before) / seconds
    finally:
        scratch.run([*MARATHON, "stop", "--now", "reviewed"])
    return Row("a background runner at a gate", share, "%", 0.5, f"of one core, over {seconds} seconds")


@contextmanager
def _attached(scratch: Scratch) -> Iterator[tuple[psutil.Process, int]]:
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(scratch.project)
            os.execve(MARATHON[0], [*MARATHON, "attach"], scratch.environment())
        finally:
            os._exit(127)
    try:
        yield psutil.Process(pid), terminal
    finally:
        os.close(terminal)  # which ends attach, and nothing else
        os.waitpid(pid, 0)


def _lag(terminal: int) -> float:
    """Seconds from the moment an agent wrote a line until the line is on the screen."""
    written = float(_seen(terminal, _STAMP))
    return time.time() - written


def _first_screen(scratch: Scratch) -> tuple[float, float]:
    """Seconds of processor time, and by the clock."""
    began = time.monotonic()
    with _attached(scratch) as (attached, terminal):
        _seen(terminal, re.compile(rb"(the end of a long log)"))
        return sum(attached.cpu_times()[:2]), time.monotonic() - began


def _seen(terminal: int, wanted: re.Pattern[bytes]) -> bytes:
    """The last match in what is read at once, so that what was there before does not count."""
    seen = b""
    while not (found := wanted.findall(seen)):
        data = os.read(terminal, 65536) if select.select([terminal], [], [], _PATIENCE)[0] else b""
        if not data:
            raise RuntimeError(f"attach does not show it: {seen!r}")
        seen += data
    return bytes(found[-1])


def _lengthen(log: Path) -> None:
    def line(text: str) -> bytes:
        event = {"v": 1, "at": time.time(), "type": "output", "stream": "out", "text": text, "complete": True}
        return json.dumps(event).encode() + b"\n"

    filling = line("x" * 150)
    with log.open("ab") as file:
        file.write(filling * (100_000_000 // len(filling)) + line("the end of a long log"))
