"""A repository with several tasks and one agent for all of them, driven through the real command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.world import ROOT, World

AGENT = ROOT / "tests" / "support" / "side_agent.sh"


class Side:
    def __init__(self, world: World, *names: str) -> None:
        self.world, self.project, self.agent = world, world.project, world.agent
        self.state = world.home / ".local/state/pi-marathon"
        self.sh(
            "rm -r task; echo start > code.txt; printf '.env\\ndocs/\\n' > .gitignore; git init -q -b main; git add -A"
        )
        self.sh("git -c user.name=a -c user.email=b commit -qm start")
        for name in names:
            self.add(name)

    def add(self, name: str) -> Path:
        task = self.task(name)
        task.mkdir(parents=True)
        (task / "instructions.md").write_text(f"# {name}\n\nDo it.\n")
        return task

    def task(self, name: str) -> Path:
        return self.project / "docs" / "tasks" / name

    def sh(self, script: str) -> str:
        env = self.world.env(GIT_CONFIG_GLOBAL="/dev/null")
        done = subprocess.run(
            ["sh", "-ec", script], cwd=self.project, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def hold(self, *names: str) -> None:
        for name in names:
            (self.agent / f"hold-{name}").touch()

    def release(self, *names: str) -> None:
        for name in names:
            (self.agent / f"hold-{name}").unlink()

    def works(self, name: str) -> bool:
        return (self.agent / f"working-{name}").exists()

    def folder(self, name: str) -> Path:
        """Where the agent of a task worked."""
        return Path((self.agent / f"folder-{name}").read_text().strip())

    def agent_args(self) -> list[str]:
        return ["--agent", "command", "--", "sh", str(AGENT), str(self.agent)]

    def run(self, name: str, *args: str, expected: int = 0) -> str:
        """pi-marathon --task NAME."""
        return self.type("--task", name, *args, *self.agent_args(), expected=expected)

    def type(self, *args: str, expected: int = 0, **env: str) -> str:
        done = self.world.cli(*args, timeout=90, **env)
        assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.world.argv(*args, *self.agent_args()),
            cwd=self.project,
            env=self.world.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def status(self, name: str) -> dict[str, Any]:
        facts = json.loads(self.type("status", name, "--json"))
        assert isinstance(facts, dict)
        return facts

    def listed(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in json.loads(self.type("list", "--all", "--json"))}
