"""pi driven over RPC. One process serves many sessions, each with an empty context."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from marathon.agents.base import Host, Outcome, crash, failed_outcome, interruption, tell_swept
from marathon.agents.conversation import Conversation
from marathon.agents.pi.find import EXTENSIONS, Pi, PiAgent, load_failure
from marathon.agents.pi.reading import LATE, LOGIN, Run, used_up
from marathon.agents.pi.typed import answer_to, cancelled, question_of
from marathon.agents.reading import table_in
from marathon.core.events import Event, Notice
from marathon.core.life import Steer
from marathon.core.text import one_line
from marathon.process.input_line import Typed
from marathon.process.sandbox import wall_of
from marathon.process.start import Command
from marathon.process.supervisor import Resident

READY_WITHIN = 60.0


class PiStream(PiAgent):
    """Starts pi for the first session, keeps it for the next ones, and starts a new one after a crash."""

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        super().__init__(args)
        self._process: Resident | None = None
        self._numbers = itertools.count(1)

    def run(self, host: Host) -> Outcome:
        if self._process is not None and self._process.wall != wall_of(host.env):
            self.close()  # another phase may write elsewhere
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
        outcome = session.run()
        if session.exit is not None:
            self._process = None
        else:
            tell_swept(host, self._process.sweep())
        return outcome

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class _Session(Conversation):
    """One session's conversation with pi. Its time includes the wait for an empty context."""

    program = "pi"

    def __init__(self, process: Resident, host: Host, pi: Pi, numbers: itertools.count[int]) -> None:
        super().__init__(process, host)
        self._settles = pi.settles
        self._run = Run()
        self._numbers = numbers

    def empty_context(self) -> bool:
        """Ask pi for an empty context. False if pi cannot give one or is gone."""
        request = self._request({"type": "new_session"})
        self.attend(lambda: request in self._run.responses, READY_WITHIN)
        response = self._run.responses.get(request, {})
        given = response.get("success") is True and not table_in(response.get("data")).get("cancelled")
        return given and self.process.is_alive()

    def run(self) -> Outcome:
        self._run = Run(settles=self._settles)  # what pi said while it emptied its context does not count
        self._request({"type": "get_state"})  # which model, and how large its context is
        request = self._request({"type": "prompt", "message": Path(self.host.prompt).read_text(encoding="utf-8")})

        def refused() -> bool:
            return self._run.responses.get(request, {}).get("success") is False

        self.converse(lambda: self._run.settled or refused())
        if refused():
            said = one_line(str(self._run.responses[request].get("error", "")), 300)
            return Outcome("crashed", f"pi refused the prompt: {said}", self.seconds)
        return replace(self._ending(), seconds=self.seconds, usage=self.host.meter.usage, steered=tuple(self.steered))

    def _ending(self) -> Outcome:
        run, exit = self._run, self.exit
        if exit is not None and not run.settled:
            if broken := load_failure("\n".join(self.last_words)):
                return Outcome("crashed", broken, permanent=True)
            return interruption(exit) or Outcome("crashed", f"pi failed ({crash(exit)}){self.notes()}")
        if (run.aborted or run.failure) and (spent := used_up(self.host.mail())):
            return Outcome("limit", spent, stop_reason="aborted")
        if run.aborted or self.stopped:  # pi's records do not say so if pi was waiting before a retry
            return Outcome("left", "stopped with Esc", stop_reason="aborted")
        if run.failure is not None:
            return failed_outcome(run.failure, LOGIN)
        return Outcome("ended", stop_reason=run.stop_reason, signal=run.signal)

    # What pi's records mean

    def read(self, line: bytes, complete: bool) -> Iterable[Event]:
        return self._run.read(line, complete)

    def updates(self) -> Iterable[Event]:
        return self._run.updates()

    def is_over(self) -> bool:
        return self._run.settled

    def listens(self) -> bool:
        return self._run.working

    def steer(self, steer: Steer) -> None:
        self._request({"type": "steer", "message": steer.text})

    def stop(self) -> None:
        self._request({"type": "abort"})

    def must_stop(self) -> bool:
        return self.host.meter.must_stop(late=LATE)  # our extension keeps to the budgets

    def _request(self, command: dict[str, Any]) -> str:
        request = f"m{next(self._numbers)}"
        self.send({"id": request, **command})
        return request

    # Dialogs of pi's extensions

    def hear(self, stream: str, line: bytes, complete: bool) -> None:
        asking = bool(self._run.dialogs)
        super().hear(stream, line, complete)
        if self._run.dialogs and not asking:
            self._show_dialog()

    def obey(self, typed: Typed) -> None:
        if not self._run.dialogs or typed.key == "alt+enter":
            super().obey(typed)
            return
        dialog = self._run.dialogs.pop(0)
        self.process.send(cancelled(dialog) if typed.key == "esc" else answer_to(dialog, typed.text))
        if self._run.dialogs:
            self._show_dialog()

    def _show_dialog(self) -> None:
        """Show the oldest open dialog. If no human is there, every dialog is cancelled."""
        if self.host.attended:
            self.host.emit(Notice(question_of(self._run.dialogs[0])))
            return
        for dialog in self._run.dialogs:
            self.host.emit(Notice(f"An extension asked, but no one is there: {question_of(dialog)}", "warning"))
            self.process.send(cancelled(dialog))
        self._run.dialogs.clear()
