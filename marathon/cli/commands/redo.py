"""pi-marathon redo DIR: do a phase again, saying why."""

from __future__ import annotations

from pathlib import Path

import click

from marathon.cli.arguments import message_text
from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.verdict import open_gate, send
from marathon.core.courses.workflow import WorkflowInvalid, loop
from marathon.core.decide import phase_ids
from marathon.errors import WrongUsage
from marathon.store.definitions import load_workflows


@click.command("redo")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--phase", metavar="ID", help="The phase to do again; without it, the one at the gate.")
@click.option("--loop", "loop_", is_flag=True, help="Start the innermost workflow again from its first phase.")
@click.option("-m", "--message", required=True, help="Why; added to human.md. - reads standard input.")
def command(directory: str, phase: str | None, loop_: bool, message: str) -> None:
    """Answer the open gate of DIR: do a phase again."""
    text = message_text(message)
    task, shown, progress, gate = open_gate(directory, "redo")
    workflows = load_workflows(Path.cwd()).workflows
    if loop_:
        try:
            loop(workflows, progress.position)
        except WorkflowInvalid as refused:
            raise WrongUsage(f"Cannot loop: {refused}.") from refused
        send(task, shown, gate, "loop", "The workflow starts again from its first phase.", text=text)
        return
    known = phase_ids(workflows, progress.workflow)
    if phase is not None and phase not in known:
        raise WrongUsage(f"There is no phase {phase!r} in this workflow. Choose one of: {', '.join(known)}.")
    target = phase or gate.phase
    said = "Refused: one session may mend it." if gate.kind == "checks" else f"{target} will be done again."
    send(task, shown, gate, "redo", said, text=text, phase=target)
