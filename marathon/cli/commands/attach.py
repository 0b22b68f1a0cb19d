"""Commands that follow a marathon: attach, logs."""

from __future__ import annotations

import sys
import time
from io import StringIO
from pathlib import Path

import click

from marathon.cli.arguments import TASK
from marathon.cli.find import enter, enter_omitted
from marathon.cli.running import enter_running, running
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive, on_terminal
from marathon.show.screen import LEAVE, UNFOLD, WATCHED, Screen
from marathon.store.events import TaskLogs
from marathon.store.home import home_of, is_task
from marathon.store.lock import holder_of

_RECENT = 64 * 1024  # bytes of the log that attach shows at first
_LITTLE = 4 * 1024  # of a session that has just begun, so the one before is shown too
_LOOK_AGAIN = 0.1


@click.command("attach")
@click.argument("typed", metavar="[TASK]", required=False, type=TASK)
@click.pass_context
def attach(ctx: click.Context, typed: Path | None) -> None:
    """Watch the running marathon of TASK: its work, its gate. What you type steers the agent; b and Enter leaves.

    TASK may belong to any project, and may be left out where only one marathon runs. The marathon goes on without you.
    """
    found = enter_running(typed)
    if not interactive():
        raise WrongUsage("attach needs a terminal. For a pipe: pi-marathon logs -f")
    screen = Screen(sys.stdout, live=on_terminal(), notify=True, hints=(*WATCHED, LEAVE, UNFOLD))
    logs = TaskLogs(home_of(found.shown) / "runs")
    shown = [*logs.from_recent(_RECENT, _LITTLE), *logs.new()]
    for event in shown:
        screen(event)
    screen.show_now()
    # What follows loads far more, so the first screen comes before it.
    from marathon.process.signals import Signals
    from marathon.runner.attach import Attached

    for event in logs.skipped_usage():
        screen(event)
    with Signals() as signals:
        try:
            code = Attached(found.shown, found.project, signals, screen, logs).watch(shown)
        finally:
            screen.close()
    ctx.exit(code)


@click.command("logs")
@click.argument("typed", metavar="[TASK]", required=False, type=TASK)
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the marathon ends.")
def logs(typed: Path | None, follows: bool) -> None:
    """What the marathon of TASK (the latest one) has done in its current run, as plain lines."""
    shown = enter(typed) if typed else enter_omitted("latest") if not (follows and running()) else None
    if shown is None or not is_task(shown):
        shown = enter_running(typed).shown
    out = StringIO()
    screen = Screen(out, live=False, notify=False)
    found = TaskLogs(home_of(shown) / "runs")
    found.from_start()
    while True:
        runs = holder_of(home_of(shown) / "lock") is not None
        while events := found.new():
            for event in events:
                screen(event)
            _hand_on(out)
        if not (follows and runs):
            break
        time.sleep(_LOOK_AGAIN)
    screen.close()
    _hand_on(out)


def _hand_on(out: StringIO) -> None:
    click.echo(out.getvalue(), nl=False)
    out.seek(0)
    out.truncate()
