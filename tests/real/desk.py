"""A runner's side of the table for the extension's tests: a project, a state file, a model, and the real pi."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marathon.core.events import Logged
from marathon.store.events import follow
from tests.process.driver import PATIENCE, Pty
from tests.real.install import PiInstall
from tests.real.model_server import ModelServer, Script
from tests.real.pi_home import PiHome

PROMPT = "# Marathon: phase research (run 2, iteration 3)\n\nDo it.\n"


class Terminal(Pty):
    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait while its output is read, so that it never blocks on us."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}; {self.seen[-3000:]!r}"
            assert self.poll() is None, f"pi ended before: {what}; {self.seen[-3000:]!r}"
            self._read(0.02)

    def command(self, typed: str, then: Callable[[], Any]) -> None:
        """Type a line and press Enter; again and again, because pi keeps the line while it is still starting."""
        self.send(typed.encode())
        deadline = time.monotonic() + PATIENCE
        while not then():
            assert time.monotonic() < deadline, f"no effect of {typed!r}: {self.seen[-3000:]!r}"
            if self.poll() is None:
                self.send(b"\r")
                self._read(0.3)


class Rpc:
    """pi --mode rpc: one JSON object a line, both ways."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        # Ends a pi that says nothing more, and with it the reading below.
        self._deadline = threading.Timer(PATIENCE, self.process.kill)
        self._deadline.start()

    def ask(self, **command: Any) -> dict[str, Any]:
        self.send(**command)
        return self.next("response")

    def send(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def next(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            assert isinstance(event, dict)
            if event["type"] == kind:
                return event
        raise AssertionError(f"pi ended before {kind}: {self.process.communicate()[1]}")

    def notice(self) -> str:
        """The next one that an extension shows."""
        while (shown := self.next("extension_ui_request"))["method"] != "notify":
            pass
        return str(shown["message"])

    def close(self) -> int:
        self.process.communicate()
        self._deadline.cancel()
        return self.process.returncode


class Desk:
    """A project with a task, a runner's state file, a model and a pi at home."""

    def __init__(self, folder: Path, install: PiInstall, script: Script, **settings: Any) -> None:
        self.project = folder / "project"
        self.task = self.project / "docs" / "tasks" / "my-task"
        self.task.mkdir(parents=True)
        (self.task / "instructions.md").write_text("# Do it\n")
        self.prompt = folder / "prompt.md"
        self.prompt.write_text(PROMPT)
        self.events = folder / "events.jsonl"
        self.model = ModelServer(script)
        self.model.__enter__()
        self.home = PiHome(folder, install, self.model.url, **settings)
        self.state_file = self.home.states / "runner-1.json"
        self.write_state()
        self.opened: list[Terminal | Rpc] = []

    def write_state(self, **changes: Any) -> None:
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fields = {
            "runnerId": "runner-1",
            "taskDir": str(self.task),
            "pid": os.getpid(),
            "startedAt": started,
            "phase": "research",
            "iteration": 3,
            "run": 2,
            "costBefore": 0.5,
            "eventsFile": str(self.events),
            "waitSeconds": None,
            "feedbackQuestion": None,
            "sessionEnded": False,
            "unknown": {"kept": True},
        }
        self.state_file.write_text(json.dumps({**fields, **changes}))

    def state(self) -> dict[str, Any]:
        value = json.loads(self.state_file.read_text())
        assert isinstance(value, dict)
        return value

    def env(self, runner: str = "runner-1") -> dict[str, str]:
        return self.home.env(**({"MARATHON_RUNNER_ID": runner} if runner else {}))

    def terminal(self, *args: str) -> Terminal:
        script = 'cd "$1" && shift && exec "$@"'
        argv = ["sh", "-c", script, "sh", str(self.project), *self.home.argv(*args)]
        terminal = Terminal(argv, self.env())
        terminal.resize(50, 140)
        self.opened.append(terminal)
        return terminal

    def session(self) -> Terminal:
        """pi as the runner starts it: it begins to work on the prompt at once."""
        return self.terminal(f"@{self.prompt}")

    def rpc(self, runner: str = "runner-1") -> Rpc:
        rpc = Rpc(self.home.argv("--mode", "rpc"), self.project, self.env(runner))
        self.opened.append(rpc)
        return rpc

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.home.argv(*args),
            cwd=self.project,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def events_logged(self) -> list[Logged]:
        """Every line of the log, each of which must be an event."""
        events = list(follow(self.events))
        assert len(events) == len(self.events.read_text().splitlines())
        return events

    def requests(self) -> int:
        return len(self.model.requests)

    def close(self) -> None:
        for opened in self.opened:
            opened.close()
        self.model.__exit__()
