"""pi-marathon repair: brings a damaged, changed or missing journal back to what is known to be good, after a yes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from marathon.cli.arguments import DIRECTORY
from marathon.cli.commands.gate import refuse_inside_a_session
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
@click.option("--as-is", is_flag=True, help="Trust the journal in DIR instead of the copy, even if it is gone.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair(shown: Path, as_is: bool, yes: bool) -> None:
    """Repair the journal of DIR: show what would be lost, and go back to the last good record after a yes.

    The runner keeps a copy of every journal outside of the project. If there is one, the journal is restored from
    it. The old file is kept under another name.
    """
    task = Task.look(shown)
    refuse_inside_a_session(task, "repair")
    store = FileStore(task, utc_now)
    before = store.last_holder() or Holder(0, "", "", 0)
    lease = store.lease(shown, before.runner, before.resume, Path(before.cwd), before.boot)
    try:
        _repair(store, shown, as_is, yes)
    finally:
        lease.release()


def _repair(store: FileStore, shown: Path, as_is: bool, yes: bool) -> None:
    todo = store.repaired(as_is=as_is)
    if todo is None:
        click.echo(f"The journal of {shown} is in order. Nothing was changed.")
        return
    found, good = (lines_of(data) for data in todo)
    same = next((at for at, pair in enumerate(zip(found, good, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(found), len(good)) if same is None else same
    _show("A repair takes away", found, same)
    _show("A repair brings back", good, same)
    click.echo(f"After the repair the journal has {_count(good)}{_last(good)}.")
    if _is_completed(found) and not _is_completed(good):
        click.echo("The file says that the task is completed. After the repair it is open again.")
    if not yes:
        if not interactive():
            again = shlex.join(["pi-marathon", "repair", str(shown), *(["--as-is"] if as_is else []), "--yes"])
            raise WrongUsage(f"A repair needs a yes. Nothing was changed. To say yes: {again}")
        if not click.confirm("Repair it?"):
            click.echo("Nothing was changed.")
            return
    kept = store.restore(todo[1])
    click.echo(f"Repaired.{f' The old file is kept as .marathon/{kept}.' if kept else ''}")
    click.echo(f"To see where the task stands: pi-marathon status {shlex.quote(str(shown))}")


def _show(title: str, lines: Sequence[bytes], same: int) -> None:
    if lines[same:]:
        click.echo(f"{title}:")
    for number, line in list(enumerate(lines, start=1))[same:][:_SHOWN]:
        click.echo(f"  line {number}: {line_name(line)}")
    if len(lines) > same + _SHOWN:
        click.echo(f"  and {len(lines) - same - _SHOWN} more")


def _count(lines: Sequence[bytes]) -> str:
    return f"{len(lines)} {'line' if len(lines) == 1 else 'lines'}"


def _last(lines: Sequence[bytes]) -> str:
    return f"; the last is {line_name(lines[-1])}" if lines else ""


def _is_completed(lines: Sequence[bytes]) -> bool:
    """Whether the last run in these lines came to its end."""
    ends = [line_name(line).split(" ")[0] for line in lines]
    return "finished" in ends[max((at for at, name in enumerate(ends) if name == "run_started"), default=0) :]
