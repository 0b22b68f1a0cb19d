"""pi-marathon ask QUESTION: for agents, from inside a session."""

from __future__ import annotations

import click

from marathon.cli.arguments import message_text
from marathon.cli.in_session import my_channel


@click.command("ask")
@click.argument("question")
def command(question: str) -> None:
    """Ask the human; the answer comes with the next session of this phase."""
    text = message_text(question)
    my_channel().update(feedbackQuestion=text)
    click.echo(
        "Recorded. Leave STATE.json as 'running' in this phase and stop: the answer comes with the next session."
    )
