"""What the human types while pi works: a line for the agent, or the answer to a dialog of an extension."""

from __future__ import annotations

import json
import select
import signal
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from marathon.core.events import Notice, Sink, Typing
from marathon.core.text import one_line
from marathon.process.keys import TYPING_GAP, Keys
from marathon.process.signals import COLLECTED, Interrupted, Signals

FINISH_WITHIN = 6.0


class Typed(NamedTuple):
    """A line ended with Enter or Alt+Enter, or Esc or a lone d on an empty line."""

    key: Literal["enter", "alt+enter", "esc", "d"]
    text: str = ""


class TypedLine:
    """Collects keys into a line and shows the line so far. A pasted text may have several lines; only Enter sends."""

    def __init__(self, signals: Signals, emit: Sink, may_detach: Callable[[], bool] = lambda: False) -> None:
        self.keys = Keys(pastes_apart=True)
        self.text = ""
        self._signals = signals
        self._emit = emit
        self._may_detach = may_detach

    def read(self) -> Typed | None:
        """Read one key; returns the line if the key ended it. Signals are left to the loop that watches pi."""
        if self._signals.pending(*COLLECTED):
            return None
        try:
            key = self.keys.read(0, self._signals)
        except EOFError:
            return None
        except Interrupted as end:
            signal.raise_signal(end.signum)
            return None
        if key == "d" and not self.text and self._may_detach() and not self._more_comes():
            return Typed("d")
        before, self.text = self.text, self._changed(key)
        if self.text != before:
            self.show()
        match key:
            case "enter" | "alt+enter":
                return Typed(key, before.strip())
            case "esc" if not before:
                return Typed(key)
        return None

    def _more_comes(self) -> bool:
        """A sentence may begin with any letter."""
        return bool(select.select([0, self._signals.fd], [], [], TYPING_GAP)[0])

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

    def finish(self, obey: Callable[[Typed], None]) -> None:
        """The session is over. Wait for the rest of a line, so that a gate does not take its keys for answers."""
        if not self.text:
            return
        self._emit(Notice("The session is over. Enter keeps your line for the next one. Esc drops it."))
        if typed := self.rest(FINISH_WITHIN):
            obey(typed)
        if self.text:
            self._emit(Notice(f"Not sent: {one_line(self.text)}", "warning"))

    def show(self) -> None:
        self._emit(Typing(self.text.replace("\n", " ⏎ ").replace("\t", " ")))


# Dialogs of pi's extensions


def question_of(dialog: dict[str, Any]) -> str:
    """The dialog as lines. The next typed line answers it."""
    title = one_line(str(dialog.get("title") or dialog.get("message") or "?"), 300)
    match dialog.get("method"):
        case "select":
            options = [f"  {number}. {one_line(option, 120)}" for number, option in _options(dialog).items()]
            return "\n".join([f"? {title}", *options, "  (type a number, then Enter; Esc cancels)"])
        case "confirm":
            message = one_line(str(dialog.get("message") or ""), 300)
            return f"? {title} {message} (y or n, then Enter; Esc cancels)"
    return f"? {title} (type it, then Enter; Esc cancels)"


def answer_to(dialog: dict[str, Any], text: str) -> bytes:
    """pi's response to a typed line. A choice that is not among the options cancels the dialog."""
    match dialog.get("method"):
        case "confirm":
            return _response(dialog, confirmed=text.strip().lower() in ("y", "yes"))
        case "select":
            options = _options(dialog)
            chosen = options.get(text, text)
            return _response(dialog, value=chosen) if chosen in options.values() else cancelled(dialog)
    return _response(dialog, value=text)


def cancelled(dialog: dict[str, Any]) -> bytes:
    return _response(dialog, cancelled=True)


def _options(dialog: dict[str, Any]) -> dict[str, str]:
    options = dialog.get("options")
    return {str(number): str(each) for number, each in enumerate(options if isinstance(options, list) else [], start=1)}


def _response(dialog: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"type": "extension_ui_response", "id": dialog.get("id"), **fields}).encode() + b"\n"
