"""pi-marathon stop DIR: ask the running marathon to stop."""

from __future__ import annotations

import click

from marathon.cli.arguments import task_path
from marathon.cli.directory import TASK_DIRECTORY
from marathon.errors import WrongUsage
from marathon.store.lock import holder_of
from marathon.store.task import Task


@click.command("stop")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--now", is_flag=True, help="Stop the agent in the middle of its session.")
def command(directory: str, now: bool) -> None:
    """Ask the runner of DIR to stop after this session; everything is kept."""
    shown = task_path(directory)
    task = Task.look(shown)
    holder = holder_of(task.lock_path)
    if holder is None:
        raise WrongUsage(f"No marathon runs on {shown}; nothing to stop.")
    task.inbox.put("stop", to=holder.runner, now=now)
    click.echo(f"Asked the runner ({holder}) to stop {'now' if now else 'after this session'}.")
