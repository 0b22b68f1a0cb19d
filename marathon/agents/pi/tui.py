"""pi in its own terminal interface. Our extension in pi logs what it does and records when the session is over."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace

from marathon.agents.base import Host, Outcome, crash, failed_outcome, interruption, run_program
from marathon.agents.pi.find import EXTENSIONS, PiAgent
from marathon.agents.pi.reading import LATE, LOGIN, pi_failure, used_up
from marathon.core.events import usage_of
from marathon.errors import AgentUnavailable
from marathon.process.start import Exit
from marathon.store.events import follow

BEGIN = "The file above is your task for this session. Begin."
_CLOSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PiTui(PiAgent):
    def run(self, host: Host) -> Outcome:
        # The prompt goes as a private file, because every user can read command lines.
        argv = (self.pi.program, *EXTENSIONS, *self.args, f"@{host.prompt}", BEGIN)
        exit = run_program(argv, host, terminal=True, over=lambda: host.meter.must_stop(late=LATE))
        outcome = replace(tui_outcome(exit, host.mail()), usage=usage_of(follow(host.log)))
        if outcome.ending == "crashed" and exit.code == 1:
            # What pi printed is on the terminal, where we cannot read it. An extension that keeps pi from starting
            # says so again.
            try:
                self.check()
            except AgentUnavailable as error:
                return replace(outcome, cause=str(error), permanent=True)
        return outcome


def tui_outcome(exit: Exit, mail: Mapping[str, object]) -> Outcome:
    """Read the end from what the extension recorded, because pi's exit code is 0 for most ends."""
    return replace(_ending(exit, mail), seconds=exit.seconds)


def _ending(exit: Exit, mail: Mapping[str, object]) -> Outcome:
    if by_runner := interruption(exit):
        return by_runner
    if spent := used_up(mail):
        return Outcome("limit", spent, stop_reason="aborted")
    if mail.get("sessionEnded") is True:
        reason = str(mail.get("stopReason") or "")
        if reason == "error":
            return failed_outcome(pi_failure(str(mail.get("errorMessage") or "")), LOGIN)
        return Outcome("ended", stop_reason=reason, signal=mail.get("saidComplete") is True)
    if exit.code == 0 or exit.signal in _CLOSED:
        return Outcome("left", "pi was closed before it was done")
    return Outcome("crashed", f"pi failed ({crash(exit)})")
