"""Commands for agents, from inside a session: wait, ask."""

from __future__ import annotations

import math
import os

import click

from marathon.cli.arguments import message_text
from marathon.errors import WrongUsage
from marathon.store.agent_channel import AgentChannel
from marathon.store.places import states_folder

RECORDED = "Recorded. Leave STATE.json as 'running' in this phase and stop:"


@click.command("wait", context_settings={"ignore_unknown_options": True})
@click.argument("minutes")
@click.argument("reason")
def wait(minutes: str, reason: str) -> None:
    """Ask the runner to wait 1 to 60 MINUTES (fractions allowed) before the next session."""
    try:
        number = float(minutes)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 60:
        raise WrongUsage(f"MINUTES must be a number from 1 to 60, not {minutes[:40]!r}.")
    _channel().update(waitSeconds=number * 60, waitReason=reason.encode("utf-8", "replace").decode())
    click.echo(f"{RECORDED} the next session starts after the wait.")


@click.command("ask")
@click.argument("question")
def ask(question: str) -> None:
    """Ask the human; the answer comes with the next session of this phase."""
    text = message_text(question)
    _channel().update(feedbackQuestion=text)
    click.echo(f"{RECORDED} the answer comes with the next session.")


def _channel() -> AgentChannel:
    """To the runner of this session."""
    runner = os.environ.get("MARATHON_RUNNER_ID")
    if not runner:
        raise WrongUsage("This command is for agents inside a marathon's session, and there is no session here.")
    channel = AgentChannel(states_folder(), runner)
    if not channel.read():
        raise WrongUsage("The runner of this session is gone; nothing was recorded.")
    return channel
