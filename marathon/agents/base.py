"""What every agent offers the runner, and what the runner tells it about a session."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from marathon.core.records import Ending
from marathon.core.text import one_line
from marathon.process.child import Exit

Mode = Literal["tui", "stream"]
INTERRUPTIONS = {"interrupted": signal.SIGINT, "terminated": signal.SIGTERM, "hungup": signal.SIGHUP}


@dataclass(frozen=True)
class Launch:
    """How to start a session: the program, and whether it gets the terminal or the prompt on its stdin."""

    argv: tuple[str, ...]
    terminal: bool = False


class Agent(Protocol):
    """A coding agent. Knows how to be started and how to read its own end; decides nothing."""

    @property
    def name(self) -> str: ...

    def check(self) -> None:
        """Raise AgentUnavailable, with the cure, before the first session rather than in it."""

    def launch(self, prompt: Path) -> Launch:
        """How to start a session with this prompt."""

    def ending(self, exit: Exit, last_words: str) -> tuple[Ending, str]:
        """How the session ended, and the cause if it did not end well."""


def plain_ending(exit: Exit, last_words: str) -> tuple[Ending, str]:
    """The reading for programs whose exit status tells: 0 is a good end."""
    said = f": {one_line(last_words, 160)}" if last_words.strip() else ""
    match exit.reason:
        case "timeout":
            return "timeout", "the session timed out"
        case "stopped":
            return "stopped", "stopped on request"
        case "interrupted" | "terminated" | "hungup":
            return "interrupted", INTERRUPTIONS[exit.reason].name
    if exit.code == 0:
        return "ended", ""
    if exit.signal is not None:
        return "crashed", f"killed by signal {exit.signal}{said}"
    return "crashed", f"exit code {exit.code}{said}"
