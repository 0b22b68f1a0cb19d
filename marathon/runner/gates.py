"""Resolves a gate: opens it in the journal, finds or asks for an answer, and records the answer before acting on it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from marathon.core import events
from marathon.core.budgets import BUDGETS, Limits
from marathon.core.comments import unanswered
from marathon.core.criteria import digest
from marathon.core.events import HumanNeeded
from marathon.core.gates import POLICIES, WAITS_FOR_HUMAN, Offer, auto_answer, offers, refusal
from marathon.core.names import called
from marathon.core.records import Answer, Cancelled, Choice, Gate, OversightSet, Remark
from marathon.core.text import one_line
from marathon.errors import MarathonError
from marathon.runner import definition, hand_edits, meanwhile, verify
from marathon.runner.background import detach, may_detach
from marathon.runner.code_socket import CodeSocket
from marathon.runner.gate_view import gate_view
from marathon.runner.review import standings
from marathon.runner.session import update_state
from marathon.runner.status_query import waits_for
from marathon.store.inbox import Message
from marathon.store.task import HUMAN

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

WITHOUT_CODE = "An answer from another shell did not have the code. Nothing was changed."
AT_THIS_TERMINAL = "An answer came from another shell, but answers are taken only here. Nothing was changed."
# What a shell or an attached terminal may send.
_SENT: tuple[Choice, ...] = ("continue", "redo", "loop", "answer", "accept", "undo", "oversight", "cancel")


def resolve(marathon: Marathon, gate: Gate) -> int | None:
    """An exit code if no one answers. Otherwise the answer is recorded and the loop continues."""
    if not gate.token:
        _open(marathon, gate)
        return None
    answer = _from_elsewhere(marathon, gate)
    if answer is None and marathon.options.auto_approve:
        gate = replace(gate, unanswered=unanswered(standings(marathon)))  # one may have come, or was withdrawn
        answer = auto_answer(gate, marathon.life.sent_back)
        if answer is not None:
            back = answer.choice == "redo"
            did = f"goes back to {answer.phase} automatically" if back else "approved automatically"
            marathon.tell(f"{gate.phase}: {did} (--auto-approve); no one reviewed it.")
            meanwhile.note_kept(marathon)
        elif gate.unanswered:
            marathon.tell(f"--auto-approve stops here: {', '.join(gate.unanswered)} must be answered first.", "warning")
    if answer is None:
        if marathon.rang_for != gate.token:  # not again after a look
            marathon.emit(
                HumanNeeded(f"{called(marathon.shown.parts)} waits for {waits_for(marathon.life, marathon.now())}")
            )
            marathon.rang_for = gate.token
        code = partial(marathon.codes.printed, gate.token)
        view = gate_view(marathon, gate, resume=marathon.resume, program=marathon.options.program, code=code)
        said = marathon.task.output_mark(HUMAN)
        marathon.end_programs()
        with CodeSocket(marathon.task.own, gate.token, marathon.codes.code(gate.token)) as handing_over:
            if may_detach(marathon):
                view = replace(view, leave=handing_over.around(partial(detach, marathon)))
            answer = marathon.surface.ask(view, lambda: _from_elsewhere(marathon, gate) or _more_said(marathon, said))
    if answer is None:
        return POLICIES[gate.reason].exit_code
    return _act_on(marathon, gate, answer)


def take_waiting_answer(marathon: Marathon) -> None:
    """An answer that was sent while no runner was there counts, also at a gate that would close by itself."""
    answer = None
    while (gate := marathon.life.gate) and (answer is None or answer.choice == "undo"):  # which leaves the gate open
        if (answer := _from_elsewhere(marathon, gate)) is None:
            break
        _act_on(marathon, gate, answer)


def _offers(marathon: Marathon, gate: Gate) -> tuple[Offer, ...]:
    return offers(gate, marathon.where, marathon.life.oversight)


def _open(marathon: Marathon, gate: Gate) -> None:
    if POLICIES[gate.reason].review_round and (phase := marathon.where.phase):
        marathon.task.save_round(marathon.life.run, gate.phase, marathon.where.round, phase.output)
        gate = replace(gate, output=marathon.task.digest(phase.output) if phase.output else "")
    update_state(marathon, gate.phase, marathon.life.iteration, state="paused")
    token = secrets.token_hex(8)
    hand_edits.remember_documents(marathon, token)
    marathon.codes.begin(token)
    found, known = standings(marathon, withdrawn_too=True), marathon.life.comment_answers
    new = {each.comment.id: each.answer.text for each in found if each.answer}
    gate = replace(gate, comments=len(found), answered=dict(new.items() - set(known)), unanswered=unanswered(found))
    home = marathon.options.home or marathon.project
    undone = [writes for _, writes in marathon.life.writes if not writes.tree]
    back = [marathon.snapshots.command_back(writes, home) for writes in undone]
    gate = replace(
        gate,
        writes=meanwhile.at_gate(marathon),
        put_back=list(filter(None, back)),
        undoable=bool(meanwhile.kept(marathon)),
    )
    usual, shown = Limits(), marathon.options.limits
    limits = {each.field: getattr(shown, each.field) for each in BUDGETS}
    gate = replace(gate, limits={name: limit for name, limit in limits.items() if limit != getattr(usual, name)})
    gate = replace(gate, agreement=_agreement(marathon, gate))
    marathon.record(replace(gate, token=token, answers="here" if marathon.options.answers_here else "code"))
    marathon.emit(events.GateOpened(gate.reason, gate.phase, gate.message))


def _agreement(marathon: Marathon, gate: Gate) -> str:
    """What there is to agree to, whichever task asks for it. Empty for what concerns this task alone."""
    criteria, home = marathon.life.criteria, str(marathon.options.home or marathon.project)
    if gate.reason == "definition":
        return digest((), f"{home}\n{gate.digest}")
    if gate.reason != "checks" or criteria is None or criteria.problem or criteria.lost:
        return ""
    return digest(criteria.criteria, home, criteria.setup)


def _act_on(marathon: Marathon, gate: Gate, answer: Answer) -> int | None:
    match answer.choice:
        case "quit":
            marathon.tell(f"It still waits for you. To continue: {marathon.resume}")
            return WAITS_FOR_HUMAN
        case "refresh":
            return None
        case "oversight":
            new = OversightSet(oversight="colleague" if marathon.life.oversight == "tool" else "tool")
            marathon.record(new)
            when = "after every session" if new.oversight == "colleague" else "only at reviews"
            marathon.tell(f"From now on you are asked {when}.")
        case "undo":
            meanwhile.undo(marathon, answer)
        case "cancel":
            marathon.record(Cancelled())
            marathon.emit(events.GateAnswered(answer.choice, answer.by, gate.phase))
        case _:
            _record(marathon, gate, answer)
    if answer.message:  # what it said is in the journal
        marathon.store.remove(answer.message)
    if marathon.life.gate is None:
        marathon.codes.forget(gate.token)
    return None


def _record(marathon: Marathon, gate: Gate, answer: Answer) -> None:
    """The answer goes into the journal with the human's words, and only then into human.md."""
    life, stamp = marathon.life, marathon.clock().strftime("%Y-%m-%d %H:%M:%S")
    heading = f"{gate.phase} phase · run {life.run}, iteration {life.iteration} · {stamp} UTC"
    agreement = POLICIES[gate.reason].agreement if answer.choice == "continue" else ""
    if agreement == "criteria" and gate.digest == (life.criteria.digest if life.criteria else ""):
        verify.agree(marathon)
    if agreement == "definition" and life.definition and gate.digest == life.definition.digest:
        definition.remember(marathon, life.definition)
    hand_edits.record_edits(marathon, gate)
    try:
        marathon.record(replace(answer, heading=heading, documents=hand_edits.digests(marathon)))
    except MarathonError:
        if answer.text:  # the only copy left is the one on the screen
            marathon.tell(f"It could not be saved. What you typed:\n{answer.text}", "error")
        raise
    marathon.emit(events.GateAnswered(answer.choice, answer.by, gate.phase))
    marathon.journal.write_owed_words()
    marathon.snapshots.take()


def _from_elsewhere(marathon: Marathon, gate: Gate) -> Answer | None:
    """An answer sent from another shell to exactly this gate. Any other is noted and dropped."""
    if marathon.stops.asked():
        return Answer(choice="cancel" if marathon.stops.cancels else "quit", by="command")
    marathon.anew()
    for message in marathon.store.messages():
        if message.kind != "verdict":
            continue
        answer = _as_answer(message)
        problem = _problem(marathon, gate, message, answer)
        if answer is not None and not problem:
            return answer
        marathon.record(Remark(text=f"{problem}: {message.choice} {message.text}".rstrip()))
        marathon.store.remove(message.id)
    if POLICIES[gate.reason].standing and verify.missing_files(marathon) != marathon.life.missing:
        return Answer(choice="refresh", by="command")
    return None


def _more_said(marathon: Marathon, before: object) -> Answer | None:
    """A look at a gate anew, because a comment came from elsewhere, or words were typed into human.md."""
    return Answer(choice="refresh", by="command") if marathon.task.output_mark(HUMAN) != before else None


def _problem(marathon: Marathon, gate: Gate, message: Message, answer: Answer | None) -> str:
    if message.to != gate.token or answer is None:
        return "an answer to another gate was dropped"
    if gate.answers == "here" or (gate.answers == "code" and not marathon.codes.fits(gate.token, message.code)):
        said = f" It said: {one_line(message.text, 300)}" if message.text else ""
        marathon.tell((AT_THIS_TERMINAL if gate.answers == "here" else WITHOUT_CODE) + said, "warning")
        return "an answer without the gate's code was dropped"
    if message.agreement not in ("", gate.agreement):
        return "a yes to another agreement was dropped"
    refused = refusal(_offers(marathon, gate), answer, str(marathon.shown))
    if refused:
        marathon.tell(refused, "warning")
    return "an answer that this gate does not offer was dropped" if refused else ""


def _as_answer(message: Message) -> Answer | None:
    by: Literal["page", "command"] = "page" if message.by == "page" else "command"
    for choice in _SENT:
        if message.choice == choice:
            return Answer(
                choice=choice,
                phase=message.phase,
                text=message.text,
                by=by,
                message=message.id,
                files=message.files,
                head=message.head,
            )
    return None
