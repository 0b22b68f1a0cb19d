"""The agents that can be chosen with --agent."""

from __future__ import annotations

import sys
from collections.abc import Callable

from marathon.agents.base import Agent, Mode
from marathon.agents.command import CommandAgent
from marathon.agents.pi.stream import PiStream
from marathon.agents.pi.tui import PiTui
from marathon.errors import WrongUsage
from marathon.process.terminal import on_terminal

DEFAULT = "pi"


def _rehearsal(args: tuple[str, ...], mode: Mode | None) -> Agent:
    return CommandAgent((sys.executable, "-P", "-m", "marathon.agents.rehearsal", *args), name="rehearsal")


def _command(args: tuple[str, ...], mode: Mode | None) -> Agent:
    return CommandAgent(args, mode or "stream")


def _pi(args: tuple[str, ...], mode: Mode | None) -> Agent:
    chosen = mode or ("tui" if on_terminal() else "stream")
    return PiTui(args) if chosen == "tui" else PiStream(args)


AGENTS: dict[str, Callable[[tuple[str, ...], Mode | None], Agent]] = {
    "command": _command,
    "pi": _pi,
    "rehearsal": _rehearsal,
}


def find_agent(name: str, args: tuple[str, ...], mode: Mode | None) -> Agent:
    """The agent of that name. An unknown name is refused and never replaced by a default."""
    if name not in AGENTS:
        known = ", ".join(sorted(AGENTS))
        raise WrongUsage(f"There is no agent {name!r}. Choose one with --agent: {known}.")
    return AGENTS[name](args, mode)
