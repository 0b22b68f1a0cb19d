"""Shows a marathon that another process runs, steers it, and answers its gate. It can be left at any time."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from marathon.core.events import GateOpened, HumanNeeded, Logged, Notice, RunnerEnded, Sink, Ticked, WaitBegan, Waiting
from marathon.core.gates import POLICIES
from marathon.core.names import called
from marathon.core.records import Answer, Gate
from marathon.core.text import one_line
from marathon.errors import MarathonError, WrongUsage
from marathon.process.clock import moment
from marathon.process.input_line import InputLine, Typed
from marathon.process.signals import Interrupted, Signals
from marathon.runner.code_socket import handed_over
from marathon.runner.gate_view import gate_view
from marathon.runner.session import take_back
from marathon.runner.status_query import Known, read_task, resume_command, waits_for
from marathon.runner.verdicts import open_gate, send
from marathon.show.program import program
from marathon.store.events import TaskLogs
from marathon.store.lock import holder_of
from marathon.store.task import Task
from marathon.surfaces.terminal import TerminalSurface

_LOOK_AGAIN = 0.05  # for events
_LOOK_AROUND = 0.25  # for a gate and for the end
_HERE = "This gate takes answers only at its own terminal (--answers-here)."
_STOP = "Stop this marathon now, in its session? Press Esc again within 5 seconds."
_AGAIN_WITHIN = 5.0


class Attached:
    """One terminal that watches one marathon."""

    def __init__(self, shown: Path, project: Path, signals: Signals, screen: Sink, logs: TaskLogs) -> None:
        self._shown = shown
        self._project = project
        self._task = Task.look(shown)
        self._signals = signals
        self._screen = screen
        self._logs = logs
        # What was typed before is kept, because nothing that is typed here answers a gate.
        self._line = InputLine(signals, screen, lambda: take_back(self._task.inbox), keep_typed=True)
        self._surface = TerminalSurface(signals, self._task.own / "draft.md")
        self._gate_may_be_open = True
        self._rang_for = ""  # the gate the human was last called to
        self._sent = ""  # the id of the answer that this terminal has sent
        self._wait: WaitBegan | None = None
        self._ended: RunnerEnded | None = None
        self._left = False
        self._esc_until = 0.0  # another Esc stops the marathon
        self._next_look = 0.0

    def watch(self, shown: Sequence[Logged]) -> int:
        """The exit code of the marathon when it ends, or 0 when the human leaves. Some events are `shown` already."""
        for event in shown[-1:]:
            self._note(event)
        try:
            while gate := self._follow():
                self._at_gate(*gate)
        except (Interrupted, EOFError):
            self._left = True
        self._line.give_up()
        if self._left:
            name = called(self._shown.parts)
            self._screen(Notice(f"{name} goes on.\nSee it again: {program()} attach {shlex.quote(name)}"))
            return 0
        return self._over()

    # The log

    def _follow(self) -> tuple[Known, Gate] | None:
        """Until a gate wants an answer, or until the marathon has ended or the human left."""
        with self._line.keys:
            while not self._left:
                events = self._logs.new()
                for event in events:
                    self._show(event)
                if not events:
                    self._screen(Ticked())
                if not events and time.monotonic() >= self._next_look:
                    self._next_look = time.monotonic() + _LOOK_AROUND
                    if holder_of(self._task.lock_path) is None:
                        for event in self._logs.new():
                            self._show(event)
                        return None
                    # A gate before the first session is in no log.
                    self._gate_may_be_open |= not os.path.exists(self._logs.path)
                    if self._gate_may_be_open and not self._line.text and (gate := self._gate_to_answer()):
                        return gate
                    self._count_down()
                self._hear(0.0 if events else _LOOK_AGAIN)
        return None

    def _show(self, event: Logged) -> None:
        self._note(event)
        self._screen(event)

    def _note(self, event: Logged) -> None:
        self._ended = event if isinstance(event, RunnerEnded) else None
        self._wait = event if isinstance(event, WaitBegan) else None
        self._gate_may_be_open |= isinstance(event, GateOpened)

    def _count_down(self) -> None:
        if self._wait and (left := self._wait.at + self._wait.seconds - time.time()) > 0:
            self._screen(Waiting(self._wait.reason, left, skippable=True))

    # The human

    def _hear(self, patience: float) -> None:
        if typed := self._line.hear(patience):
            self._obey(typed)

    def _obey(self, typed: Typed) -> None:
        if typed.leaves:
            self._left = True
        elif typed.key == "esc" and time.monotonic() < self._esc_until:
            self._stop(now=True)
        elif typed.key == "esc":
            self._esc_until = time.monotonic() + _AGAIN_WITHIN
            self._screen(Notice(_STOP, "warning"))
        elif typed.text:
            later = typed.key == "alt+enter"
            self._task.inbox.put("steer", text=typed.text, later=later)
            self._screen(Notice(f"→ sent{' for the next session' if later else ''}: {one_line(typed.text)}"))
        elif typed.key == "enter" and self._wait:
            self._task.inbox.put("go on")

    def _stop(self, *, now: bool) -> None:
        if holder := holder_of(self._task.lock_path):
            self._task.inbox.put("stop", to=holder.runner, now=now)

    # The gate

    def _gate_to_answer(self) -> tuple[Known, Gate] | None:
        """The open gate, unless an answer to it is on its way."""
        known = read_task(self._shown, self._project)
        gate = known.life.gate
        if self._answer_waits(gate.token if gate else ""):
            return None
        self._tell_if_late(known)
        self._gate_may_be_open = False
        return (known, gate) if gate else None

    def _answer_waits(self, token: str) -> bool:
        return any((each.kind, each.to) == ("verdict", token) for each in self._task.inbox.messages())

    def _tell_if_late(self, known: Known) -> None:
        """The first answer counts. Who came second hears it."""
        sent, self._sent = self._sent, ""
        answers = [record for record in known.records if isinstance(record, Answer)]
        if sent and answers and sent not in [answer.message for answer in answers]:
            first = f"Another answer to this gate came first ({answers[-1].choice}), so yours was not used."
            self._screen(Notice(first, "warning"))

    def _at_gate(self, known: Known, gate: Gate) -> None:
        resume = resume_command(known.task, self._shown, self._project)
        view = gate_view(known, gate, resume=resume, program=program(), code=lambda: self._code(gate))
        if self._rang_for != gate.token:
            self._rang_for = gate.token
            self._screen(HumanNeeded(f"{called(self._shown.parts)} waits for {waits_for(known.life, moment())}"))
        if gate.answers == "here":
            self._screen(Notice(_HERE, "warning"))
            return
        answer = self._surface.ask(replace(view, leave=self._leave, visited=True), self._closed(gate))
        self._gate_may_be_open = True
        if answer is None or answer.by == "command" or answer.choice == "refresh":
            return
        if answer.choice == "quit":
            self._gate_may_be_open = False
            self._stop(now=False)
        else:
            self._send(gate, answer)

    def _leave(self) -> None:
        self._left = True

    def _closed(self, gate: Gate) -> Callable[[], Answer | None]:
        """Whether the gate was answered elsewhere, or its runner has gone."""
        size = os.path.getsize(self._task.journal_path)

        def look() -> Answer | None:
            nonlocal size
            if holder_of(self._task.lock_path) is None:
                return Answer(choice="quit", by="command")
            if self._answer_waits(gate.token):
                return Answer(choice="continue", by="command")
            if size != (size := os.path.getsize(self._task.journal_path)):
                now = read_task(self._shown, self._project).life.gate
                if now is None or now.token != gate.token:
                    return Answer(choice="continue", by="command")
            return None

        return look

    def _send(self, gate: Gate, answer: Answer) -> None:
        try:
            known, gate = open_gate(self._shown, self._project, gate.token)
            sent = send(known, gate, answer, self._code(gate))
            self._sent = "" if answer.choice in ("oversight", "undo") else sent  # which leave the gate open
        except WrongUsage as error:
            said = f" You said: {answer.text}" if answer.text else ""
            self._screen(Notice(f"{error}{said}", "warning"))

    def _code(self, gate: Gate) -> str:
        if code := handed_over(self._task.own, gate.token):
            return code
        raise WrongUsage("The runner does not hand over the code of its gate, so nothing was sent. Answer there.")

    # The end

    def _over(self) -> int:
        if self._ended:
            if self._ended.error:
                self._screen(Notice(self._ended.error, "error"))
            return self._ended.code
        known = read_task(self._shown, self._project)
        resume, gate = resume_command(known.task, self._shown, self._project), known.life.gate
        self._screen(Notice(f"The runner is gone; everything is saved. To continue: {resume}", "warning"))
        return POLICIES[gate.reason].exit_code if gate else MarathonError.exit_code
