"""Any program as the agent. The prompt comes on its standard input, or in MARATHON_PROMPT_FILE on the terminal."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass

from marathon.agents.base import Host, Mode, Outcome, crash, interruption, run_program
from marathon.core.error_kind import is_blocking
from marathon.core.text import one_line, says_complete
from marathon.errors import AgentUnavailable, WrongUsage

_CLOSED_BY_HUMAN = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


@dataclass(frozen=True)
class CommandAgent:
    argv: tuple[str, ...]
    mode: Mode = "stream"
    name: str = "command"
    tells_usage: bool = False
    has_tools: bool = False

    def check(self) -> None:
        if not self.argv:
            raise WrongUsage("The command agent needs a program: pi-marathon --task DIR --agent command -- PROGRAM")
        if shutil.which(self.argv[0]) is None:
            raise AgentUnavailable(f"{self.argv[0]!r} was not found or is not executable. Check the name after --.")

    def run(self, host: Host) -> Outcome:
        last = {"any": "", "out": ""}  # the last line, and the last line on standard output

        def on_line(stream: str, line: str) -> None:
            if line.strip():
                last.update({"any": line, stream: line})

        terminal = self.mode == "tui"
        exit = run_program(self.argv, host, terminal=terminal, on_line=on_line)
        if by_runner := interruption(exit):
            return by_runner
        if exit.code == 0:
            return Outcome("ended", seconds=exit.seconds, signal=says_complete(last["out"]))
        if terminal and exit.signal in _CLOSED_BY_HUMAN:
            return Outcome("left", "closed by the human", exit.seconds)
        said = f": {one_line(last['any'], 160)}" if last["any"] else ""
        return Outcome("crashed", crash(exit) + said, exit.seconds, permanent=is_blocking(exit.code, last["any"]))

    def close(self) -> None:
        pass
