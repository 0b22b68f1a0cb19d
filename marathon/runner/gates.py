"""Resolves a gate: opens it in the journal, finds or asks for an answer, and records the answer before acting on it."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core import events
from marathon.core.events import HumanNeeded
from marathon.core.gates import POLICIES, WAITS_FOR_HUMAN, Offer, auto_answer, offers, refusal
from marathon.core.records import Answer, Cancelled, Choice, Gate, OversightSet, Remark
from marathon.core.text import one_line, steps_line
from marathon.errors import MarathonError
from marathon.runner import definition, hand_edits, verify
from marathon.runner.session import update_state
from marathon.runner.sights import document_at_hand, last_log, sights
from marathon.store.events import has_output
from marathon.store.inbox import Message
from marathon.surfaces.base import GateView
from marathon.surfaces.gate_text import check_lines

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

WITHOUT_CODE = "An answer from another shell did not have this gate's code. Nothing was changed."
AT_THIS_TERMINAL = "An answer came from another shell, but this gate takes answers only here. Nothing was changed."
_SENT: tuple[Choice, ...] = ("continue", "redo", "loop", "answer", "accept", "cancel")  # what a shell may send


def resolve(marathon: Marathon, gate: Gate) -> int | None:
    """An exit code if no one answers. Otherwise the answer is recorded and the loop continues."""
    if not gate.token:
        _open(marathon, gate)
        return None
    answer = _from_elsewhere(marathon, gate)
    if answer is None and marathon.options.auto_approve:
        answer = auto_answer(gate, marathon.life.sent_back)
        if answer is not None:
            back = answer.choice == "redo"
            did = f"goes back to {answer.phase} automatically" if back else "approved automatically"
            marathon.tell(f"{gate.phase}: {did} (--auto-approve); no one reviewed it.")
    if answer is None:
        if marathon.rang_for != gate.token:  # not again after a look
            marathon.emit(HumanNeeded(f"pi-marathon: {gate.phase} waits for you"))
            marathon.rang_for = gate.token
        answer = marathon.surface.ask(_view(marathon, gate), lambda: _from_elsewhere(marathon, gate))
    if answer is None:
        return POLICIES[gate.reason].exit_code
    return _act_on(marathon, gate, answer)


def take_waiting_answer(marathon: Marathon) -> None:
    """An answer that was sent while no runner was there counts, also at a gate that would close by itself."""
    gate = marathon.life.gate
    if gate is not None:
        answer = _from_elsewhere(marathon, gate)
        if answer is not None:
            _act_on(marathon, gate, answer)


def _offers(marathon: Marathon, gate: Gate) -> tuple[Offer, ...]:
    return offers(gate, marathon.where, marathon.life.oversight)


def _open(marathon: Marathon, gate: Gate) -> None:
    if POLICIES[gate.reason].review_round and (phase := marathon.where.phase):
        marathon.task.save_round(marathon.life.run, gate.phase, marathon.where.round, phase.output)
    update_state(marathon, gate.phase, marathon.life.iteration, state="paused")
    token = secrets.token_hex(8)
    hand_edits.remember_documents(marathon, token)
    marathon.record(replace(gate, token=token, answers="here" if marathon.options.answers_here else "code"))
    marathon.emit(events.GateOpened(gate.reason, gate.phase, gate.message))


def _act_on(marathon: Marathon, gate: Gate, answer: Answer) -> int | None:
    match answer.choice:
        case "quit":
            marathon.tell(f"The gate stays open. To continue: {marathon.resume}")
            return WAITS_FOR_HUMAN
        case "refresh":
            return None
        case "oversight":
            new = OversightSet(oversight="colleague" if marathon.life.oversight == "tool" else "tool")
            marathon.record(new)
            when = "after every session" if new.oversight == "colleague" else "only at reviews"
            marathon.tell(f"From now on you are asked {when}.")
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
        marathon.record(replace(answer, heading=heading))
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


def _problem(marathon: Marathon, gate: Gate, message: Message, answer: Answer | None) -> str:
    if message.to != gate.token or answer is None:
        return "an answer to another gate was dropped"
    if gate.answers == "here" or (gate.answers == "code" and not marathon.codes.fits(gate.token, message.code)):
        said = f" It said: {one_line(message.text, 300)}" if message.text else ""
        marathon.tell((AT_THIS_TERMINAL if gate.answers == "here" else WITHOUT_CODE) + said, "warning")
        return "an answer without the gate's code was dropped"
    refused = refusal(_offers(marathon, gate), answer, str(marathon.shown))
    if refused:
        marathon.tell(refused, "warning")
    return "an answer that this gate does not offer was dropped" if refused else ""


def _as_answer(message: Message) -> Answer | None:
    for choice in _SENT:
        if message.choice == choice:
            return Answer(choice=choice, phase=message.phase, text=message.text, by="command", message=message.id)
    return None


def _view(marathon: Marathon, gate: Gate) -> GateView:
    life, task, where, policy = marathon.life, marathon.task, marathon.where, POLICIES[gate.reason]
    output = where.phase.output if where.phase else None
    document = task.asks_in if policy.agreement == "criteria" else output
    at_hand = document_at_hand(marathon, gate)
    return GateView(
        gate=gate,
        offers=_offers(marathon, gate),
        task=marathon.shown,
        iteration=life.iteration,
        document=marathon.shown / document if document and task.output_mark(document) else None,
        at_hand=marathon.shown / at_hand if at_hand else None,
        sights=sights(marathon, gate),
        breadcrumb=where.breadcrumb,
        resume=marathon.resume,
        program=marathon.options.program,
        steps=steps_line(life.steps),
        checks=check_lines(life.checked.results) if life.checked else (),
        rating=life.rating,
        log=_log(marathon) if policy.shows_log else None,
        code="" if gate.answers == "here" else marathon.codes.code(gate.token),
    )


def _log(marathon: Marathon) -> Path | None:
    """Everything the last session said, so that the human can find out why the session failed."""
    log = last_log(marathon)
    with contextlib.suppress(MarathonError):
        return marathon.shown / log.relative_to(marathon.task.folder) if has_output(log) else None
    return None
