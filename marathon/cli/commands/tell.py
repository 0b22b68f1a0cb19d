"""pi-marathon tell: a human's words for the agent. They restart nothing and answer no gate."""

from __future__ import annotations

from pathlib import Path

import click

from marathon.cli.arguments import message_text, task_and_text
from marathon.cli.commands.gate import recorded
from marathon.errors import WrongUsage
from marathon.runner.status_query import read_task, resume_command
from marathon.store.lock import holder_of
from marathon.surfaces.gate_text import with_option


@click.command("tell")
@task_and_text("active")
@click.option("--next", "later", is_flag=True, help="Not before the next session.")
def tell(said: tuple[Path, str], later: bool) -> None:
    """Tell the agent of TASK something. It hears it at the next chance. - reads standard input.

    That is at once where the agent can be told while it works, and else with the next session. The words are kept in
    human.md. They restart nothing, and what waits for you still does.
    """
    shown, project = said[0], Path.cwd()
    recorded(shown)
    known, text = read_task(shown, project), message_text(said[1])
    resume = resume_command(known.task, shown, project)
    if known.life.finished or known.life.cancelled:
        over = "completed" if known.life.finished else "cancelled"
        again = with_option(resume, '-h "TEXT"')
        raise WrongUsage(f"{shown} is {over}, so no session will hear it. To run it again with your words: {again}")
    known.task.inbox.put("steer", text=text, later=later)
    if known.life.gate:
        click.echo("Kept for the next session. The task still waits for you.")
    elif not holder_of(known.task.lock_path):
        click.echo(f"Kept for the next session. To continue: {resume}")
    elif later:
        click.echo("Kept for the next session.")
    else:
        click.echo("Sent: the agent hears it at once if it can, else with the next session.")
