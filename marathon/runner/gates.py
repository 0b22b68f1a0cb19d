"""Attends to a gate: opens it in the journal, finds or asks for a verdict, and records it before acting on it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from marathon.core import events
from marathon.core.courses.workflow import Phase, WorkflowInvalid, advance, breadcrumb, current, loop
from marathon.core.decide import phase_ids
from marathon.core.events import HumanNeeded, Notice
from marathon.core.life import Progress
from marathon.core.records import Cancelled, Choice, GateAnswered, GateOpened, Remark
from marathon.core.steps import Gate, auto_approved, open_gate
from marathon.core.streaks import is_review
from marathon.core.text import steps_line
from marathon.errors import MarathonError
from marathon.runner.journal import Ledger
from marathon.runner.marathon import Workshop
from marathon.runner.session import update_state
from marathon.runner.stops import Stops
from marathon.store.events import has_output
from marathon.store.inbox import Message
from marathon.surfaces.gate_text import BEFOREHAND, GateView, Reply, check_lines
from marathon.surfaces.terminal import GateSurface

WAITS_FOR_HUMAN = 3
UNANSWERED = {"failed": 1, "limit": 4, "stuck": 5}


@dataclass
class Gatekeeper:
    shop: Workshop
    ledger: Ledger
    desk: GateSurface
    stops: Stops
    agree: Callable[[], None]  # remember that the human agreed to the commands a gate showed
    auto_approve: bool = False

    @property
    def progress(self) -> Progress:
        return self.ledger.progress

    def attend(self, step: Gate) -> int | None:
        """An exit code if nobody answers; otherwise the answer is recorded and the loop goes on."""
        if step.opened is None:
            self._open(step)
            return None
        reply = self._elsewhere(step)
        if reply is None and self.auto_approve and auto_approved(step):
            self.shop.emit(Notice(f"{step.phase}: passed by --auto-approve; nobody looked at it."))
            reply = Reply("continue", by="auto")
        if reply is None:
            self.shop.emit(HumanNeeded(f"pi-marathon: {step.phase} waits for you"))
            reply = self.desk.ask(self._view(step), lambda: self._elsewhere(step))
        if reply is None:
            return UNANSWERED.get(step.kind, WAITS_FOR_HUMAN)
        return self._act_on(reply, step)

    def take_waiting_verdict(self) -> None:
        """A verdict sent while no runner was there counts, also at a limit gate that more allowance dissolves."""
        gate = self.progress.gate
        if gate is not None:
            step = open_gate(gate)
            reply = self._elsewhere(step)
            if reply is not None:
                self._act_on(reply, step)

    def _act_on(self, reply: Reply, step: Gate) -> int | None:
        choice = reply.choice
        if choice == "quit":
            self.shop.emit(Notice(f"The gate stays open. To go on: {self.shop.resume}"))
            return WAITS_FOR_HUMAN
        if choice == "look":
            return None
        if choice == "cancel":
            self.ledger.record(Cancelled())
            self.shop.emit(events.GateAnswered(choice, reply.by, step.phase))
            self._forget(reply)
            return None
        self._record(choice, reply, step)
        return None

    def _open(self, step: Gate) -> None:
        if is_review(step):
            phase = self._phase()
            number = self.progress.round_of(step.phase) + 1
            self.shop.task.save_round(self.progress.run, step.phase, number, phase.output if phase else None)
        update_state(self.shop, step.phase, self.progress.iteration, state="paused")
        self.ledger.record(
            GateOpened(
                kind=step.kind,
                token=secrets.token_hex(8),
                phase=step.phase,
                message=step.message,
                note=step.note,
                onward=step.onward,
                more=step.more,
                digest=step.digest,
            )
        )
        self.shop.emit(events.GateOpened(step.kind, step.phase, step.message))

    def _record(self, choice: Choice, reply: Reply, step: Gate) -> None:
        """The verdict goes into the journal with the human's words; only then into human.md."""
        progress, stamp = self.progress, self.shop.clock().strftime("%Y-%m-%d %H:%M:%S")
        heading = f"{step.phase} phase · run {progress.run}, iteration {progress.iteration} · {stamp} UTC"
        answer = GateAnswered(choice=choice, phase=reply.phase, text=reply.text, heading=heading, by=reply.by)
        if step.kind == "checks" and choice == "continue" and step.digest == _digest(self.progress):
            self.agree()
        try:
            self.ledger.record(answer)
        except MarathonError:
            if reply.text:  # the only copy left is the one on the screen
                self.shop.emit(Notice(f"It could not be saved. What you typed:\n{reply.text}", "error"))
            raise
        self.shop.emit(events.GateAnswered(choice, reply.by, step.phase))
        self._forget(reply)
        self.ledger.write_owed_words()

    def _forget(self, reply: Reply) -> None:
        """The message may go: what it said is in the journal."""
        if reply.message:
            self.shop.task.inbox.remove(reply.message)

    def _elsewhere(self, step: Gate) -> Reply | None:
        """A verdict sent from another shell to exactly this gate; one for another gate is noted and dropped."""
        if self.stops.asked():
            return Reply("quit", by="command")
        for message in self.shop.task.inbox.messages():
            if message.kind == "verdict":
                reply = _as_reply(message, step)
                if reply is not None:
                    return reply
                dropped = f"a verdict for another gate was dropped: {message.choice} {message.text}".rstrip()
                self.ledger.record(Remark(text=dropped))
                self.shop.task.inbox.remove(message.id)
        return None

    def _view(self, step: Gate) -> GateView:
        phase, progress, task = self._phase(), self.progress, self.shop.task
        document = task.asks_in if step.kind in BEFOREHAND else (phase.output if phase else None)
        rounds = progress.round_of(step.phase)
        before = task.runs.round_path(progress.run, step.phase, rounds - 1)
        has_document = task.output_mark(document) is not None
        following, crumb, can_loop = None, "", False
        with contextlib.suppress(WorkflowInvalid):
            after, over = advance(self.shop.definitions, progress.position)
            following = None if over else current(self.shop.definitions, after).id
            crumb = breadcrumb(self.shop.definitions, progress.position)
            can_loop = progress.position.path[-1].place > 0 and bool(loop(self.shop.definitions, progress.position))
        return GateView(
            gate=step,
            task=self.shop.shown,
            iteration=progress.iteration,
            next_phase=following,
            output=self.shop.shown / document if document and has_document else None,
            previous_round=before if rounds > 1 and before.exists() else None,
            phases=phase_ids(self.shop.definitions, progress.workflow),
            can_loop=can_loop,
            breadcrumb=crumb,
            resume=self.shop.resume,
            steps=steps_line(progress.steps),
            checks=check_lines(progress.checked.results) if progress.checked else (),
            printed=self._printed() if step.kind == "failed" and not progress.checked else None,
        )

    def _printed(self) -> Path | None:
        """Everything the last session said, for whoever has to find out why it failed."""
        log = Path(self.shop.task.runs.session_path(self.progress.run, "events", self.progress.iteration, "jsonl"))
        with contextlib.suppress(MarathonError):
            return self.shop.shown / log.relative_to(self.shop.task.folder) if has_output(log) else None
        return None

    def _phase(self) -> Phase | None:
        try:
            return current(self.shop.definitions, self.progress.position)
        except WorkflowInvalid:
            return None


def _digest(progress: Progress) -> str:
    return progress.criteria.digest if progress.criteria else ""


def _as_reply(message: Message, step: Gate) -> Reply | None:
    if step.opened is None or message.to != step.opened.token:
        return None
    match message.choice:
        case "continue" | "redo" | "loop" | "answer" | "cancel" as choice:
            return Reply(choice, message.phase, message.text, by="command", message=message.id)
    return None
