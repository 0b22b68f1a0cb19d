"""pi driven over RPC: one process for many sessions, an empty context for each, everything shown as it comes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from marathon.agents.base import TWICE, Host, Outcome, interruption
from marathon.agents.pi.dialogs import answer_to, cancelled, question_of
from marathon.agents.pi.find import EXTENSION, Pi, check_login, find_pi
from marathon.agents.pi.reading import LOGIN, Run
from marathon.agents.pi.typed import TypedLine
from marathon.agents.reading import failed_outcome
from marathon.core.events import Notice, Output, Ticked
from marathon.core.life import Steer
from marathon.core.text import one_line
from marathon.errors import AgentUnavailable
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import Resident

READY_WITHIN = 60.0
FINISH_TYPING_WITHIN = 6.0


class PiStream:
    """Starts pi for the first session, keeps it for the next ones, and takes a new one after a crash."""

    name = "pi"
    tells_usage = True

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        self._args = args
        self._pi: Pi | None = None
        self._process: Resident | None = None
        self._numbers = itertools.count(1)

    def check(self) -> None:
        self._pi = find_pi(os.environ)
        check_login(self._pi, self._args, os.environ)

    def run(self, host: Host) -> Outcome:
        kept = self._process is not None
        session = self._session(host)
        if kept and not session.ask({"type": "new_session"}):
            self.close()
            stopped = interruption(session.exit) if session.exit else None
            if stopped is not None and stopped.ending != "timeout":
                return stopped
            session = self._session(host)
        outcome = session.converse()
        if session.exit is not None:
            self._process = None
        elif self._process is not None:
            swept = self._process.sweep()
            if swept:
                host.emit(Notice(f"{swept} process(es) the agent's tools had left running were ended.", "warning"))
        return outcome

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _found(self) -> Pi:
        if self._pi is None:
            self._pi = find_pi(os.environ)
        return self._pi

    def _session(self, host: Host) -> _Session:
        """With the pi that is there, or with a new one."""
        if self._process is None:
            argv = (self._found().program, "--mode", "rpc", "-e", str(EXTENSION), *self._args)
            self._process = Resident(Command(argv, host.project, host.env, inherit=(host.lock_fd,)))
        return _Session(self._process, host, self._found().settles, self._numbers)


class _Session:
    """One session's conversation with the process; the time it takes to get an empty context is part of it."""

    def __init__(self, process: Resident, host: Host, settles: bool, numbers: itertools.count[int]) -> None:
        self._process = process
        self._host = host
        self._settles = settles
        self._run = Run()
        self._numbers = numbers
        self._unsent: list[Steer] = []
        self._steered: list[str] = []
        self._last_words: deque[str] = deque(maxlen=4)
        self._seconds = 0.0
        self._typed: TypedLine | None = None
        self._stopped = False  # by Esc; where pi was waiting to try again, its records do not call that aborted
        self.exit: Exit | None = None

    def converse(self) -> Outcome:
        self._run = Run(settles=self._settles)
        prompt = Path(self._host.prompt).read_text(encoding="utf-8")
        request = self._send({"type": "prompt", "message": prompt})
        with contextlib.ExitStack() as stack:
            readers = {}
            if self._host.attended:
                self._typed = TypedLine(
                    self._host.signals,
                    self._host.emit,
                    on_line=self._entered,
                    on_later=self._later,
                    on_escape=self._escaped,
                )
                stack.enter_context(self._typed.keys)
                readers[0] = self._typed.read
            self._attend(lambda: self._run.settled or self._refused(request), self._host.timeout, readers)
            self._let_finish()
        if self._refused(request):
            said = one_line(str(self._run.responses[request].get("error", "")), 300)
            return Outcome("crashed", f"pi refused the prompt: {said}", self._seconds)
        return self._outcome()

    def _refused(self, request: str) -> bool:
        return self._run.responses.get(request, {}).get("success") is False

    def ask(self, command: dict[str, Any]) -> bool:
        """A command that answers at once; False if it failed or pi is gone."""
        request = self._send(command)
        self._attend(lambda: request in self._run.responses, READY_WITHIN, {})
        response = self._run.responses.get(request, {})
        data = response.get("data")
        refused = response.get("success") is not True or (isinstance(data, dict) and data.get("cancelled"))
        return not refused and self.exit is None  # it may have answered and died in one go

    def _outcome(self) -> Outcome:
        return replace(self._ending(), seconds=self._seconds, usage=self._run.usage, steered=tuple(self._steered))

    def _ending(self) -> Outcome:
        run, exit = self._run, self.exit
        if exit is not None and not run.settled:
            how = f"signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"
            said = f": {one_line(' '.join(self._last_words), 300)}" if self._last_words else ""
            return interruption(exit) or Outcome("crashed", f"pi ended with {how}{said}")
        if run.aborted or self._stopped:
            return Outcome("left", "stopped with Esc", stop_reason="aborted")
        if run.failure is not None:
            return failed_outcome(run.failure, LOGIN)
        return Outcome("ended", stop_reason=run.stop_reason, signal=run.signal)

    def _attend(self, done: Callable[[], bool], timeout: float | None, readers: dict[int, Callable[[], None]]) -> None:
        host = self._host
        try:
            self.exit, seconds = self._process.attend(
                signals=host.signals,
                done=done,
                on_output=self._hear,
                on_tick=self._tick,
                on_interrupt=lambda: host.emit(Notice(TWICE, "warning")),
                on_resume=self._resumed,
                timeout=timeout,
                readers=readers,
            )
        except StartFailed as error:
            raise AgentUnavailable(f"Could not start pi: {error.strerror}. Try it by hand: pi --version") from error
        self._seconds += seconds

    def _send(self, command: dict[str, Any]) -> str:
        request = f"m{next(self._numbers)}"
        self._process.send(json.dumps({"id": request, **command}).encode() + b"\n")
        return request

    # What comes from pi

    def _hear(self, stream: str, line: bytes, complete: bool) -> None:
        if stream == "err":
            text = line.decode("utf-8", "replace")
            if text.strip():
                self._last_words.append(text.strip())
            self._host.emit(Output(stream, text, complete))
            return
        asking = bool(self._run.dialogs)
        for event in self._run.read(line, complete):
            self._host.emit(event)
        if self._run.dialogs and not asking:
            self._show_dialog()

    def _show_dialog(self) -> None:
        """Ask the oldest open dialog of an extension; without a human it is cancelled, not guessed."""
        if self._host.attended:
            self._host.emit(Notice(question_of(self._run.dialogs[0])))
            return
        for dialog in self._run.dialogs:
            self._host.emit(Notice(f"An extension asked, but no one is there: {question_of(dialog)}", "warning"))
            self._process.send(cancelled(dialog))
        self._run.dialogs.clear()

    # What comes from the human

    def _tick(self) -> bool:
        self._host.emit(Ticked())
        if self._run.working and not self._run.settled:
            self._unsent += self._host.new_steering()
            self._send_steering()
        return self._host.on_tick()

    def _send_steering(self) -> None:
        """What was typed before pi began to work waits for that."""
        while self._run.working and self._unsent:
            steer = self._unsent.pop(0)
            self._send({"type": "steer", "message": steer.text})
            self._steered.append(steer.id)
            self._host.emit(Notice(f"→ steering: {one_line(steer.text, 200)}"))

    def _entered(self, text: str) -> None:
        if self._run.dialogs:
            self._reply(answer_to(self._run.dialogs.pop(0), text))
        elif text:
            if self._run.settled:
                self._later(text)
            elif steer := self._host.steer(text, False):
                self._unsent.append(steer)
                self._send_steering()

    def _let_finish(self) -> None:
        """The rest of a line begun in this session must not be taken for keys at the gate that may follow."""
        if self._typed is not None and self._typed.text and self.exit is None:
            self._host.emit(Notice("The session is over. Enter keeps your line for the next one; Esc drops it."))
            self._typed.finish(FINISH_TYPING_WITHIN)
            if self._typed.text:
                self._host.emit(Notice(f"Not sent: {one_line(self._typed.text, 200)}", "warning"))

    def _later(self, text: str) -> None:
        if text:
            self._host.steer(text, True)
            self._host.emit(Notice(f"→ for the next session: {one_line(text, 200)}"))

    def _escaped(self) -> None:
        if self._run.dialogs:
            self._reply(cancelled(self._run.dialogs.pop(0)))
        else:
            self._stopped = True
            self._host.emit(Notice("Stopping the run…"))
            self._send({"type": "abort"})

    def _reply(self, response: bytes) -> None:
        self._process.send(response)
        if self._run.dialogs:
            self._show_dialog()

    def _resumed(self) -> None:
        if self._typed is not None:
            self._typed.keys.again()
            self._typed.show()
        self._host.emit(Ticked())
