"""The agents that can be chosen with --agent, and for a phase."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from marathon.agents.acp import AcpAgent
from marathon.agents.base import Agent, Mode
from marathon.agents.claude.stream import TOOL_NAMES, TOOLS, ClaudeStream
from marathon.agents.codex import CodexStream
from marathon.agents.command import CommandAgent
from marathon.agents.in_terminal import ClaudeTui, CodexTui
from marathon.agents.pi.stream import PiStream
from marathon.agents.pi.tui import PiTui
from marathon.agents.programs import ProgramAgent
from marathon.core.courses.workflow import Phase
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


def _claude(args: tuple[str, ...], mode: Mode | None) -> Agent:
    return ClaudeTui(args) if mode == "tui" else ClaudeStream(args)


def _codex(args: tuple[str, ...], mode: Mode | None) -> Agent:
    return CodexTui(args) if mode == "tui" else CodexStream(args)


def _acp(name: str) -> Callable[[tuple[str, ...], Mode | None], Agent]:
    def made(args: tuple[str, ...], mode: Mode | None) -> Agent:
        if mode == "tui":
            raise WrongUsage(f"The agent {name} works without the terminal. Leave out --mode tui.")
        return AcpAgent(name, args)

    return made


AGENTS: dict[str, Callable[[tuple[str, ...], Mode | None], Agent]] = {
    "acp": _acp("acp"),
    "claude": _claude,
    "codex": _codex,
    "command": _command,
    "gemini": _acp("gemini"),
    "opencode": _acp("opencode"),
    "pi": _pi,
    "rehearsal": _rehearsal,
}
# Those that read a project's AGENTS.md by themselves. Others (claude reads CLAUDE.md, gemini GEMINI.md) are told of it.
READ_AGENTS_MD = ("codex", "opencode", "pi")
# How an agent is told what a phase asks for. {} is the value; the names of tools are joined with commas.
FLAGS: dict[str, dict[str, str]] = {
    "pi": {"model": "--model {}", "thinking": "--thinking {}", "tools": "", "!tools": ""},  # the extension holds tools
    "claude": {
        "model": "--model {}",
        "thinking": "--effort {}",
        "tools": "--tools {}",
        "!tools": "--disallowedTools {}",
    },
    "codex": {"model": "-m {}", "thinking": "-c model_reasoning_effort={}"},
}


# The tools of an agent that does not say itself which it has, and how it calls those that every phase may name.
_TOOLS: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {"claude": (TOOLS, TOOL_NAMES)}


# Those that are a program of their own, in the order in which they are offered.
_PROGRAMS = ("pi", "claude", "codex", "gemini", "opencode")


def installed_instead(name: str) -> str:
    """Which agents are on this machine, and what to type for one, where the program of this agent is not."""
    named = {"pi": os.environ.get("MARATHON_PI") or "pi"}
    found = [each for each in _PROGRAMS if shutil.which(named.get(each, each))]
    if name not in _PROGRAMS or name in found or not found:
        return ""
    return f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'} installed: --agent {found[0]}"


def find_agent(name: str, args: tuple[str, ...], mode: Mode | None) -> Agent:
    """The agent of that name. An unknown name is refused and never replaced by a default."""
    if name not in AGENTS:
        known = ", ".join(sorted(AGENTS))
        raise WrongUsage(f"There is no agent {name!r}. Choose one with --agent: {known}.")
    return AGENTS[name](args, mode)


class Team:
    """The agents of one marathon: one for each distinct setting, made when it is first needed."""

    def __init__(
        self, named: str, args: tuple[str, ...], mode: Mode | None, chosen: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.names = tuple(dict.fromkeys(name.strip() for name in named.split(",")))
        self._args = args  # for the first agent
        self._mode = mode
        self._chosen = chosen  # by the human, for each phase
        self._made: dict[tuple[str, tuple[str, ...], Mode | None], Agent] = {}

    @property
    def first(self) -> Agent:
        return self._made_for(self.names[0], ())

    def as_chosen(self, phase: Phase) -> Phase:
        """The phase with what the human chose for it."""
        return replace(phase, **self._chosen.get(phase.id, {}))

    def of(self, phase: Phase, takes_over: str = "") -> Agent:
        """The agent of a phase. One that took over works in every phase that does not choose its own."""
        if not phase.agent and takes_over in self.names[1:]:  # a model or an argument is for the one that was meant
            phase = replace(phase, agent=takes_over, model=None, thinking=None, args=())
        name = phase.agent or self.names[0]
        return self._made_for(name, (*_flags(name, phase), *phase.args))

    def check(self, phases: Iterable[Phase], *, in_worktree: bool = False) -> list[str]:
        """Refuse what cannot work before anything is changed. What may not work is said."""
        known = {phase.id: self.as_chosen(phase) for phase in phases}
        if unknown := next((name for name in self._chosen if name not in known), None):
            there = f"--set: there is no phase {unknown!r} in this workflow, only {', '.join(known)}."
            raise WrongUsage(f"{there} To forget what was set for it: --set {unknown}=")
        agents = [*{self.of(phase, name): None for phase in known.values() for name in self.names}] or [self.first]
        for agent in agents:
            agent.check()
            if in_worktree and isinstance(agent, AcpAgent) and agent.stays_inside:
                raise WrongUsage(
                    f"--worktree: {agent.argv[0]} writes only below the folder it works in, and the task's folder lies "
                    "outside of it. Work in the project (--here), or choose another agent, such as --agent codex."
                )
        doubts = [agent.doubt for agent in agents if isinstance(agent, ProgramAgent | AcpAgent)]
        return list(dict.fromkeys(filter(None, doubts)))

    def leave_terminal(self) -> None:
        """The human left the terminal, so no session that begins from now on can have it."""
        self._mode = "stream"

    def close(self) -> None:
        for agent in self._made.values():
            agent.close()

    def _made_for(self, name: str, args: tuple[str, ...]) -> Agent:
        known = name, args, self._mode
        if known not in self._made:
            mine = self._args if name == self.names[0] else ()
            self._made[known] = find_agent(name, (*mine, *args), self._mode)
        return self._made[known]


def _tool(name: str, phase: Phase, tool: str) -> str:
    """A tool as the agent calls it. One that it does not have is no wish that can be passed over."""
    if name not in _TOOLS:
        return tool
    known, names = _TOOLS[name]
    found = names.get(tool, tool)
    if found not in known and not found.startswith("mcp__"):
        there = f"{', '.join(names)}; {', '.join(known)}"
        raise WrongUsage(f"The agent {name} has no tool {tool!r} (phase {phase.id}). It has: {there}. Or use args.")
    return found


def _flags(name: str, phase: Phase) -> Sequence[str]:
    denied = any(tool.startswith("!") for tool in phase.tools)
    wanted = {"model": phase.model, "thinking": phase.thinking}
    wanted["!tools" if denied else "tools"] = ",".join(_tool(name, phase, tool.lstrip("!")) for tool in phase.tools)
    words: list[str] = []
    for what, value in wanted.items():
        if not value:
            continue
        if what not in FLAGS.get(name, {}):
            raise WrongUsage(f"The agent {name} takes no {what.lstrip('!')} (phase {phase.id}). Use args instead.")
        words += [word.format(value) for word in FLAGS[name][what].split()]
    return words
