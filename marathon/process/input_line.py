"""The line that a human types for the agent, in a session and in a wait. Only Enter makes anything of what is typed."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from marathon.core.events import Notice, Sink, Typing, Unfolding
from marathon.core.text import one_line
from marathon.process.keys import Keys
from marathon.process.signals import COLLECTED, Interrupted, Signals

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

FINISH_WITHIN = 6.0


class Typed(NamedTuple):
    """A line that Enter or Alt+Enter ended, or Esc on an empty line."""

    key: Literal["enter", "alt+enter", "esc"]
    text: str = ""

    @property
    def leaves(self) -> bool:
        """b and Enter: the marathon is to go on without this terminal."""
        return self.key == "enter" and self.text.lower() == "b"


# What edits a line of a shell. prompt_toolkit knows what each does.
_EDITS = {
    *((key,) for key in ("left", "right", "home", "end", "delete", "c-left", "c-right")),
    *((f"c-{letter}",) for letter in "abdefhktuwy"),
    *(("escape", key) for key in ("b", "d", "f", "left", "right", "c-h")),
}


class InputLine:
    """Collects keys into a line and shows the line so far. A pasted text may have several lines; only Enter sends.

    `take_back` returns the latest message that no session was given yet, which is then sent no more.
    """

    def __init__(
        self, signals: Signals, emit: Sink, take_back: Callable[[], str] = lambda: "", *, keep_typed: bool = False
    ) -> None:
        self.keys = Keys(on_resume=self.show, pastes_apart=True, keep_typed=keep_typed)
        self._signals = signals
        self._emit = emit
        self._take_back = take_back
        self._history: list[str] = []
        self._at = 0  # in the history; at its end stands the line that is typed now
        self._begun = ""  # that line, while an earlier one is shown

    @property
    def text(self) -> str:
        return self._editor.current_buffer.text if "_editor" in vars(self) else ""

    @cached_property
    def _editor(self) -> Application[None]:
        """prompt_toolkit's editing without its event loop and its screen: keys are handed to it one by one."""
        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.input import DummyInput
        from prompt_toolkit.layout import BufferControl, Layout, Window
        from prompt_toolkit.output import DummyOutput

        layout = Layout(Window(BufferControl(Buffer())))
        editor: Application[None] = Application(layout, input=DummyInput(), output=DummyOutput())
        editor.timeoutlen = None  # type: ignore[assignment]  # what needs a loop is off; prompt_toolkit knows None
        return editor

    def read(self) -> Typed | None:
        """Read one key; returns the line if the key ended it. Signals are left to the loop that watches the agent."""
        if self._signals.pending(*COLLECTED):
            return None
        try:
            return self.hear(0)
        except EOFError:
            return None
        except Interrupted as end:
            signal.raise_signal(end.signum)
            return None

    def hear(self, patience: float) -> Typed | None:
        """The same where no agent is watched: waits for a key, and obeys signals."""
        try:
            key = self.keys.read(patience, self._signals)
        except EOFError:
            if not (self.text and self.keys.presses):  # in a line, Ctrl+D deletes
                raise
            key = "other"
        return self._take(key) if key else None

    def _take(self, key: str) -> Typed | None:
        buffer = self._editor.current_buffer
        before = buffer.document
        typed: Typed | None = None
        match key:
            case "enter" | "alt+enter":
                typed = Typed(key, before.text.strip())
                self._remember()
            case "esc":
                typed = None if before.text else Typed(key)
                self._remember()
            case "paste":
                buffer.insert_text(self.keys.pasted)
            case "backspace" | "other":
                self._edit(tuple(str(getattr(press.key, "value", press.key)) for press in self.keys.presses))
            case _:
                buffer.insert_text(key)
        if buffer.document != before:
            self.show()
        return typed

    def _edit(self, chord: tuple[str, ...]) -> None:
        match chord:
            case ("up",) | ("c-p",):
                self._turn(-1)
            case ("down",) | ("c-n",):
                self._turn(1)
            case ("c-o",):
                self._emit(Unfolding())
            case ("escape", "up"):
                if back := self._take_back():
                    self._remember()
                    self._set(back)
                else:
                    self._emit(Notice("No message waits for the next session."))
            case _ if chord in _EDITS:
                from prompt_toolkit.application.current import set_app

                with set_app(self._editor):
                    self._editor.key_processor.feed_multiple([*self.keys.presses])
                    self._editor.key_processor.process_keys()

    def _turn(self, by: int) -> None:
        """Show an earlier or a later line."""
        if self._at == len(self._history):
            self._begun = self.text
        self._at = min(max(self._at + by, 0), len(self._history))
        self._set([*self._history, self._begun][self._at])

    def _remember(self) -> None:
        """The line is over, and the cursor keys bring it back."""
        if self.text.strip() and self._history[-1:] != [self.text]:
            self._history.append(self.text)
        self._at = len(self._history)
        self._set("")

    def _set(self, text: str) -> None:
        from prompt_toolkit.document import Document

        self._editor.current_buffer.document = Document(text)

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
            self._remember()

    def show(self) -> None:
        document = self._editor.current_buffer.document
        parts = (document.text_before_cursor, document.text_after_cursor)
        self._emit(Typing(*(part.replace("\n", " ⏎ ").replace("\t", " ") for part in parts)))


def for_next_session(text: str) -> Notice:
    return Notice(f"→ for the next session: {one_line(text)} (Alt+Up takes it back)")
