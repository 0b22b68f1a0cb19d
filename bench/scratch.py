"""A throw-away project on disk, and the ways to start pi-marathon in it. Nothing outside of it is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parent.parent
AGENTS = Path(__file__).resolve().parent / "agents"
LIMIT_REACHED = 4

BARE = (sys.executable, "-c", "pass")
DIRECT = (sys.executable, "-P", "-m", "marathon")
LAUNCHER = (str(ROOT / "bin" / "pi-marathon"),)


@dataclass(frozen=True)
class Scratch:
    project: Path
    notes: list[str] = field(default_factory=list)  # what could not be measured, and why

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.project / "home"),
            "PYTHONPATH": str(ROOT),
            "PI_MARATHON_SHAPE": "tool",  # the tasks here say little, and nobody is there to be asked
            **more,
        }

    def run(self, argv: Sequence[str], code: int = 0, **more: str) -> None:
        """A command to its end; another exit code than the one expected is an error."""
        with TemporaryFile() as output:  # not a pipe: whoever reads it would disturb what is measured
            done = subprocess.run(
                argv,
                cwd=self.project,
                env=self.environment(**more),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if done.returncode != code:
                output.seek(0)
                said = output.read().decode(errors="replace")
                raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}\n{said}")

    def new_task(self, name: str, state: str | None = None) -> Path:
        task = self.project / name
        task.mkdir(parents=True)
        (task / "instructions.md").write_text("# Be measured\n")
        if state:
            (task / "STATE.json").write_text(state)
        return task

    def finished_task(self, name: str) -> Path:
        """Research, plan, three chunks and a result, by the real runner."""
        task = self.new_task(name)
        self.run([*DIRECT, *marathon_args(name, 0), "--auto-approve", "--", "bash", str(AGENTS / "whole.sh")])
        return task

    def chunk_marathon(self, name: str, sessions: int, script: str, *args: str) -> list[str]:
        """The command line of a marathon of that many sessions of implement; it ends with LIMIT_REACHED."""
        self.new_task(name, '{"state": "running", "phase": "implement"}')
        return [*DIRECT, *marathon_args(name, sessions), "--", "bash", str(AGENTS / script), *args]


def marathon_args(task: str, sessions: int) -> list[str]:
    return ["--task", task, "--agent", "command", "--max-iterations", str(sessions)]


def seconds_of(scratch: Scratch, argv: Sequence[str]) -> float:
    began = time.perf_counter()
    scratch.run(argv)
    return time.perf_counter() - began


def least_work(scratch: Scratch, commands: Mapping[str, Sequence[str]], times: int) -> dict[str, float]:
    """The least processor time, in seconds, of each command. They take turns, so that other work meets all alike.

    Not the time on the clock: none of them waits for anything, and on a busy machine the clock tells of the others.
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
