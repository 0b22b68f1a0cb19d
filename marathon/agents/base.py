"""What every agent offers the runner, what the runner lends it for a session, and what comes back."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from marathon.core.budgets import Usage
from marathon.core.error_kind import is_blocking
from marathon.core.events import Notice, Output, Sink, Ticked
from marathon.core.life import Steer
from marathon.core.records import Ending
from marathon.core.text import one_line, says_complete
from marathon.errors import AgentUnavailable
from marathon.process.child import Command, Exit, StartFailed
from marathon.process.signals import Signals

Mode = Literal["tui", "stream"]
INTERRUPTIONS = {"interrupted": signal.SIGINT, "terminated": signal.SIGTERM, "hungup": signal.SIGHUP}
TWICE = "Ctrl+C again within 2 seconds stops the agent and quits; the state is saved."


@dataclass(frozen=True)
class Host:
    """What the runner lends an agent for one session."""

    project: Path
    prompt: str  # the file
    env: Mapping[str, str]
    lock_fd: int
    signals: Signals
    emit: Sink
    on_tick: Callable[[], bool]  # to be called every now and then; True asks to end the session at once
    timeout: float | None
    start: Callable[..., Exit]
    attended: bool  # a human sits at the terminal
    mail: Callable[[], Mapping[str, object]]  # the runner state, as the agent's side left it
    new_steering: Callable[[], Sequence[Steer]]  # messages that came since the session began
    steer: Callable[[str, bool], Steer | None]  # keep what was typed: for this session, or (True) for the next one


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
    steered: tuple[str, ...] = ()
    signal: bool = False  # its last message says that all is done


class Agent(Protocol):
    """A coding agent. Knows how to be started and how to read its own end; decides nothing."""

    @property
    def name(self) -> str: ...

    @property
    def tells_usage(self) -> bool:
        """Whether it says what a session cost; where it does not, a budget of money or tokens cannot be kept."""

    def check(self) -> None:
        """Raise AgentUnavailable, with the cure, before the first session rather than in it."""

    def run(self, host: Host) -> Outcome:
        """One session, from its prompt to its end."""

    def close(self) -> None:
        """The marathon is over or stands still: end every process."""


class LastWords(NamedTuple):
    """The last line a program printed, and the last one on its standard output."""

    any: str = ""
    out: str = ""


def run_program(argv: Sequence[str], host: Host, *, terminal: bool) -> tuple[Exit, LastWords]:
    """A program from start to end, with the prompt on its stdin unless it gets the terminal; and its last words."""
    last_words = LastWords()

    def on_output(stream: str, line: bytes, complete: bool) -> None:
        nonlocal last_words
        text = line.decode("utf-8", "replace")
        if text.strip():
            last_words = LastWords(text, text if stream == "out" else last_words.out)
        host.emit(Output(stream, text, complete))

    def on_tick() -> bool:
        if not terminal:
            host.emit(Ticked())
        return host.on_tick()

    stdin = None if terminal else os.open(host.prompt, os.O_RDONLY | os.O_CLOEXEC)
    try:
        exit = host.start(
            Command(tuple(argv), host.project, host.env, stdin, terminal, (host.lock_fd,)),
            signals=host.signals,
            on_output=on_output,
            on_tick=on_tick,
            on_interrupt=lambda: host.emit(Notice(TWICE, "warning")),
            on_resume=lambda: None if terminal else host.emit(Ticked()),
            timeout=host.timeout,
        )
    except StartFailed as error:
        advice = " Check the program's name." if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC) else ""
        raise AgentUnavailable(f"Could not start {argv[0]!r}: {error.strerror}.{advice}") from error
    finally:
        if stdin is not None:
            os.close(stdin)
    if exit.swept and exit.reason == "exited":
        host.emit(Notice(f"{exit.swept} process(es) the agent had left running were ended.", "warning"))
    return exit, last_words


def interruption(exit: Exit) -> Outcome | None:
    """The outcome where it was the runner that ended the session."""
    match exit.reason:
        case "timeout":
            return Outcome("timeout", "the session timed out", exit.seconds)
        case "stopped":
            return Outcome("stopped", "stopped on request", exit.seconds)
        case "interrupted" | "terminated" | "hungup":
            return Outcome("interrupted", INTERRUPTIONS[exit.reason].name, exit.seconds)
    return None


def plain_outcome(exit: Exit, last_words: LastWords) -> Outcome:
    """The reading for programs whose exit status tells: 0 is a good end."""
    said = f": {one_line(last_words.any, 160)}" if last_words.any else ""
    by_runner = interruption(exit)
    if by_runner is not None:
        return by_runner
    if exit.code == 0:
        return Outcome("ended", seconds=exit.seconds, signal=says_complete(last_words.out))
    how = f"killed by signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"
    return Outcome("crashed", how + said, exit.seconds, permanent=is_blocking(exit.code, last_words.any))
