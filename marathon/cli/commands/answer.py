"""pi-marathon answer DIR TEXT: the answer to the agent's question."""

from __future__ import annotations

import click

from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.verdict import open_gate, send
from marathon.errors import WrongUsage
from marathon.surfaces.gate_text import EMPTY_ANSWER


@click.command("answer")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.argument("text")
def command(directory: str, text: str) -> None:
    """Answer the agent's question; an empty text is an answer too."""
    task, shown, _, gate = open_gate(directory, "answer")
    if gate.kind != "question":
        raise WrongUsage(
            f"The agent asked nothing; the gate is open for another reason. See: pi-marathon status {shown}"
        )
    said = "Answered." if text.strip() else EMPTY_ANSWER
    send(task, shown, gate, "answer", said, text=text.encode("utf-8", "replace").decode())
