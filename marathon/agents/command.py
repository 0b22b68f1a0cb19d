"""Any program as the agent: prompt on standard input, or in MARATHON_PROMPT_FILE when it has the terminal."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass, replace

from marathon.agents.base import Host, Mode, Outcome, plain_outcome, run_program
from marathon.errors import AgentUnavailable, WrongUsage

_CLOSED_BY_HUMAN = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


@dataclass(frozen=True)
class CommandAgent:
    argv: tuple[str, ...]
    mode: Mode = "stream"
    name: str = "command"
    tells_usage: bool = False

    def check(self) -> None:
        if not self.argv:
            raise WrongUsage("The command agent needs a program: pi-marathon --task DIR --agent command -- PROGRAM")
        if shutil.which(self.argv[0]) is None:
            raise AgentUnavailable(f"{self.argv[0]!r} was not found or is not executable. Check the name after --.")

    def run(self, host: Host) -> Outcome:
        exit, last_words = run_program(self.argv, host, terminal=self.mode == "tui")
        outcome = plain_outcome(exit, last_words)
        # A program that has the terminal and is ended from it was closed by the human.
        if self.mode == "tui" and outcome.ending == "crashed" and exit.signal in _CLOSED_BY_HUMAN:
            return replace(outcome, ending="left", cause="closed by the human")
        return outcome

    def close(self) -> None:
        pass
