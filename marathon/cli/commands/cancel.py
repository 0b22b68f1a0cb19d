"""pi-marathon cancel DIR: end a run for good."""

from __future__ import annotations

import click

from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.verdict import open_gate, send
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive


@click.command("cancel")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(directory: str, yes: bool) -> None:
    """End the run at the open gate of DIR for good. Nothing is removed; a restart with -h begins a new run."""
    task, shown, _, gate = open_gate(directory, "cancel")
    if not yes:
        if not interactive():
            raise WrongUsage(f"Cancelling needs a yes: pi-marathon cancel {shown} --yes")
        if not click.confirm(f"End this run of {shown} for good?"):
            click.echo("Nothing was changed.")
            return
    send(task, shown, gate, "cancel", "Cancelled.")
