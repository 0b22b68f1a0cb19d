"""A session with a program that reads and writes JSON lines, as far as every such program is alike.

What the program says becomes events. What the human types, and steering from another shell, reaches it while it works.
An adapter says what its program's records mean, when the session is over, and how to steer and to stop.
"""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from marathon.agents.base import TWICE, Host, Outcome, crash, interruption, tell_swept
from marathon.agents.reading import Records, failure_of
from marathon.core.error_kind import is_blocking
from marathon.core.events import LONGEST_TEXT, Event, Notice, Output, Ticked
from marathon.core.life import Steer
from marathon.core.text import one_line
from marathon.errors import AgentUnavailable
from marathon.process.input_line import Typed, for_next_session
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import Resident

ANSWER_WITHIN = 60.0  # seconds for the first answer; the slowest program needs 12 on a busy machine
LEAVE_WITHIN = 2.0
_TICK = 0.1  # who follows the log sees text this soon


class Conversation(ABC):
    program: str  # as the human types it

    def __init__(self, process: Resident, host: Host) -> None:
        self.process = process
        self.host = host
        self.exit: Exit | None = None
        self.steered: list[str] = []
        self.stopped = False  # by Esc
        self.mute = False  # it answered nothing for so long that it was ended
        self.hung_up = False  # nothing good can follow, so the program is ended at once
        self.seconds = 0.0
        self.last_words: deque[str] = deque(maxlen=4)
        self._readers: dict[int, Callable[[], None]] = {}  # of the keyboard, while the human may type
        self._unsent: list[Steer] = []

    # What an adapter says about its program

    @abstractmethod
    def read(self, line: bytes, complete: bool) -> Iterable[Event]:
        """What a line, or a piece of an overlong one, means."""

    @abstractmethod
    def is_over(self) -> bool: ...

    @abstractmethod
    def listens(self) -> bool:
        """Whether a message would reach the agent now."""

    @abstractmethod
    def steer(self, steer: Steer) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Ask the program to stop what it does."""

    def ask_to_stop(self) -> bool:
        """Before it is ended: ask a program that tells what it used at its end to tell it now. False if it need not."""
        return False

    def has_answered(self) -> bool:
        """Whether it answered our first request, for programs that owe an answer at once."""
        return True

    def can_be_steered(self) -> bool:
        """Whether what the human types can reach the agent in this session."""
        return True

    def updates(self) -> Iterable[Event]:
        """What became due without a new line."""
        return ()

    def notes(self) -> str:
        """The last lines on standard error, to follow a cause."""
        return f": {one_line(' '.join(self.last_words), 300)}" if self.last_words else ""

    def crashed(self, exit: Exit) -> Outcome:
        if self.mute:
            said = f"{self.program} did not answer its first request within {ANSWER_WITHIN:.0f} seconds{self.notes()}."
            return Outcome("crashed", f"{said} Try it by hand.", permanent=True)
        cause = f"{self.program} failed ({crash(exit)}){self.notes()}"
        permanent = is_blocking(exit.code, cause)
        failure = failure_of(" ".join(self.last_words))
        permanent = permanent or failure.kind == "login"
        outage, retry_after = failure.kind == "outage", failure.retry_after
        return Outcome(
            "crashed",
            cause,
            permanent=permanent,
            outage=outage and not permanent,
            retry_after=None if permanent else retry_after,
        )

    # The session

    def converse(self, done: Callable[[], bool]) -> None:
        """Attend the program until `done`, or until it is gone, while the human may type."""
        line = self.host.line
        with line.keys if line else contextlib.nullcontext():
            self._readers = {0: self._read_key} if line else {}
            self.attend(done, self.host.timeout)
            if line and self.exit is None:
                line.finish("The session", self.obey)
            if line:
                line.give_up()
        self._readers = {}

    def attend(self, done: Callable[[], bool], timeout: float | None) -> None:
        host = self.host
        try:
            self.exit, seconds = self.process.attend(
                signals=host.signals,
                done=done,
                on_output=self.hear,
                on_tick=self._tick,
                on_interrupt=lambda: host.emit(Notice(TWICE, "warning")),
                on_resume=self._resumed,
                on_clock=self._at,
                timeout=timeout,
                readers=self._readers,
                tick=_TICK,
                ask=self.ask_to_stop,
            )
        except StartFailed as error:
            cure = f"Try it by hand: {self.program} --version"
            raise AgentUnavailable(f"Could not start {self.program}: {error.strerror}. {cure}") from error
        self.seconds += seconds

    def _at(self, seconds: float) -> None:
        self.host.meter.at(self.seconds + seconds)
        self.mute = self.mute or (seconds > ANSWER_WITHIN and not self.has_answered())

    def send(self, record: dict[str, Any]) -> None:
        self.process.send(json.dumps(record).encode() + b"\n")

    def must_stop(self) -> bool:
        return self.host.meter.must_stop()

    def _tick(self) -> bool:
        for event in self.updates():
            self.host.emit(event)
        self.host.emit(Ticked())
        if self.listens() and not self.is_over():
            self._unsent += self.host.new_steering()
            self._send_steering()
        return self.host.on_tick() or self.must_stop() or self.mute

    def _resumed(self) -> None:
        """The shell had the terminal."""
        if self._readers and self.host.line:
            self.host.line.keys.again()
            self.host.line.show()
        self.host.emit(Ticked())

    def hear(self, stream: str, line: bytes, complete: bool) -> None:
        if stream == "err":
            text = line.decode("utf-8", "replace")
            if text.strip():
                self.last_words.append(text.strip())
            self.host.emit(Output(stream, text, complete))
            return
        for event in self.read(line, complete):
            self.host.emit(event)

    # From the human

    def _read_key(self) -> None:
        if self.host.line and (typed := self.host.line.read()):
            self.obey(typed)

    def obey(self, typed: Typed) -> None:
        key, text = typed
        if typed.leaves and self.host.detach and self.host.line:
            self.host.line.keys.restore()
            self.host.detach()
            self._readers.clear()
            self.host = replace(self.host, line=None)
        elif key == "esc":
            self.stopped = True
            self.host.emit(Notice("Stopping the run…"))
            self.stop()
        elif text and (key == "alt+enter" or self.is_over() or not self.can_be_steered()):
            self.host.steer(text, True)
            self.host.emit(for_next_session(text))
        elif text and (steer := self.host.steer(text, False)):
            self._unsent.append(steer)
            self._send_steering()

    def _send_steering(self) -> None:
        """Messages that come before the agent works wait until then."""
        while self.listens() and self._unsent:
            steer = self._unsent.pop(0)
            self.steer(steer)
            self.steered.append(steer.id)
            self.host.emit(Notice(f"→ told: {one_line(steer.text)}"))


class OneSession(Conversation):
    """A conversation with a program that is started for this session and leaves after it."""

    def __init__(self, argv: tuple[str, ...], host: Host) -> None:
        super().__init__(Resident(Command(argv, host.project, host.env, inherit=(host.lock_fd,))), host)
        self._records = Records()

    @abstractmethod
    def begin(self) -> None:
        """Send what the session begins with."""

    @abstractmethod
    def events(self, record: dict[str, Any]) -> Iterable[Event]:
        """What a record of the program means."""

    @abstractmethod
    def ending(self) -> Outcome:
        """How the session ended, as the program's records say. It came to an end of its own."""

    def read(self, line: bytes, complete: bool) -> Iterable[Event]:
        for record in self._records.take(line, complete):
            if record is not None:
                yield from self.events(record)
            else:
                text = line[:LONGEST_TEXT].decode("utf-8", "replace")
                self.last_words.append(text)
                yield Output("out", text)

    def run(self) -> Outcome:
        with contextlib.closing(self.process):
            self.begin()
            self.converse(self.is_over)
            exit, over = self.exit, self.is_over()
            if exit is None:
                self.process.end_input()
                self.attend(lambda: False, 0 if self.hung_up else LEAVE_WITHIN)
            if self.exit is not None:
                tell_swept(self.host, self.exit.swept)
        stopped = interruption(exit) if exit and not self.mute else None
        outcome = stopped or (self.ending() if over or exit is None else self.crashed(exit))
        return replace(outcome, seconds=self.seconds, steered=tuple(self.steered))
