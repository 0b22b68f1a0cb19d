"""pi-marathon steer DIR MESSAGE: guidance for the agent."""

from __future__ import annotations

import click

from marathon.cli.arguments import message_text, task_path
from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.in_session import refuse_inside_a_session
from marathon.store.lock import holder_of
from marathon.store.task import Task


@click.command("steer")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.argument("message")
def command(directory: str, message: str) -> None:
    """Send the agent of DIR a message; it comes with the next session. - reads standard input."""
    shown = task_path(directory)
    task = Task.look(shown)
    refuse_inside_a_session(task, "steer")
    text = message_text(message)
    task.prepare()
    task.inbox.put("steer", text=text)
    running = holder_of(task.lock_path) is not None
    sent = "Sent: a streamed session takes it at once, any other with the next one."
    click.echo(sent if running else "Kept: it comes with the next session you start.")
