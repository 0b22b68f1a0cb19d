"""What one session is given (the environment, the prompt on stdin) and how it speaks."""

import os
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Trouble(Exception):
    """Why the session cannot go on, in one sentence for the human."""


class Session(NamedTuple):
    project: Path
    task: Path
    phase: str
    iteration: int
    prompt: str
    pace: float

    def say(self, line: str) -> None:
        """Print one thing that was done; the pace lets a human watch it happen."""
        print(line, flush=True)
        time.sleep(self.pace)

    def read(self, name: str) -> str:
        """An artifact of the task, or nothing."""
        path = self.task / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def title(self) -> str:
        """The task's name: the first heading of its instructions, else its directory's name."""
        heading = re.search(r"^# +(.+)$", self.read("instructions.md"), re.MULTILINE)
        return heading[1].strip() if heading else self.task.name

    def output(self) -> Path | None:
        """The file the prompt names behind `Write:`, if it lies in the task."""
        named = re.search(r"^Write: (.+)$", self.prompt, re.MULTILINE)
        return self.task / Path(named[1].strip()).name if named else None


def from_environment() -> Session:
    """Read the session out of MARATHON_* and stdin; a task without instructions is no task."""
    where = os.environ.get("MARATHON_TASK_DIR", "")
    if not where:
        raise Trouble("MARATHON_TASK_DIR is not set: this agent is started by the runner, not by hand.")
    prompt = "" if sys.stdin.isatty() else sys.stdin.buffer.read().decode("utf-8", "replace")
    iteration = os.environ.get("MARATHON_ITERATION", "1")
    session = Session(
        project=Path.cwd(),
        task=Path(where).resolve(),
        phase=os.environ.get("MARATHON_PHASE", "research"),
        iteration=int(iteration) if iteration.isdecimal() else 1,
        prompt=prompt,
        pace=_pace(os.environ.get("MARATHON_REHEARSAL_PACE", "")),
    )
    if not session.read("instructions.md").strip():
        raise Trouble(f"instructions.md is missing or empty in {session.task}: write there what is to be done.")
    return session


def _pace(text: str) -> float:
    return min(float(text), 30.0) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0
