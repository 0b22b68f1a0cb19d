"""The line a human types while pi works: Enter sends it, Alt+Enter keeps it for the next session, Esc stops the run."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable

from marathon.core.events import Sink, Typing
from marathon.process.keys import Keys
from marathon.process.signals import COLLECTED, Interrupted, Signals


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
        self.text = ""

    def read(self) -> None:
        """One key; called when there is one. Signals are for the watch over pi, so they come first and go back."""
        if self._signals.pending(*COLLECTED):
            return
        try:
            key = self.keys.read(0, self._signals)
        except EOFError:
            return
        except Interrupted as end:
            signal.raise_signal(end.signum)
            return
        match key:
            case "enter" | "alt+enter":
                text = self.text.strip()
                self._change("")
                if text or key == "enter":
                    (self._on_line if key == "enter" else self._on_later)(text)
            case "esc" if self.text:
                self._change("")
            case "esc":
                self._on_escape()
            case "backspace":
                self._change(self.text[:-1])
            case None | "other":
                pass
            case character:
                self._change(self.text + character)

    def finish(self, patience: float) -> None:
        """While a line is begun: its end, until no key comes for that long. A signal is left to others."""
        deadline = time.monotonic() + 10 * patience
        while self.text and time.monotonic() < deadline:
            ready, _, _ = select.select([0, self._signals.fd], [], [], patience)
            if ready != [0]:
                break
            self.read()

    def show(self) -> None:
        """Said again without a change, because another program had the terminal."""
        self._emit(Typing(self.text))

    def _change(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self.show()
