"""What one session is given (the environment, the prompt on stdin) and how it speaks."""

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.files import read_state, read_text

SLOWEST_PACE = 30.0


class Trouble(Exception):
    """Why the session cannot go on, in one sentence for the human."""


class Session(NamedTuple):
    project: Path
    task: Path
    phase: str
    iteration: int
    run: int
    prompt: str
    pace: float

    def say(self, line: str) -> None:
        """Print one thing that was done; the pace lets a human watch it happen."""
        print(line, flush=True)
        if self.pace:
            time.sleep(self.pace)

    def artifact(self, name: str) -> Path:
        return self.task / name

    def instructions(self) -> str:
        return read_text(self.artifact("instructions.md")) or ""

    def title(self) -> str:
        """The task's name: the first heading of its instructions, else its directory's name."""
        for line in self.instructions().splitlines():
            if line.startswith("# ") and line[2:].strip():
                return line[2:].strip()
        return self.task.name


def from_environment() -> Session:
    """Read the session out of MARATHON_* and stdin; a task without instructions is no task."""
    where = os.environ.get("MARATHON_TASK_DIR", "")
    if not where:
        raise Trouble("MARATHON_TASK_DIR is not set: this agent is started by the runner, not by hand.")
    task = Path(where).resolve()
    if not read_text(task / "instructions.md"):
        raise Trouble(f"instructions.md is missing or empty in {task}: write there what is to be done.")
    state = read_state(task)
    return Session(
        project=Path.cwd(),
        task=task,
        phase=os.environ.get("MARATHON_PHASE") or str(state.get("phase") or "research"),
        iteration=_number(os.environ.get("MARATHON_ITERATION"), _number(state.get("iteration"), 1)),
        run=_number(os.environ.get("MARATHON_RUN"), 1),
        prompt=_prompt(),
        pace=_pace(os.environ.get("MARATHON_REHEARSAL_PACE", "")),
    )


def _prompt() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _number(value: object, otherwise: int) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        return 0.0
    return min(pace, SLOWEST_PACE) if pace > 0 else 0.0
