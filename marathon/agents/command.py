"""Any program as the agent: prompt on standard input, or in MARATHON_PROMPT_FILE when it has the terminal."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from marathon.agents.base import Launch, Mode, plain_ending
from marathon.core.records import Ending
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.process.child import Exit


@dataclass(frozen=True)
class CommandAgent:
    argv: tuple[str, ...]
    mode: Mode = "stream"
    name: str = "command"

    def check(self) -> None:
        if not self.argv:
            raise WrongUsage(
                "The command agent needs a program: pi-marathon --task DIR --agent command -- PROGRAM ARGS"
            )
        if shutil.which(self.argv[0]) is None:
            raise AgentUnavailable(
                f"The program {self.argv[0]!r} was not found or is not executable. Check the name after --."
            )

    def launch(self, prompt: Path) -> Launch:
        return Launch(self.argv, terminal=self.mode == "tui")

    def ending(self, exit: Exit, last_words: str) -> tuple[Ending, str]:
        ending, cause = plain_ending(exit, last_words)
        # Whoever has the terminal and is ended from it was closed by the human.
        if self.mode == "tui" and ending == "crashed" and exit.signal in (2, 3, 15):
            return "left", "closed by the human"
        return ending, cause
