"""Many MB of pi's events through the stream agent: how fast they are read, and what the runner holds of them."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

from bench.counts import Counts
from bench.pi_standin import events
from bench.row import Row, Target
from bench.scratch import DIRECT, LIMIT_REACHED, Scratch

HELD = 60  # MiB
STANDIN = Path(__file__).resolve().parent / "pi_standin.py"
PARSED = "import json, sys\nfor line in sys.stdin.buffer: json.loads(line)"
_PATIENCE = 600.0
NOTE = (
    "pi's events: a program that stands in for pi's RPC side (bench/pi_standin.py, since our reading is the subject)"
    " prints them, the last one a record of 4 MB; the whole runner reads, shows (into /dev/null) and logs them."
    " Memory is the peak (VmHWM) at the end less the one before the first of them. Bare Python only parses each line."
)


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    seconds, idle, peak = _flood(scratch, counts.flood)
    parsed = _parsed(counts.flood)
    scratch.notes.append(NOTE)
    about = f"{counts.flood} MB of pi's events"
    return [
        Row(f"{about}: read", counts.flood / seconds, "MB/s", counts.flood / parsed, "json.loads in bare Python"),
        Row(f"{about}: held", peak - idle, "MiB", idle, "before them", Target("value", HELD)),
    ]


def _flood(scratch: Scratch, megabytes: int) -> tuple[float, float, float]:
    """Seconds, and the runner's peak memory before and after."""
    folder = scratch.project / "flood"
    folder.mkdir()
    scratch.new_task("flooded")
    program = folder / "pi"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(STANDIN))} "$@"\n')
    program.chmod(0o755)
    argv = [*DIRECT, "--task", "flooded", "--agent", "pi", "--mode", "stream", "--max-iterations", "1"]
    env = {"MARATHON_PI": str(program), "PI_STANDIN": f"{folder}:{megabytes}", "PI_MARATHON_STATES": str(folder)}
    with subprocess.Popen(
        argv,
        cwd=scratch.project,
        env=scratch.environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as runner:
        try:
            idle, peak = (_peak_while_held(runner, folder, number) for number in (1, 2))
            code = runner.wait(_PATIENCE)
        finally:
            runner.kill()
    if code != LIMIT_REACHED:
        raise RuntimeError(f"the flooded marathon ended with exit {code}")
    return float((folder / "seconds").read_text()), idle, peak


def _peak_while_held(runner: subprocess.Popen[bytes], folder: Path, number: int) -> float:
    deadline = time.monotonic() + _PATIENCE
    while not (folder / f"holding-{number}").exists():
        if runner.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the flooded marathon did not come to stop {number}")
        time.sleep(0.02)
    peak = _peak(runner.pid)
    (folder / f"go-{number}").touch()
    return peak


def _peak(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"pid {pid} has no VmHWM")


def _parsed(megabytes: int) -> float:
    """Seconds that a Python which does nothing but parse each line takes for the same events."""
    with subprocess.Popen([sys.executable, "-c", PARSED], stdin=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        began = time.monotonic()
        for piece in events(megabytes):
            reader.stdin.write(piece)
        reader.stdin.close()
        reader.wait(_PATIENCE)
        return time.monotonic() - began
