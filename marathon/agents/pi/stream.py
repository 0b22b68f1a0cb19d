"""pi driven over RPC. One process serves many sessions, each with an empty context."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from marathon.agents.base import TWICE, Host, Outcome, crash, failed_outcome, interruption, tell_swept
from marathon.agents.pi.find import EXTENSIONS, Pi, PiAgent, load_failure
from marathon.agents.pi.reading import LATE, LOGIN, Run, used_up
from marathon.agents.pi.typed import Typed, TypedLine, answer_to, cancelled, question_of
from marathon.agents.reading import table_in
from marathon.core.events import Notice, Output, Ticked
from marathon.core.life import Steer
from marathon.core.text import one_line
from marathon.errors import AgentUnavailable
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import Resident

READY_WITHIN = 60.0


class PiStream(PiAgent):
    """Starts pi for the first session, keeps it for the next ones, and starts a new one after a crash."""

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        super().__init__(args)
        self._process: Resident | None = None
        self._numbers = itertools.count(1)

    def run(self, host: Host) -> Outcome:
        if self._process is not None:
            session = _Session(self._process, host, self.pi, self._numbers)
            if not session.empty_context():
                self.close()
                stopped = interruption(session.exit) if session.exit else None
                if stopped is not None and stopped.ending != "timeout":
                    return stopped
        if self._process is None:
            argv = (self.pi.program, "--mode", "rpc", *EXTENSIONS, *self.args)
            self._process = Resident(Command(argv, host.project, host.env, inherit=(host.lock_fd,)))
            session = _Session(self._process, host, self.pi, self._numbers)
        outcome = session.converse()
        if session.exit is not None:
            self._process = None
        else:
            tell_swept(host, self._process.sweep())
        return outcome

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class _Session:
    """One session's conversation with pi. Its time includes the wait for an empty context."""

    def __init__(self, process: Resident, host: Host, pi: Pi, numbers: itertools.count[int]) -> None:
        self._process = process
        self._host = host
        self._settles = pi.settles
        self._run = Run()
        self._numbers = numbers
        self._unsent: list[Steer] = []
        self._steered: list[str] = []
        self._last_words: deque[str] = deque(maxlen=4)
        self._seconds = 0.0
        self._line = TypedLine(host.signals, host.emit)
        self._readers: dict[int, Callable[[], None]] = {}  # of the keyboard, while the human may type
        self._stopped = False  # by Esc; pi's records do not say so if pi was waiting before a retry
        self.exit: Exit | None = None

    def empty_context(self) -> bool:
        """Ask pi for an empty context. False if pi cannot give one or is gone."""
        request = self._send({"type": "new_session"})
        self._attend(lambda: request in self._run.responses, READY_WITHIN)
        response = self._run.responses.get(request, {})
        given = response.get("success") is True and not table_in(response.get("data")).get("cancelled")
        return given and self.exit is None

    def converse(self) -> Outcome:
        self._run = Run(settles=self._settles)  # what pi said while it emptied its context does not count
        request = self._send({"type": "prompt", "message": Path(self._host.prompt).read_text(encoding="utf-8")})

        def refused() -> bool:
            return self._run.responses.get(request, {}).get("success") is False

        with self._line.keys if self._host.attended else contextlib.nullcontext():
            self._readers = {0: self._read_key} if self._host.attended else {}
            self._attend(lambda: self._run.settled or refused(), self._host.timeout)
            if self.exit is None:
                self._line.finish(self._obey)
        if refused():
            said = one_line(str(self._run.responses[request].get("error", "")), 300)
            return Outcome("crashed", f"pi refused the prompt: {said}", self._seconds)
        return replace(self._ending(), seconds=self._seconds, usage=self._run.usage, steered=tuple(self._steered))

    def _ending(self) -> Outcome:
        run, exit = self._run, self.exit
        if exit is not None and not run.settled:
            said = f": {one_line(' '.join(self._last_words), 300)}" if self._last_words else ""
            if broken := load_failure("\n".join(self._last_words)):
                return Outcome("crashed", broken, permanent=True)
            return interruption(exit) or Outcome("crashed", f"pi failed ({crash(exit)}){said}")
        if (run.aborted or run.failure) and (spent := used_up(self._host.mail())):
            return Outcome("limit", spent, stop_reason="aborted")
        if run.aborted or self._stopped:
            return Outcome("left", "stopped with Esc", stop_reason="aborted")
        if run.failure is not None:
            return failed_outcome(run.failure, LOGIN)
        return Outcome("ended", stop_reason=run.stop_reason, signal=run.signal)

    def _attend(self, done: Callable[[], bool], timeout: float | None) -> None:
        host = self._host
        try:
            self.exit, seconds = self._process.attend(
                signals=host.signals,
                done=done,
                on_output=self._hear,
                on_tick=self._tick,
                on_interrupt=lambda: host.emit(Notice(TWICE, "warning")),
                on_resume=self._resumed,
                on_clock=lambda seconds: host.meter.at(self._seconds + seconds),
                timeout=timeout,
                readers=self._readers,
            )
        except StartFailed as error:
            raise AgentUnavailable(f"Could not start pi: {error.strerror}. Try it by hand: pi --version") from error
        self._seconds += seconds

    def _send(self, command: dict[str, Any]) -> str:
        request = f"m{next(self._numbers)}"
        self._process.send(json.dumps({"id": request, **command}).encode() + b"\n")
        return request

    def _tick(self) -> bool:
        self._host.emit(Ticked())
        if self._run.working and not self._run.settled:
            self._unsent += self._host.new_steering()
            self._send_steering()
        return self._host.on_tick() or self._host.meter.must_stop(late=LATE)

    def _resumed(self) -> None:
        """The shell had the terminal."""
        if self._readers:
            self._line.keys.again()
            self._line.show()
        self._host.emit(Ticked())

    # From pi

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
        """Show the oldest open dialog. If no human is there, every dialog is cancelled."""
        if self._host.attended:
            self._host.emit(Notice(question_of(self._run.dialogs[0])))
            return
        for dialog in self._run.dialogs:
            self._host.emit(Notice(f"An extension asked, but no one is there: {question_of(dialog)}", "warning"))
            self._process.send(cancelled(dialog))
        self._run.dialogs.clear()

    # From the human

    def _read_key(self) -> None:
        if typed := self._line.read():
            self._obey(typed)

    def _obey(self, typed: Typed) -> None:
        key, text = typed
        if self._run.dialogs and key != "alt+enter":
            dialog = self._run.dialogs.pop(0)
            self._process.send(cancelled(dialog) if key == "esc" else answer_to(dialog, text))
            if self._run.dialogs:
                self._show_dialog()
        elif key == "esc":
            self._stopped = True
            self._host.emit(Notice("Stopping the run…"))
            self._send({"type": "abort"})
        elif text and (key == "alt+enter" or self._run.settled):
            self._host.steer(text, True)
            self._host.emit(Notice(f"→ for the next session: {one_line(text)}"))
        elif text and (steer := self._host.steer(text, False)):
            self._unsent.append(steer)
            self._send_steering()

    def _send_steering(self) -> None:
        """Messages typed before pi begins to work wait until then."""
        while self._run.working and self._unsent:
            steer = self._unsent.pop(0)
            self._send({"type": "steer", "message": steer.text})
            self._steered.append(steer.id)
            self._host.emit(Notice(f"→ steering: {one_line(steer.text)}"))
