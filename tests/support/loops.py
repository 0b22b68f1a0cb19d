"""A project with a measured loop and an agent that carries out a shell script per iteration."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.world import ROOT, World

AGENT = ROOT / "tests" / "support" / "loop_agent.sh"
COMMIT = "git add -A; git -c user.name=a -c user.email=b commit -qm"
# The number is in the file `speed`. Each run of verify leaves something behind and counts itself outside of the tree.
BENCH = 'cat speed || exit 1\necho left > left-behind\necho run >> "$RUNS"\n'


class LoopWorld:
    """One loop, perf/r1, in the project of a world."""

    def __init__(self, world: World, *, new: bool = True) -> None:
        self.world = world
        self.project, self.agent = world.project, world.agent
        self.folder = self.project / ".multiloop" / "active" / "perf" / "r1"
        self.task = self.folder / "task"
        self.tree = self.project / ".multiloop" / "worktrees" / "perf" / "r1"
        self.env = {"RUNS": str(world.home / "runs"), "GIT_CONFIG_GLOBAL": "/dev/null"}
        if new:
            self._make()

    def _make(self) -> None:
        (self.project / "bench.sh").write_text(BENCH)
        (self.project / "speed").write_text("100\n")
        Path(self.env["RUNS"]).touch()
        self.sh(f"git init -q -b main; rm -r task; {COMMIT} first")

    def sh(self, script: str, folder: Path | None = None) -> str:
        env = {**self.world.env(**self.env), "LC_ALL": "C"}
        done = subprocess.run(
            ["sh", "-ec", script], cwd=folder or self.project, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    # The agent

    def steps(self, *scripts: str, then: str = "true") -> None:
        """What the agent does in each iteration, and in all later ones."""
        for number, script in enumerate(scripts, start=1):
            (self.agent / f"step-{number}").write_text(script)
        (self.agent / "step").write_text(then)

    def prompt(self, number: int) -> str:
        return (self.agent / f"prompt-perf-{number}").read_text()

    def sessions(self) -> int:
        path = self.agent / "sessions"
        return len(path.read_text().split()) if path.exists() else 0

    # The command line

    def run_args(self, *args: str, lane: str = "perf") -> list[str]:
        return ["loop", "run", lane, "--trust", "--agent", "command", *args, "--", "sh", str(AGENT), str(self.agent)]

    def type(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.world.cli(*args, timeout=60, **self.env)

    def start(self, *args: str, verify: str = "sh bench.sh", lane: str = "perf") -> None:
        options = ["--lane", lane, "--run", "r1", "--verify", verify, *args]
        ran = self.type("loop", "start", "Make it faster", *options)
        assert ran.returncode == 0, ran.stderr

    def run(self, *args: str, expected: int = 0) -> str:
        ran = self.type(*self.run_args(*args))
        assert ran.returncode == expected, (ran.returncode, ran.stdout, ran.stderr)
        return ran.stdout + ran.stderr

    def refused(self, *args: str) -> str:
        ran = self.type(*args)
        assert ran.returncode == 2, (ran.returncode, ran.stdout, ran.stderr)
        return ran.stderr

    # What is there afterwards

    def rows(self) -> list[dict[str, Any]]:
        """Every row of the runner's own record."""
        records = map(json.loads, (self.world.kept_of(self.task) / "journal.jsonl").read_text().splitlines())
        return [record["row"] for record in records if record["type"] == "row"]

    def results(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "results.jsonl").read_text().splitlines()]

    def actions(self) -> list[str]:
        """Without what a pause or an end adds."""
        return [row["action"] for row in self.rows() if row["action"] not in ("confirmed", "paused", "stopped")]

    def state(self) -> dict[str, Any]:
        state = json.loads((self.folder / "state.json").read_text())
        assert isinstance(state, dict)
        return state

    def speed(self) -> str:
        return (self.tree / "speed").read_text().strip()

    def runs(self) -> int:
        return len(Path(self.env["RUNS"]).read_text().splitlines())
