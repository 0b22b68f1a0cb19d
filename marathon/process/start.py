"""What to start, how it ended, and the start itself."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from marathon.process import linux
from marathon.process.sandbox import wrapped

Reason = Literal["exited", "timeout", "stopped", "interrupted", "terminated", "hungup"]

# Through them a program types into the terminals of the human.
NOT_FOR_AGENTS = ("TMUX", "TMUX_PANE", "STY")
MARK = "MARATHON_TREE"  # in the environment of everything that belongs to one tree


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # the whole environment of the child, but for MARK
    stdin: int | None = None  # becomes its stdin; None is /dev/null
    terminal: bool = False  # its stdin, stdout and stderr are the controlling terminal, handed over
    inherit: tuple[int, ...] = ()  # stay open under the same number in the child and its guardian
    session: bool = True  # an agent's work, or a check of it; not a program that the human uses
    joined: bool = False  # stdout and stderr come as one stream, "out", in the order they were written


@dataclass(frozen=True)
class Exit:
    code: int | None  # exit status; None if a signal killed it
    signal: int | None
    reason: Reason  # why it ended, as the runner sees it
    swept: int  # processes that outlived the agent and were ended
    seconds: float  # without the time it was suspended


class StartFailed(OSError):
    """The program could not be started: errno, text, and the program or directory it is about."""


def start(command: Command, stdio: Sequence[int | None], mark: str) -> subprocess.Popen[bytes]:
    """Start it as our child. It leads a session of its own unless it gets the terminal."""
    stdin, stdout, stderr = stdio
    try:
        hidden = NOT_FOR_AGENTS if command.session else ()
        given = {name: value for name, value in command.env.items() if name not in hidden}
        with wrapped(command.argv, given) as (argv, env, more):
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=str(command.cwd),
                env={**env, MARK: mark},
                pass_fds=[fd for fd in (*command.inherit, *more) if fd > 2],
                start_new_session=not command.terminal,
                # Its presence also means fork, not vfork: a Ctrl+Z before the exec must not stop the child and hold us
                # up.
                preexec_fn=functools.partial(linux.die_with, os.getpid()),
            )
    except OSError as error:
        raise StartFailed(error.errno, error.strerror, error.filename) from error
    except ValueError as error:  # words that cannot be passed on, such as one with a NUL in it
        raise StartFailed(errno.EINVAL, os.strerror(errno.EINVAL), command.argv[0]) from error
