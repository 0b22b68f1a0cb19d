"""Finds the program of an agent on this machine, and asks it for its version and its login."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

from marathon.errors import AgentUnavailable

_PATIENCE = 30  # seconds


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


@dataclass(frozen=True)
class Program:
    name: str
    install: str  # the command that installs it
    login: tuple[str, ...]  # the arguments that tell whether the human is logged in, by the exit code
    log_in: str  # what to type where the human is not
    oldest: str = ""  # the oldest version that was measured here
    logged_in: str = ""  # what the answer says then, where its exit code is always 0

    def find(self) -> str:
        """The path of the program. Raises AgentUnavailable with advice if it is not there."""
        path = shutil.which(self.name)
        if path is None:
            raise AgentUnavailable(f"{self.name} was not found. Install it: {self.install}")
        return path

    def version(self) -> str:
        self.find()
        done = self._ask("--version")
        found = re.search(r"\d+\.\d+\.\d+", done.stdout) if done else None
        if done is None or done.returncode or not found:
            raise AgentUnavailable(f"{self.name} does not run. Try it by hand: {self.name} --version")
        return found[0]

    def doubt(self, version: str) -> str:
        """What to say of a version that no one has measured, because it is older."""
        if _numbers(version) >= _numbers(self.oldest):
            return ""
        return f"{self.name} {version} is older than {self.oldest}, the oldest that was tried. Renew it: {self.install}"

    def is_logged_in(self) -> bool:
        done = self._ask(*self.login)
        return done is not None and done.returncode == 0 and bool(re.search(self.logged_in, done.stdout + done.stderr))

    def _ask(self, *args: str) -> subprocess.CompletedProcess[str] | None:
        """What it answers. None if it does not start or does not end in time."""
        try:
            return subprocess.run(
                (self.name, *args),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None


class ProgramAgent:
    """What agents share that are a program of the human's, started anew for each session."""

    program: Program
    tells_cost = False
    tells_tokens = False
    has_tools = False
    can_be_steered = True

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        self.args = args
        self.told_of_billing = False
        self.doubt = ""  # about its version

    @property
    def name(self) -> str:
        return self.program.name

    def check(self) -> None:
        self.doubt = self.program.doubt(self.program.version())

    def close(self) -> None:
        pass
