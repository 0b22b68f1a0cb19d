"""pi-marathon answer DIR TEXT: the answer to the agent's question."""

from __future__ import annotations

import click

from marathon.cli.verdict import open_gate, send
from marathon.errors import WrongUsage


@click.command("answer")
@click.argument("directory", metavar="DIR")
@click.argument("text")
def command(directory: str, text: str) -> None:
    """Answer the agent's question; an empty text is an answer too."""
    task, shown, _, gate = open_gate(directory, "answer")
    if gate.kind != "question":
        raise WrongUsage(
            f"The agent asked nothing; the gate is open for another reason. See: pi-marathon status {shown}"
        )
    send(task, shown, gate, "answer", "Answered.", text=text.encode("utf-8", "replace").decode())
