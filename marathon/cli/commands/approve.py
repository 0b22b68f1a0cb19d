"""pi-marathon approve DIR: go on from the open gate."""

from __future__ import annotations

import click

from marathon.cli.arguments import message_text
from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.verdict import open_gate, send
from marathon.core.records import GateOpened
from marathon.errors import WrongUsage


@click.command("approve")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("-m", "--message", help="A note for the agent; added to human.md.")
def command(directory: str, message: str | None) -> None:
    """Answer the open gate of DIR: go on."""
    task, shown, _, gate = open_gate(directory, "approve")
    if gate.kind == "question":
        raise WrongUsage(f'The agent asked a question. Answer it: pi-marathon answer {shown} "text"')
    if gate.kind == "workflow":
        raise WrongUsage(f'The workflow changed. Choose a phase: pi-marathon redo {shown} --phase PHASE -m "why"')
    text = "" if message is None else message_text(message)
    send(task, shown, gate, "continue", _said(gate), text=text)


def _said(gate: GateOpened) -> str:
    if gate.kind == "checks":
        return "Trusted to exactly these."
    return f"Approved: {gate.phase}." if gate.onward == "next" else f"Noted: {gate.phase} may go on."
