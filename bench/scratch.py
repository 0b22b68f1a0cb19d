"""A throw-away project, and the ways to start pi-marathon in it. Nothing outside of it is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parent.parent
AGENTS = Path(__file__).resolve().parent / "agents"
MARATHON = (sys.executable, "-P", "-m", "marathon")
WAITS_FOR_HUMAN, LIMIT_REACHED = 3, 4


@dataclass(frozen=True)
class Scratch:
    project: Path
    full: bool = True  # otherwise just often enough to see that it works

    @property
    def held(self) -> Path:
        """Where agents note their times, and wait to be let go."""
        return self.project / "held"

    def count(self, full: int, quick: int) -> int:
        return full if self.full else quick

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "HOME": str(self.project / "home"),
            "PYTHONPATH": str(ROOT),
            "PI_MARATHON_STATES": str(self.project / "states"),
            "PI_MARATHON_SHAPE": "tool",  # no one is there to be asked
            **more,
        }

    def new_task(self, name: str, phase: str = "research") -> None:
        """An empty task of that name in place of the one that may be there, and nothing of its agents."""
        shutil.rmtree(self.project / "home", ignore_errors=True)  # with the copy of the journal that was there before
        for folder in (self.project / name, self.held):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        (self.project / name / "instructions.md").write_text("# Be measured\n")
        (self.project / name / "STATE.json").write_text(f'{{"state": "running", "phase": "{phase}"}}')

    def marathon(self, name: str, *args: str, held: str = "", seconds: int = 0) -> list[str]:
        """The command line of a marathon whose agent is agents/session.sh."""
        agent = ("bash", str(AGENTS / "session.sh"), str(self.held), held, str(seconds))
        return [*MARATHON, "--task", name, "--agent", "command", "--adopt", *args, "--", *agent]

    def spans(self) -> list[tuple[float, float]]:
        """When the agent's sessions began and ended."""
        lines = (self.held / "times").read_text().splitlines()
        return [(float(began), float(ended)) for began, ended in map(str.split, lines)]

    def run(self, argv: Sequence[str], code: int = 0) -> None:
        """A command to its end; another exit code than the one expected is an error."""
        with TemporaryFile() as output:  # not a pipe: whoever reads it would disturb what is measured
            done = subprocess.run(
                argv,
                cwd=self.project,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            if done.returncode != code:
                raise RuntimeError(
                    f"{' '.join(argv)}: exit {done.returncode}\n{output.read().decode(errors='replace')}"
                )
