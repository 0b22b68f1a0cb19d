"""Commands that talk to a marathon from another shell: approve, redo, answer, accept, cancel, steer, stop."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from marathon.cli.arguments import DIRECTORY, TASK, message_text, optional_task, task_and_text
from marathon.cli.find import enter, enter_omitted, say_which
from marathon.core.gates import POLICIES
from marathon.core.records import Answer, Choice, Gate
from marathon.core.text import clean, counted, one_line
from marathon.errors import MarathonError, WrongUsage
from marathon.process.terminal import interactive
from marathon.process.tree import look
from marathon.process.tree import send as send_signal
from marathon.runner import meanwhile
from marathon.runner.cancel import cancel_at_rest
from marathon.runner.code_socket import handed_over
from marathon.runner.marathon import utc_now
from marathon.runner.opening import end_processes
from marathon.runner.status_query import Known, condition_of, read_task, resume_command
from marathon.runner.verdicts import check_offered, code_fits, open_gate, send
from marathon.store.file_store import FileStore
from marathon.store.gate_code import GateCodes
from marathon.store.lock import Holder, holder_of
from marathon.store.places import background_folder, codes_folder
from marathon.store.task import Task
from marathon.store.task_index import forget_task
from marathon.surfaces.gate_text import EMPTY_ANSWER, with_option

_ASKED_PATIENCE, _KILLED_PATIENCE = 1.0, 3.0
_SAME_PROCESS = 2.0  # seconds by which the start of a process may seem to differ, because clocks are set
CODE = click.option("--code", metavar="CODE", help="The gate's code, as it was printed with the gate.")
GATE = click.option("--gate", "token", metavar="TOKEN", help="Answer only if this gate is open; see: status --json.")


@click.command("approve")
@click.argument("typed", metavar="[TASK]...", nargs=-1, type=TASK)
@click.option("-m", "--message", help="A note for the agent; added to human.md.")
@GATE
@CODE
def approve(typed: Sequence[Path], message: str | None, token: str | None, code: str | None) -> None:
    """Answer the open gate of TASK: continue. Several tasks take one yes where they ask for the same agreement."""
    if len(typed) > 1:
        if message is not None or token is not None:
            raise WrongUsage("A note and --gate are for one task. Leave them out, or name one task.")
        return _agree_for_all(typed, code)
    shown = enter(typed[0]) if typed else enter_omitted("gate")
    known, gate = open_gate(shown, Path.cwd(), token)
    code = _checked(known, "approve", gate, code)
    said = f"Approved: {gate.phase}." if gate.onward == "next" else f"Noted: {gate.phase} may continue."
    said = {"criteria": "Agreed to exactly these.", "definition": "Agreed to exactly this workflow."}.get(
        POLICIES[gate.reason].agreement, said
    )
    _send(known, gate, code, said, "continue", text="" if message is None else message_text(message))


def _agree_for_all(typed: Sequence[Path], code: str | None) -> None:
    """One yes for tasks that ask for exactly the same. A review is answered for one task at a time."""
    start, found = Path.cwd(), dict[Path, tuple[Known, Gate]]()
    for each in typed:
        shown = enter(each)
        known, gate = open_gate(shown, Path.cwd())
        found[known.task.folder] = replace(known, shown=known.task.folder), gate
        os.chdir(start)
    agreements = {gate.agreement for _, gate in found.values()}
    if len(agreements) > 1 or "" in agreements:
        raise WrongUsage(
            "These tasks do not ask for the same agreement; nothing was changed. "
            "Answer each by itself: pi-marathon approve TASK"
        )
    (agreement,) = agreements
    codes = GateCodes(codes_folder())
    for known, gate in found.values():
        code = _checked(known, "approve", gate, code, key=agreement)
    for known, gate in found.values():
        its = handed_over(known.task.own, gate.token) or codes.printed(gate.token)
        send(known, gate, Answer(choice="continue"), its, agreement)
    codes.forget(agreement)
    click.echo(f"Agreed for {counted(len(found), 'task')}. What runs goes on; for the others: pi-marathon list")


@click.command("redo")
@optional_task("gate")
@click.option("--phase", metavar="ID", help="The phase to do again; without it, the one at the gate.")
@click.option("--loop", "loop_", is_flag=True, help="Start the innermost workflow again from its first phase.")
@click.option("-m", "--message", help="Why; added to human.md. - reads standard input.")
@GATE
@CODE
def redo(shown: Path, phase: str | None, loop_: bool, message: str | None, token: str | None, code: str | None) -> None:
    """Answer the open gate of TASK: do a phase again."""
    text = "" if message is None else message_text(message)
    known, gate = open_gate(shown, Path.cwd(), token)
    code = _checked(known, "redo", gate, code)
    if loop_:
        _send(known, gate, code, "The workflow starts again from its first phase.", "loop", text=text)
    else:
        target = phase or gate.phase
        refused = {"criteria": "Refused: one session may fix it.", "definition": "The task keeps its workflow."}
        said = refused.get(POLICIES[gate.reason].agreement, f"{target} will be done again.")
        _send(known, gate, code, said, "redo", text=text, phase=target)


@click.command("answer")
@task_and_text("gate")
@GATE
@CODE
def answer(said: tuple[Path, str], token: str | None, code: str | None) -> None:
    """Answer the agent's question; an empty text is an answer too. - reads standard input."""
    shown, text = said
    text = message_text(text) if text == "-" else text
    known, gate = open_gate(shown, Path.cwd(), token)
    code = _checked(known, "answer", gate, code)
    done = "Answered." if text.strip() else EMPTY_ANSWER
    _send(known, gate, code, done, "answer", text=text.encode("utf-8", "replace").decode())


@click.command("undo")
@DIRECTORY
@click.argument("files", metavar="[FILE…]", nargs=-1)
@click.option("--branch", "head", is_flag=True, help="Move the branch back too, over the commits that came meanwhile.")
@click.option("--json", "as_json", is_flag=True, help="What changed, as JSON. Undoes nothing.")
@GATE
@CODE
def undo(shown: Path, files: tuple[str, ...], head: bool, as_json: bool, token: str | None, code: str | None) -> None:
    """Undo FILES that changed while a session of DIR ran which may not write there. Without FILES: show them.

    The gate stays open, and a patch of what is undone is kept.
    """
    known, gate = open_gate(shown, Path.cwd(), token)
    check_offered(known, Answer(choice="undo"))
    kept = meanwhile.shown(known)
    if as_json:
        click.echo(json.dumps({**kept._asdict(), "files": [each._asdict() for each in kept.files]}))
    elif files or head:
        code = _checked(known, "undo", gate, code)
        if unknown := [name for name in files if name not in [each.name for each in kept.files if not each.fixed]]:
            raise WrongUsage(f"{one_line(unknown[0], 200)} cannot be undone. See: pi-marathon undo {shown}")
        if head and not kept.back_to:
            raise WrongUsage(f"The branch cannot be moved back. {kept.fixed or 'It is where it was.'}")
        _send(known, gate, code, "Asked for it; the gate stays open.", "undo", files=list(files), head=head)
    else:
        for each in kept.files:
            said = each.fixed or ("A tool call of the agent wrote it." if each.by_agent else "")
            click.echo(f"{one_line(clean(each.name), 200)}  {said}".rstrip())
        branch = f"   To move the branch back to {clean(kept.back_to)}: add --branch" if kept.back_to else ""
        click.echo(f"{clean(kept.diff)}\nTo undo some of it: pi-marathon undo {shown} FILE…{branch}")


@click.command("cancel")
@DIRECTORY
@click.option("--yes", is_flag=True, help="Do not ask.")
@GATE
def cancel(shown: Path, yes: bool, token: str | None) -> None:
    """End the run of DIR for good, also in the middle of a session. A restart with -h begins a new run."""
    if token is not None:
        open_gate(shown, Path.cwd(), token)
    task = recorded(shown)
    known = read_task(shown, Path.cwd())
    resume = resume_command(task, shown, Path.cwd())
    if not known.life.begun or known.life.finished or known.life.cancelled:
        why = condition_of(known.life, running=False)
        raise WrongUsage(f"There is no run of {shown} to cancel, because it is {why}. Nothing was changed.")
    if not yes and not confirmed(f"End this run of {shown} for good?", f"pi-marathon cancel {shown} --yes"):
        return
    holder = holder_of(task.lock_path)
    if holder:
        task.inbox.put("cancel", to=str(known.life.run))
        click.echo(f"Asked the runner ({holder}) to stop now and to cancel this run.")
        return
    cancel_at_rest(FileStore(task, utc_now), known.course, task, shown, utc_now)
    again = with_option(resume, '-h "what to do"')
    click.echo(f"Cancelled. To start again: {again}")


@click.command("accept")
@DIRECTORY
@click.option("-m", "--message", required=True, help="Why it is good enough; added to human.md.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@GATE
@CODE
def accept(shown: Path, message: str, yes: bool, token: str | None, code: str | None) -> None:
    """End the task of DIR although not every criterion is met. The record says that you accepted it."""
    text = message_text(message)
    known, gate = open_gate(shown, Path.cwd(), token)
    code = _checked(known, "accept", gate, code)
    check_offered(known, Answer(choice="accept", text=text))
    unmet = ", ".join(one_line(name, 80) for name in gate.about)
    again = f"pi-marathon accept {shown} --yes -m {shlex.quote(text)}"
    if yes or confirmed(f"Accept {shown}, although this is not met: {unmet}?", again):
        _send(known, gate, code, "Accepted.", "accept", text=text)


def confirmed(question: str, with_yes: str) -> bool:
    if not interactive():
        raise WrongUsage(f"This needs a yes: {with_yes}")
    if click.confirm(question):
        return True
    click.echo("Nothing was changed.")
    return False


@click.command("steer")
@task_and_text("running")
@click.option("--next", "later", is_flag=True, help="Only for the next session.")
def steer(said: tuple[Path, str], later: bool) -> None:
    """Send the agent of TASK a message; it comes with the next session. - reads standard input."""
    task = recorded(said[0])
    text = message_text(said[1])
    task.inbox.put("steer", text=text, later=later)
    if holder_of(task.lock_path) and not later:
        click.echo("Sent: a streamed session takes it at once, any other with the next one.")
    else:
        click.echo("Kept: it comes with the next session you start.")


@click.command("stop")
@click.argument("typed", metavar="[TASK]", required=False, type=TASK)
@click.option("--now", is_flag=True, help="Stop the agent in the middle of its session.")
def stop(typed: Path | None, now: bool) -> None:
    """Ask the runner of TASK to stop after this session; everything is kept."""
    from marathon.cli.running import enter_running

    here, found = Path.cwd(), enter_running(typed, anywhere=typed is not None)
    if not typed:
        say_which(found.project / found.shown)
    task = Task.look(found.shown)
    task.inbox.put("stop", to=found.holder.runner, now=now)
    at_once = now or not read_task(found.shown, found.project).life.session
    click.echo(f"Asked the runner ({found.holder}) to stop {'now' if at_once else 'after this session'}.")
    click.echo(f"To continue then: {resume_command(task, found.shown, here)}")


@click.command("kill")
@click.argument("typed", metavar="[TASK]", required=False, type=TASK)
def kill(typed: Path | None) -> None:
    """End the running marathon of TASK and its agent at once. What was recorded is kept."""
    from marathon.cli.running import enter_running

    here, found = Path.cwd(), enter_running(typed, anywhere=typed is not None)
    if not typed:
        say_which(found.project / found.shown)
    task, holder = Task.look(found.shown), found.holder
    task.inbox.put("stop", to=holder.runner, now=True)
    if not _is_over(task, _ASKED_PATIENCE):
        end_processes(holder.runner, task)
        if not _is_over(task, _KILLED_PATIENCE):
            _kill_runner(holder)
            if not _is_over(task, _KILLED_PATIENCE):
                raise MarathonError(f"The runner of {found.shown} ({holder}) could not be ended.")
    forget_task(background_folder(), task.folder)
    click.echo(f"Ended. To continue: {resume_command(task, found.shown, here)}")


def _is_over(task: Task, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while holder_of(task.lock_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    return holder_of(task.lock_path) is None


def _kill_runner(holder: Holder) -> None:
    """A runner that does not react. The pid in its note may be another process by now, and that one is left alone."""
    process = look(holder.pid)
    if process and holder.host == socket.gethostname() and abs(process.create_time() - holder.born) < _SAME_PROCESS:
        send_signal(process, signal.SIGKILL)


def recorded(shown: Path) -> Task:
    """The task that a human has something to say to."""
    task = Task.look(shown)
    task.home.require_record(shown)
    return task


def _checked(known: Known, command: str, gate: Gate, code: str | None, key: str = "") -> str:
    """The code of the gate, or with `key` that of an agreement of several tasks. Asked for at a terminal."""
    shown = known.shown
    if gate.answers == "here":
        raise WrongUsage(f"The gate of {shown} takes answers only at its own terminal (--answers-here).")
    if gate.answers == "token":  # opened by a version without codes
        return ""
    if holder_of(known.task.lock_path):
        without = f"pi-marathon attach {shlex.quote(str(shown))}"
    else:
        without = f"{resume_command(known.task, shown, Path.cwd())}   (on a terminal)"
    where = f"It was printed where the marathon was started. To answer without it: {without}"
    if code is None and interactive():
        code = click.prompt("The gate's code, as it was printed where the marathon was started")
    if code is None:
        raise WrongUsage(f"'{command}' needs the gate's code: --code CODE. {where}")
    if not code_fits(known, gate, code, key):
        raise WrongUsage(f"That is not the code of this gate; nothing was changed. {where}")
    return code


def _send(known: Known, gate: Gate, code: str, said: str, choice: Choice, **more: Any) -> None:
    """Send the answer and say what happens next."""
    send(known, gate, Answer(choice=choice, **more), code)
    if holder_of(known.task.lock_path):
        click.echo(f"{said} The running marathon takes it up at its gate.")
    else:
        click.echo(f"{said} To continue: {resume_command(known.task, known.shown, Path.cwd())}")
