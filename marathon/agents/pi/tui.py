"""pi in its own terminal interface: it has the screen, and its extension says when the session is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace

from marathon.agents.base import Host, Outcome, interruption, run_program
from marathon.agents.pi.find import EXTENSION, check_login, find_pi
from marathon.agents.pi.reading import LOGIN, pi_failure
from marathon.agents.reading import failed_outcome
from marathon.core.budgets import Usage, usage_in
from marathon.process.child import Exit

BEGIN = "The file above is your task for this session. Begin."
_CLOSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PiTui:
    name = "pi"
    tells_usage = True

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        self._args = args
        self._program = "pi"

    def check(self) -> None:
        pi = find_pi(os.environ)
        check_login(pi, self._args, os.environ)
        self._program = pi.program

    def run(self, host: Host) -> Outcome:
        # The prompt goes as a private file: command lines can be read by everybody.
        argv = (self._program, "-e", str(EXTENSION), *self._args, f"@{host.prompt}", BEGIN)
        exit, _ = run_program(argv, host, terminal=True)
        return tui_outcome(exit, host.mail())

    def close(self) -> None:
        pass


def tui_outcome(exit: Exit, mail: Mapping[str, object]) -> Outcome:
    """The verdict lies in the extension's mark; pi's exit status alone says nothing."""
    usage = mail_usage(mail)
    by_runner = interruption(exit)
    if by_runner is not None:
        return replace(by_runner, usage=usage)
    if mail.get("sessionEnded") is True:
        reason = str(mail.get("stopReason") or "")
        if reason == "error":
            failure = pi_failure(str(mail.get("errorMessage") or ""))
            return replace(failed_outcome(failure, LOGIN), seconds=exit.seconds, usage=usage)
        said = mail.get("saidComplete") is True
        return Outcome("ended", seconds=exit.seconds, usage=usage, stop_reason=reason, signal=said)
    if exit.code == 0 or exit.signal in _CLOSED:
        return Outcome("left", "pi was closed before it was done", exit.seconds, usage)
    how = f"killed by signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"
    return Outcome("crashed", f"pi ended with {how}", exit.seconds, usage)


def mail_usage(mail: Mapping[str, object]) -> Usage | None:
    used = mail.get("usage")
    return usage_in(used) if isinstance(used, dict) else None
