"""Commands that talk to a marathon from another shell: approve, redo, answer, cancel, steer, stop."""

from __future__ import annotations

import os
from pathlib import Path

import click

from marathon.cli.arguments import DIRECTORY, message_text, optional_task, task_and_text
from marathon.cli.status_query import Known, read_task, resume_command
from marathon.core.gates import POLICIES, refusal
from marathon.core.records import Answer, Choice, Gate
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive
from marathon.store.lock import holder_of
from marathon.store.task import Task
from marathon.surfaces.gate_text import EMPTY_ANSWER, with_option

GATE = click.option("--gate", "token", metavar="TOKEN", help="Answer only if this gate is open; see: status --json.")


@click.command("approve")
@optional_task("gate")
@click.option("-m", "--message", help="A note for the agent; added to human.md.")
@GATE
def approve(shown: Path, message: str | None, token: str | None) -> None:
    """Answer the open gate of TASK: continue."""
    known, gate = _open_gate(shown, "approve", token)
    said = f"Approved: {gate.phase}." if gate.onward == "next" else f"Noted: {gate.phase} may continue."
    said = "Agreed to exactly these." if POLICIES[gate.reason].agreement else said
    _send(known, gate, said, "continue", text="" if message is None else message_text(message))


@click.command("redo")
@optional_task("gate")
@click.option("--phase", metavar="ID", help="The phase to do again; without it, the one at the gate.")
@click.option("--loop", "loop_", is_flag=True, help="Start the innermost workflow again from its first phase.")
@click.option("-m", "--message", help="Why; added to human.md. - reads standard input.")
@GATE
def redo(shown: Path, phase: str | None, loop_: bool, message: str | None, token: str | None) -> None:
    """Answer the open gate of TASK: do a phase again."""
    text = "" if message is None else message_text(message)
    known, gate = _open_gate(shown, "redo", token)
    if loop_:
        _send(known, gate, "The workflow starts again from its first phase.", "loop", text=text)
    else:
        target = phase or gate.phase
        refused = POLICIES[gate.reason].agreement
        said = "Refused: one session may fix it." if refused else f"{target} will be done again."
        _send(known, gate, said, "redo", text=text, phase=target)


@click.command("answer")
@task_and_text("gate")
@GATE
def answer(said: tuple[Path, str], token: str | None) -> None:
    """Answer the agent's question; an empty text is an answer too."""
    shown, text = said
    known, gate = _open_gate(shown, "answer", token)
    done = "Answered." if text.strip() else EMPTY_ANSWER
    _send(known, gate, done, "answer", text=text.encode("utf-8", "replace").decode())


@click.command("cancel")
@DIRECTORY
@click.option("--yes", is_flag=True, help="Do not ask.")
@GATE
def cancel(shown: Path, yes: bool, token: str | None) -> None:
    """End the run at the open gate of DIR for good. Nothing is removed; a restart with -h begins a new run."""
    known, gate = _open_gate(shown, "cancel", token)
    if not yes:
        if not interactive():
            raise WrongUsage(f"Cancelling needs a yes: pi-marathon cancel {shown} --yes")
        if not click.confirm(f"End this run of {shown} for good?"):
            click.echo("Nothing was changed.")
            return
    _send(known, gate, "Cancelled.", "cancel")


@click.command("steer")
@task_and_text("running")
def steer(said: tuple[Path, str]) -> None:
    """Send the agent of TASK a message; it comes with the next session. - reads standard input."""
    task = Task.look(said[0])
    refuse_inside_a_session(task, "steer")
    text = message_text(said[1])
    task.prepare()
    task.inbox.put("steer", text=text)
    if holder_of(task.lock_path):
        click.echo("Sent: a streamed session takes it at once, any other with the next one.")
    else:
        click.echo("Kept: it comes with the next session you start.")


@click.command("stop")
@optional_task("running")
@click.option("--now", is_flag=True, help="Stop the agent in the middle of its session.")
def stop(shown: Path, now: bool) -> None:
    """Ask the runner of TASK to stop after this session; everything is kept."""
    task = Task.look(shown)
    holder = holder_of(task.lock_path)
    if holder is None:
        raise WrongUsage(f"No marathon runs on {shown}; nothing to stop.")
    task.inbox.put("stop", to=holder.runner, now=now)
    click.echo(f"Asked the runner ({holder}) to stop {'now' if now else 'after this session'}.")


def refuse_inside_a_session(task: Task, command: str) -> None:
    """Only a human answers gates. An agent is known by its environment, and by its ancestors if it changes that."""
    import psutil

    holder = holder_of(task.lock_path)
    ours = holder and holder.pid in {process.pid for process in psutil.Process().parents()}
    if os.environ.get("MARATHON_RUNNER_ID") or ours:
        raise WrongUsage(f"'{command}' is for the human and does nothing inside an agent's session.")


def _open_gate(shown: Path, command: str, token: str | None) -> tuple[Known, Gate]:
    """The task and its open gate."""
    refuse_inside_a_session(Task.look(shown), command)
    known = read_task(shown, Path.cwd())
    gate = known.life.gate
    if gate is None or (token is not None and token != gate.token):
        not_open = f"The gate {token} of {shown} is not open any more" if token else f"No gate of {shown} is open"
        raise WrongUsage(f"{not_open}; nothing was changed. See: pi-marathon status {shown}")
    if any(message.kind == "verdict" and message.to == gate.token for message in known.task.inbox.messages()):
        resume = resume_command(known.task, shown, Path.cwd())
        raise WrongUsage(f"This gate was answered already. To continue: {resume}")
    return known, gate


def _send(known: Known, gate: Gate, said: str, choice: Choice, *, text: str = "", phase: str | None = None) -> None:
    """Store the answer for exactly this gate, if the gate offers it, and say what happens next."""
    refused = refusal(known.offers, Answer(choice=choice, phase=phase, text=text), str(known.shown))
    if refused:
        raise WrongUsage(refused)
    known.task.inbox.put("verdict", to=gate.token, choice=choice, text=text, phase=phase)
    resume = resume_command(known.task, known.shown, Path.cwd())
    if choice == "cancel":
        again = with_option(resume, '-h "what to do"')
        click.echo(f"{said} To start again: {again}")
    elif holder_of(known.task.lock_path):
        click.echo(f"{said} The running marathon takes it up at its gate.")
    else:
        click.echo(f"{said} To continue: {resume}")
