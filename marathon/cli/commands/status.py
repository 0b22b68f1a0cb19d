"""pi-marathon status DIR."""

from __future__ import annotations

import json

import click

from marathon.cli.arguments import task_path
from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.status_query import look_at
from marathon.show.status import status_lines


@click.command("status")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--sessions", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the last sessions."
)
def command(directory: str, as_json: bool, sessions: int) -> None:
    """Where the task in DIR stands, what it waits for, and the command that goes on."""
    status = look_at(task_path(directory), sessions)
    click.echo(json.dumps(status.as_json(), indent=2) if as_json else "\n".join(status_lines(status)))
