"""Sends a human's verdict to the gate that is open now, for approve, redo, answer and cancel."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from marathon.cli.arguments import task_path
from marathon.cli.in_session import refuse_inside_a_session
from marathon.core.life import Progress, fold
from marathon.core.records import GateOpened
from marathon.core.text import one_line
from marathon.errors import WrongUsage
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of
from marathon.store.task import Task
from marathon.surfaces.gate_text import with_option


def open_gate(directory: str, command: str) -> tuple[Task, Path, Progress, GateOpened]:
    """The task and its open gate; WrongUsage if there is none."""
    shown = task_path(directory)
    task = Task.look(shown)
    refuse_inside_a_session(task, command)
    progress = fold(read_journal(task.journal_path))
    if progress.gate is None:
        raise WrongUsage(f"No gate of {shown} is open; nothing was changed. See: pi-marathon status {_quoted(shown)}")
    if any(message.kind == "verdict" and message.to == progress.gate.token for message in task.inbox.messages()):
        raise WrongUsage(f"This gate was answered already. To go on: {resume_command(task, shown)}")
    return task, shown, progress, progress.gate


def send(
    task: Task, shown: Path, gate: GateOpened, choice: str, said: str, *, text: str = "", phase: str | None = None
) -> None:
    """Store the verdict for exactly this gate and say what happens next."""
    task.inbox.put("verdict", to=gate.token, choice=choice, text=text, phase=phase)
    resume = resume_command(task, shown)
    if choice == "cancel":
        again = with_option(resume, '-h "what to do"')
        click.echo(f"{said} To start again: {again}")
    elif holder_of(task.lock_path) is not None:
        click.echo(f"{said} The running marathon takes it up at its gate.")
    else:
        click.echo(f"{said} To go on: {resume}")


def resume_command(task: Task, shown: Path) -> str:
    """The command that goes on with this task: the one last used for it, if known."""
    from marathon.store.lock import last_holder

    holder = last_holder(task.lock_path)
    if not holder or not holder.resume:
        return f"pi-marathon --task {_quoted(shown)}"
    go_there = "" if holder.cwd in ("", os.getcwd()) else f"cd {shlex.quote(holder.cwd)} && "
    return one_line(go_there + holder.resume, 4000)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
