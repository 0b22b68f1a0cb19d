"""The line a human types while pi works: Enter sends it, Alt+Enter keeps it for the next session, Esc stops the run."""

from __future__ import annotations

from collections.abc import Callable

from marathon.core.events import Sink, Typing
from marathon.process.keys import Keys
from marathon.process.signals import Signals


class TypedLine:
    """Reads keys as they come and calls back; shows what is typed so far."""

    def __init__(
        self,
        signals: Signals,
        emit: Sink,
        *,
        on_line: Callable[[str], None],
        on_later: Callable[[str], None],
        on_escape: Callable[[], None],
    ) -> None:
        self.keys = Keys()
        self._signals = signals
        self._emit = emit
        self._on_line = on_line
        self._on_later = on_later
        self._on_escape = on_escape
        self._text = ""

    def read(self) -> None:
        """One key; called when there is one."""
        try:
            key = self.keys.read(0, self._signals)
        except EOFError:
            return
        match key:
            case "enter" | "alt+enter":
                text, self._text = self._text.strip(), ""
                self._emit(Typing(""))
                if text or key == "enter":
                    (self._on_line if key == "enter" else self._on_later)(text)
            case "esc" if self._text:
                self._text = ""
            case "esc":
                self._on_escape()
            case "backspace":
                self._text = self._text[:-1]
            case None | "other":
                return
            case character:
                self._text += character
        self._emit(Typing(self._text))
