"""The line that a human types for the agent, in a session and in a wait. Only Enter makes anything of what is typed."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from marathon.core.events import Notice, Sink, Typing
from marathon.core.text import one_line
from marathon.process.keys import Keys
from marathon.process.signals import COLLECTED, Interrupted, Signals

FINISH_WITHIN = 6.0


class Typed(NamedTuple):
    """A line that Enter or Alt+Enter ended, or Esc on an empty line."""

    key: Literal["enter", "alt+enter", "esc"]
    text: str = ""

    @property
    def leaves(self) -> bool:
        """b and Enter: the marathon is to go on without this terminal."""
        return self.key == "enter" and self.text.lower() == "b"


class InputLine:
    """Collects keys into a line and shows the line so far. A pasted text may have several lines; only Enter sends."""

    def __init__(self, signals: Signals, emit: Sink, *, keep_typed: bool = False) -> None:
        self.keys = Keys(on_resume=self.show, pastes_apart=True, keep_typed=keep_typed)
        self.text = ""
        self._signals = signals
        self._emit = emit

    def read(self) -> Typed | None:
        """Read one key; returns the line if the key ended it. Signals are left to the loop that watches the agent."""
        if self._signals.pending(*COLLECTED):
            return None
        try:
            return self._take(self.keys.read(0, self._signals))
        except EOFError:
            return None
        except Interrupted as end:
            signal.raise_signal(end.signum)
            return None

    def hear(self, patience: float) -> Typed | None:
        """The same where no agent is watched: waits for a key, and obeys signals."""
        return self._take(self.keys.read(patience, self._signals))

    def _take(self, key: str | None) -> Typed | None:
        before, self.text = self.text, self._changed(key)
        if self.text != before:
            self.show()
        match key:
            case "enter" | "alt+enter":
                return Typed(key, before.strip())
            case "esc" if not before:
                return Typed(key)
        return None

    def _changed(self, key: str | None) -> str:
        match key:
            case None | "other":
                return self.text
            case "enter" | "alt+enter" | "esc":
                return ""
            case "backspace":
                return self.text[:-1]
            case "paste":
                return self.text + self.keys.pasted
        return self.text + key

    def rest(self, patience: float) -> Typed | None:
        """The end of a line that is begun, unless no key comes for that long or a signal comes."""
        deadline, typed = time.monotonic() + 10 * patience, None
        while self.text and time.monotonic() < deadline:
            if select.select([0, self._signals.fd], [], [], patience)[0] != [0]:
                break
            typed = self.read()
        return typed

    def finish(self, over: str, obey: Callable[[Typed], None]) -> None:
        """What the line was for is over. Wait for its rest, so that a gate does not take its keys for answers."""
        if not self.text:
            return
        self._emit(Notice(f"{over} is over. Enter keeps your line for the next session. Esc drops it."))
        if typed := self.rest(FINISH_WITHIN):
            obey(typed)
        self.give_up()

    def give_up(self) -> None:
        """No Enter will come any more. The words are shown, so that they are not lost."""
        if self.text:
            self._emit(Notice(f"Not sent: {one_line(self.text, 2000)}", "warning"))
            self.text = ""

    def show(self) -> None:
        self._emit(Typing(self.text.replace("\n", " ⏎ ").replace("\t", " ")))
