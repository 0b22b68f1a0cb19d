"""The agent protocol: what the runner gives an agent for a session, and the outcome that the agent returns."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from marathon.agents.meter import Meter
from marathon.agents.reading import Failure
from marathon.core.budgets import Usage
from marathon.core.events import Notice, Output, Sink, Ticked
from marathon.core.life import Steer
from marathon.core.records import Ending
from marathon.core.text import counted
from marathon.errors import AgentUnavailable
from marathon.process.input_line import InputLine
from marathon.process.signals import Signals
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import Files

Mode = Literal["tui", "stream"]
TWICE = "Press Ctrl+C again within 2 seconds to stop the agent and quit. The state is saved."
_BY_RUNNER: dict[str, tuple[Ending, str]] = {
    "timeout": ("timeout", "the session timed out"),
    "stopped": ("stopped", "stopped on request"),
    "interrupted": ("interrupted", "SIGINT"),
    "terminated": ("interrupted", "SIGTERM"),
    "hungup": ("interrupted", "SIGHUP"),
}


@dataclass(frozen=True)
class Host:
    """What the runner gives an agent for one session."""

    project: Path
    prompt: str  # the path of the file
    env: Mapping[str, str]
    lock_fd: int
    signals: Signals
    emit: Sink
    on_tick: Callable[[], bool]  # the agent calls this often; True asks to end the session at once
    timeout: float | None
    start: Callable[..., Exit]
    mail: Callable[[], Mapping[str, object]]  # the runner state, as the agent's side left it
    new_steering: Callable[[], Sequence[Steer]]  # messages since the last call
    steer: Callable[[str, bool], Steer | None]  # stores what the human typed, with True for the next session
    meter: Meter = field(default_factory=Meter)  # counts what is emitted, and says when a budget is used up
    log: str = ""  # the path of the session's log of events
    detach: Callable[[], None] | None = None  # the human leaves, and the session goes on without a terminal
    usage_file: str = ""  # a program may append its usage there
    line: InputLine | None = None  # of the human who sits at the terminal

    @property
    def attended(self) -> bool:
        return self.line is not None


@dataclass(frozen=True)
class Outcome:
    """How a session ended, as its agent reads it."""

    ending: Ending
    cause: str = ""
    seconds: float = 0
    usage: Usage | None = None
    stop_reason: str = ""
    permanent: bool = False
    retry_after: float | None = None
    outage: bool = False  # the network or the provider was away
    steered: tuple[str, ...] = ()
    signal: bool = False  # the last message says that everything is done
    session: str = ""  # as the agent names it
    last_words: str = ""  # of a program that ended well
    denied: str = ""  # what the agent was not allowed to use, and how to allow it


class Agent(Protocol):
    """A coding agent. It knows how to start and how to read its own end. It decides nothing."""

    @property
    def name(self) -> str: ...

    @property
    def tells_cost(self) -> bool:
        """Whether the agent reports what it costs. Without that, no budget of money can be kept."""

    @property
    def tells_tokens(self) -> bool:
        """Whether the agent reports its tokens. Without that, no budget of tokens can be kept."""

    @property
    def has_tools(self) -> bool:
        """Whether the agent has our tools to wait and to ask. Without them, the prompt names shell commands."""

    @property
    def can_be_steered(self) -> bool:
        """Whether a message reaches the agent while it works. Else it comes with the next session."""

    def check(self) -> None:
        """Raise AgentUnavailable, with advice, if the agent cannot work here. Called before the first session."""

    def run(self, host: Host) -> Outcome:
        """Run one session, from its prompt to its end."""

    def close(self) -> None:
        """End every process that was kept for a next session."""


def run_program(
    argv: Sequence[str],
    host: Host,
    *,
    terminal: bool,
    on_line: Callable[[str, str, bool], bool] = lambda stream, line, complete: True,
    over: Callable[[], bool] = lambda: False,
    readers: Files | None = None,
    on_resume: Callable[[], None] = lambda: None,
) -> Exit:
    """Run a program to its end. It gets the terminal, or the prompt on its stdin.

    on_line says whether a line is shown. `over` is asked often, and True ends the program.
    """

    def on_output(stream: str, line: bytes, complete: bool) -> None:
        text = line.decode("utf-8", "replace")
        if on_line(stream, text, complete):
            host.emit(Output(stream, text, complete))

    def on_tick() -> bool:
        if not terminal:
            host.emit(Ticked())
        return host.on_tick() or over()

    def resumed() -> None:
        if not terminal:
            on_resume()
            host.emit(Ticked())

    host.meter.quiet = terminal
    with open(host.prompt, "rb") as prompt:
        stdin = None if terminal else prompt.fileno()
        try:
            exit = host.start(
                Command(tuple(argv), host.project, host.env, stdin, terminal, (host.lock_fd,)),
                signals=host.signals,
                on_output=on_output,
                on_tick=on_tick,
                on_interrupt=lambda: host.emit(Notice(TWICE, "warning")),
                on_resume=resumed,
                on_clock=host.meter.at,
                timeout=host.timeout,
                readers=readers,
            )
        except StartFailed as error:
            advice = " Check the program's name." if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC) else ""
            raise AgentUnavailable(f"Could not start {argv[0]!r}: {error.strerror}.{advice}") from error
    if exit.reason == "exited":
        tell_swept(host, exit.swept)
    return exit


def tell_swept(host: Host, count: int) -> None:
    if count:
        host.emit(Notice(f"Ended {counted(count, 'process', 'processes')} that the agent had left running.", "warning"))


def interruption(exit: Exit) -> Outcome | None:
    """The outcome if the runner ended the session."""
    return Outcome(*_BY_RUNNER[exit.reason], exit.seconds) if exit.reason in _BY_RUNNER else None


def crash(exit: Exit) -> str:
    """How a program failed, in a few words."""
    return f"killed by signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"


def failed_outcome(failure: Failure, login: str) -> Outcome:
    """The outcome of a session that ended in a provider's error. `login` says how to give another key."""
    advice = f" ({login})" if failure.kind == "login" else ""
    return Outcome(
        "refused",
        failure.message + advice,
        stop_reason="error",
        permanent=failure.permanent,
        retry_after=failure.retry_after,
        outage=failure.kind == "outage",
    )
