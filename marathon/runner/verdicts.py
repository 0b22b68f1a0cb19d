"""Answers to an open gate from outside of its runner: the shell commands, attach and the page send them this way."""

from __future__ import annotations

from pathlib import Path

from marathon.core.gates import refusal
from marathon.core.records import Answer, Cancelled, Gate
from marathon.errors import WrongUsage
from marathon.runner.code_socket import handed_over
from marathon.runner.status_query import Known, read_task, resume_command
from marathon.store.gate_code import GateCodes, same_code
from marathon.store.places import codes_folder
from marathon.store.task import Task


def open_gate(shown: Path, project: Path, token: str | None = None) -> tuple[Known, Gate]:
    """The task and its open gate. WrongUsage if no gate is open, another one is, or it was answered already."""
    task = Task.look(shown)
    task.home.require_record(shown)
    # The messages before the journal: a runner removes an answer once it is recorded.
    messages = task.inbox.messages()
    known = read_task(shown, project)
    gate = known.life.gate
    if gate is None or (token is not None and token != gate.token):
        not_open = f"The gate {token} of {shown} is not open any more" if token else f"No gate of {shown} is open"
        raise WrongUsage(f"{not_open}; nothing was changed. See: pi-marathon status {shown}")
    if any((each.kind, each.to) == ("verdict", gate.token) and each.choice != "undo" for each in messages):
        resume = resume_command(known.task, shown, project)
        raise WrongUsage(f"This gate was answered already. To continue: {resume}")
    return known, gate


def check_offered(known: Known, answer: Answer) -> None:
    if refused := refusal(known.offers, answer, str(known.shown)):
        raise WrongUsage(refused)


def code_fits(known: Known, gate: Gate, code: str, key: str = "") -> bool:
    """Whether this is the code of the gate. With `key`, that of an agreement of several tasks will do as well."""
    right = handed_over(known.task.own, gate.token)
    return bool(right and same_code(right, code)) or GateCodes(codes_folder()).fits(key or gate.token, code)


def send(known: Known, gate: Gate, answer: Answer, code: str, agreement: str = "") -> str:
    """Store the answer for exactly this gate, if the gate offers it, and return the id of the message,
    which the journal names with the answer.

    The runner takes it only with the gate's code. Of several who answer at once, one does. A yes that several tasks
    share names the agreement, so that it never counts as a review.
    """
    check_offered(known, answer)
    with known.task.inbox.alone():
        open_gate(known.shown, known.project, gate.token)
        said = {"choice": answer.choice, "text": answer.text, "phase": answer.phase, "by": answer.by}
        to_undo = {"files": answer.files, "head": answer.head}
        return known.task.inbox.put("verdict", to=gate.token, code=code, agreement=agreement, **said, **to_undo)


def taken(known: Known, gate: Gate) -> Answer | Cancelled | None:
    """What closed a gate. None while it is open."""
    since = (record for record in known.records if record.n > gate.n)
    return next((record for record in since if isinstance(record, Answer | Cancelled)), None)
