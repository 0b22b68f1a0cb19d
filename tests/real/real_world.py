"""The whole program with the real pi and the scripted model."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from marathon.process import tree
from tests.process.driver import Pty
from tests.real.install import PiInstall
from tests.real.model_server import ModelServer, Script, coding_agent
from tests.real.pi_home import PiHome
from tests.support.world import ROOT, World

SAME_AGENT = ("--agent", "pi")


class RealWorld(World):
    """A World whose agent is pi; its model is `server`, whose script may be changed at any time."""

    def __init__(self, folder: Path, install: PiInstall) -> None:
        super().__init__(folder)
        self.server = ModelServer(coding_agent(self.task))
        self.server.__enter__()
        self.pi = PiHome(folder / "pi", install, self.server.url)
        self.states, self.home = self.pi.states, self.pi.home
        self.program = folder / "pi-program"
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join(install.command)} "$@"\n')
        self.program.chmod(0o755)
        for words in (["init", "-q"], ["config", "user.name", "pi"], ["config", "user.email", "pi@localhost"]):
            subprocess.run(["git", *words], cwd=self.project, check=True)

    def close(self) -> None:
        self.server.__exit__(None, None, None)

    def plays(self, script: Script) -> None:
        self.server.script = script

    def env(self, **more: str) -> dict[str, str]:
        env = self.pi.env(PYTHONPATH=str(ROOT), MARATHON_PI=str(self.program), PI_MARATHON_SHAPE="tool")
        return {**env, "PATH": f"{env['PATH']}:{Path(sys.executable).parent}", **more}

    def task_args(self, *args: str) -> list[str]:
        return ["--task", "task", *args]

    def extension(self, name: str, source: str) -> Path:
        """An extension of the user's own."""
        path = self.pi.agent_folder / "extensions" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return path

    def prompts(self) -> list[str]:
        """The first message of each conversation, in order."""
        return list(dict.fromkeys(request.first_user_text for request in self.server.requests if request.heading))

    def tui(self, *args: str) -> Pty:
        terminal = self.terminal("--mode", "tui", *args)
        terminal.resize(40, 120)
        return terminal

    def stream(self, *args: str) -> Pty:
        terminal = self.terminal("--mode", "stream", *args)
        terminal.resize(40, 120)
        return terminal


def pis(real: RealWorld) -> list[int]:
    """The pids of the pi that the runner drives now."""
    lock = real.task / ".marathon" / "lock"
    if not lock.exists() or not lock.read_text():
        return []
    holder = json.loads(lock.read_text())
    found = tree.find_by_environ("MARATHON_RUNNER_ID", holder["runner"])
    commands = {process.pid: tree.command_of(process) for process in found}
    return [pid for pid, command in commands.items() if "marathon" not in command and "sh" not in command]


def quiet(terminal: Pty, seconds: float = 0.3) -> None:
    """Wait until the program has written nothing for so long."""
    seen = -1
    while seen != len(terminal.seen):
        seen = len(terminal.seen)
        terminal._read(seconds)
