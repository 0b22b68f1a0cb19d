"""A project with one task and a scripted agent, driven through the real command line, with and without a terminal."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marathon.runner.code_socket import handed_over
from marathon.store.gate_code import GateCodes
from tests.process.driver import Pty

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / "tests" / "support" / "scripted_agent.py"

Entry = dict[str, Any]
_made: dict[str, str] = {}  # codes by the tokens of their gates


def research(phase: str = "research", state: str = "paused", **more: Any) -> Entry:
    """A session that completes research."""
    return {
        "write": {"research.md": "findings {n}\n"},
        "state": {"state": state, "phase": phase, "note": "found"},
        **more,
    }


def plan(phase: str = "plan", state: str = "paused", **more: Any) -> Entry:
    return {
        "write": {"plan.md": "- [ ] 1. step ({n})\n"},
        "state": {"state": state, "phase": phase, "note": "planned"},
        **more,
    }


def chunk(**more: Any) -> Entry:
    return {"append": {"work.md": "chunk {n}\n"}, "state": {"state": "running", "phase": "implement"}, **more}


def finish(**more: Any) -> Entry:
    return {"write": {"result.md": "result {n}\n"}, "state": {"state": "completed", "phase": "done"}, **more}


def code_of(task: Path, home: Path) -> str:
    """The code of the gate that is open: from its living runner, else a new one, as whoever owns the files can make it.

    The code that was printed counts no more then. The tests of what is printed do not use this.
    """
    journal = task / ".marathon" / "journal.jsonl"
    tokens = re.findall(rb'"gate_opened".*"token": "(\w+)"', journal.read_bytes()) if journal.is_file() else []
    if not tokens:
        return ""
    token, state = tokens[-1].decode(), home / ".local/state/pi-marathon"
    if living := handed_over(state / "tasks" / _key(task), token):
        return living
    if not GateCodes(state / "codes").fits(token, _made.get(token, "")):
        _made[token] = GateCodes(state / "codes").printed(token)
    return _made[token]


def _key(task: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(task))).hexdigest()[:32]


def as_human(args: Sequence[str], cwd: Path, home: Path) -> list[str]:
    """An answer to a gate with the gate's code; any other command as it is."""
    if args[:1] and args[0] in ("approve", "redo", "answer", "accept") and "--code" not in args:
        task = _task_meant(args[1:], cwd)
        if task and (code := code_of(task, home)):
            return [args[0], "--code", code, *args[1:]]
    return list(args)


def _task_meant(args: Sequence[str], cwd: Path) -> Path | None:
    """By its path, by a part of its name, or the only one that is not answered."""
    args = [arg for arg in args if len(arg) < 200]
    by_path = [cwd / arg for arg in args if (cwd / arg / ".marathon").is_dir()]
    project = next((folder for folder in (cwd, *cwd.parents) if (folder / "docs/tasks").is_dir()), cwd)
    known = [task for task in (project / "task", *project.glob("docs/tasks/*")) if (task / ".marathon").is_dir()]
    by_name = [task for task in known if any(arg in task.name for arg in args)]
    waiting = [task for task in known if not list((task / ".marathon/inbox").glob("*.json"))]
    return next((found[0] for found in (by_path, by_name, waiting) if len(found) == 1), None)


class World:
    """Everything lies below one folder; nothing outside of it is touched."""

    adopts = False  # the human says that what another tool left may be taken over

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.agent = folder / "agent"
        self.home = folder / "home"
        self.states = folder / "states"
        for made in (self.project, self.agent, self.home):
            made.mkdir(parents=True)
        self.task = self.project / "task"
        self.task.mkdir()
        (self.task / "instructions.md").write_text("# Do it\n\nAll of it.\n")

    # The agent

    def script(self, *entries: Entry) -> None:
        (self.agent / "script.json").write_text(json.dumps(entries))

    def sessions(self) -> int:
        return len([path for path in self.agent.glob("prompt-*") if path.suffix != ".tmp"])

    def prompt(self, number: int) -> str:
        return (self.agent / f"prompt-{number}").read_text()

    def holding(self, number: int) -> bool:
        return (self.agent / f"holding-{number}").exists()

    def release(self, number: int) -> None:
        (self.agent / f"go-{number}").touch()

    # The task's files

    def state(self) -> dict[str, Any]:
        value = json.loads((self.task / "STATE.json").read_text())
        assert isinstance(value, dict)
        return value

    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.kept / "journal.jsonl").read_text().splitlines()]

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.journal() if record["type"] == kind]

    def read(self, name: str) -> str:
        return (self.task / name).read_text()

    def leave_state(self, state: str, phase: str, iteration: int, **more: Any) -> None:
        """STATE.json as another tool or a hand would leave it."""
        self.adopts = True
        body = {"state": state, "phase": phase, "iteration": iteration, "updatedAt": "2026-02-02T14:30:00Z", **more}
        (self.task / "STATE.json").write_text(json.dumps(body))

    @property
    def kept(self) -> Path:
        """The task's home, where the runner keeps what it reads back."""
        return self.kept_of(self.task)

    def kept_of(self, task: Path) -> Path:
        return self.home / ".local/state/pi-marathon/tasks" / _key(task)

    def rewrite_journal(self, records: Sequence[Mapping[str, Any]]) -> None:
        """The journal, as if a runner had written it so."""
        (self.kept / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    # The command line

    def env(self, **more: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "MARATHON_PORTABLE")
        }
        return {
            "LANG": "C.UTF-8",
            **kept,
            # Commands are printed as they work here, and most tests expect them short.
            "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent))),
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "PYTHONPATH": str(ROOT),
            "PI_MARATHON_STATES": str(self.states),
            "PI_MARATHON_SHAPE": "tool",  # their instructions say little on purpose
            "TERM": "xterm",
            "FORCE_HYPERLINK": "0",  # so that paths on the screen can be compared
            **more,
        }

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-P", "-m", "marathon", *args]

    def task_args(self, *args: str) -> list[str]:
        """--task with the scripted agent behind it."""
        args = (*args, "--adopt") if self.adopts else args
        return [
            "--task",
            self.task.name,
            "--agent",
            "command",
            *args,
            "--",
            sys.executable,
            "-IS",
            str(AGENT),
            str(self.agent),
        ]

    def code(self) -> str:
        return code_of(self.task, self.home)

    def cli(self, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """Any command, without a terminal."""
        return subprocess.run(
            self.argv(*as_human(args, self.project, self.home)),
            cwd=self.project,
            env=self.env(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run(self, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """The marathon, without a terminal."""
        return self.cli(*self.task_args(*args), timeout=timeout, **env)

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """The marathon in the background, without a terminal; whoever starts it ends it."""
        return subprocess.Popen(
            self.argv(*self.task_args(*args)),
            cwd=self.project,
            env=self.env(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def terminal(self, *args: str, **env: str) -> Pty:
        """The marathon on a terminal of its own."""
        return self.typed(*self.task_args(*args), **env)

    def typed(self, *args: str, **env: str) -> Pty:
        """Any command on a terminal of its own."""
        script = 'cd "$1" && shift && exec "$@"'
        return Pty(["sh", "-c", script, "sh", str(self.project), *self.argv(*args)], self.env(**env))
