"""pi-marathon repair: cuts a damaged journal back to its last good record, after a yes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from marathon.cli.arguments import DIRECTORY
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive
from marathon.runner.marathon import utc_now
from marathon.store.file_store import FileStore
from marathon.store.journal import line_name, lines_of
from marathon.store.lock import Holder
from marathon.store.task import Task

_SHOWN = 10


@click.command("repair")
@DIRECTORY
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair(shown: Path, yes: bool) -> None:
    """Repair the journal of DIR: show what would be lost, and go back to the last good record after a yes.

    The old file is kept under another name.
    """
    task = Task.look(shown)
    store = FileStore(task, utc_now)
    before = store.last_holder() or Holder(0, "", "", 0)
    lease = store.lease(shown, before.runner, before.resume, Path(before.cwd), before.boot)
    try:
        _repair(store, shown, yes)
    finally:
        lease.release()


def _repair(store: FileStore, shown: Path, yes: bool) -> None:
    todo = store.repaired()
    if todo is None:
        click.echo(f"The journal of {shown} is in order. Nothing was changed.")
        return
    found, good = (lines_of(data) for data in todo)
    _show(found[len(good) :], len(good))
    click.echo(f"After the repair the journal has {_count(good)}{_last(good)}.")
    if not yes:
        if not interactive():
            again = shlex.join(["pi-marathon", "repair", str(shown), "--yes"])
            raise WrongUsage(f"A repair needs a yes. Nothing was changed. To say yes: {again}")
        if not click.confirm("Repair it?"):
            click.echo("Nothing was changed.")
            return
    click.echo(f"Repaired. The old file is kept as .marathon/{store.restore(todo[1])}.")
    click.echo(f"To see where the task stands: pi-marathon status {shlex.quote(str(shown))}")


def _show(lines: Sequence[bytes], before: int) -> None:
    click.echo("A repair takes away:")
    for number, line in list(enumerate(lines, start=before + 1))[:_SHOWN]:
        click.echo(f"  line {number}: {line_name(line)}")
    if len(lines) > _SHOWN:
        click.echo(f"  and {len(lines) - _SHOWN} more")


def _count(lines: Sequence[bytes]) -> str:
    return f"{len(lines)} {'line' if len(lines) == 1 else 'lines'}"


def _last(lines: Sequence[bytes]) -> str:
    return f"; the last is {line_name(lines[-1])}" if lines else ""
