"""pi-marathon feedback: a human's words for the next session, without a restart and without an answer to a gate."""

from __future__ import annotations

from pathlib import Path

import click

from marathon.cli.arguments import message_text, task_and_text
from marathon.cli.restart import give_feedback
from marathon.errors import WrongUsage
from marathon.runner.status_query import read_task, resume_command
from marathon.store.lock import holder_of
from marathon.surfaces.gate_text import with_option


@click.command("feedback")
@task_and_text("active")
def feedback(said: tuple[Path, str]) -> None:
    """Give feedback to the agent of TASK: added to human.md, read by the next session. - reads standard input.

    It restarts nothing and answers no gate.
    """
    shown, project = said[0], Path.cwd()
    known, text = read_task(shown, project), message_text(said[1])
    resume = resume_command(known.task, shown, project)
    if known.life.finished or known.life.cancelled:
        over = "completed" if known.life.finished else "cancelled"
        again = with_option(resume, '-h "TEXT"')
        raise WrongUsage(f"{shown} is {over}, so no session will read it. To run it again with your words: {again}")
    give_feedback(known.task, text)
    if known.life.gate:
        click.echo("Kept for the next session. The gate is still open.")
    elif holder_of(known.task.lock_path):
        click.echo("Kept for the next session.")
    else:
        click.echo(f"Kept for the next session. To continue: {resume}")
