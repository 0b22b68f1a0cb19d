"""Claude Code and Codex in their own interface. Hooks for this session only say when STATE.json was written."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence

from marathon.agents.base import Host, Outcome, crash, interruption, run_program
from marathon.agents.claude.settings import with_hooks
from marathon.agents.claude.state import BEGIN
from marathon.agents.claude.stream import CLAUDE, permissions, tell_of_billing
from marathon.agents.codex import CODEX, settings
from marathon.agents.programs import ProgramAgent

_CLOSED_BY_HUMAN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NOTIFY = ("-c", 'notify=["pi-marathon", "hook", "turn-ended"]')


class ClaudeTui(ProgramAgent):
    program = CLAUDE

    def run(self, host: Host) -> Outcome:
        tell_of_billing(self, host)
        hooks = json.loads(with_hooks("", "pi-marathon"))
        return run_in_terminal(("claude", *permissions(host.env, host.project, hooks), *self.args), host)


class CodexTui(ProgramAgent):
    """Without the daemon, which would run the commands outside of our process tree."""

    program = CODEX

    def run(self, host: Host) -> Outcome:
        ours = settings(host.project, host.env)
        return run_in_terminal(("codex", "--no-daemon", *ours, *_NOTIFY, *self.args), host)


def run_in_terminal(argv: Sequence[str], host: Host) -> Outcome:
    """A session in the program's own interface. It is closed when its hook says that STATE.json was written."""

    def ended() -> bool:
        return host.mail().get("sessionEnded") is True

    argv = (*argv, "--", BEGIN.format(host.prompt))
    exit = run_program(argv, host, terminal=True, over=lambda: ended() or host.meter.must_stop())
    if ended() and exit.reason in ("exited", "stopped"):
        return Outcome("ended", seconds=exit.seconds)
    if by_runner := interruption(exit):
        return by_runner
    if exit.code == 0 or exit.signal in _CLOSED_BY_HUMAN or exit.code in [128 + each for each in _CLOSED_BY_HUMAN]:
        return Outcome("left", f"{argv[0]} was closed before it was done", exit.seconds)
    return Outcome("crashed", f"{argv[0]} failed ({crash(exit)})", exit.seconds)
