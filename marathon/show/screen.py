"""Events as they happen: one live line on a terminal, plain lines elsewhere; nothing an agent wrote is acted on."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from marathon.core.events import Event, HumanNeeded, Output, SessionBegan, SessionOver, Ticked, Told, Waiting
from marathon.core.text import clean, duration, one_line

_SIGNS = {"info": "", "warning": "⚠️  ", "error": "❌ "}


class Screen:
    """A consumer of events. `live` redraws one line; otherwise each event that matters is a line."""

    def __init__(self, out: TextIO | None, *, live: bool, notify: bool) -> None:
        self._out = out
        self._live = live
        self._notify = notify
        self._session: SessionBegan | None = None
        self._began = 0.0
        self._last_line = ""
        self._drawn = ""

    def __call__(self, event: Event) -> None:
        match event:
            case SessionBegan():
                self._session, self._began, self._last_line = event, time.monotonic(), ""
                self._line(
                    f"─── {event.emoji} {event.phase} · iteration {event.iteration} · {event.agent} ───".replace(
                        "  ", " "
                    )
                )
            case Output():
                self._output(event)
            case Ticked():
                self._draw()
            case SessionOver():
                self._session = None
                bad = (
                    ""
                    if event.ending == "ended"
                    else f" │ {event.ending}" + (f": {one_line(event.cause, 200)}" if event.cause else "")
                )
                self._line(f"─── {duration(event.seconds)}{bad} ───")
            case Waiting():
                self._waiting(event)
            case Told():
                self._line(_SIGNS[event.level] + clean(event.text))
            case HumanNeeded():
                self._ring(event.text)

    def close(self) -> None:
        """Leave no half line behind."""
        self._erase()

    def _output(self, event: Output) -> None:
        text = one_line(event.text, 2000)
        if not text:
            return
        if self._live:
            self._last_line = text
            self._draw()
        elif event.complete:
            self._line(f"  {text}")

    def _draw(self) -> None:
        if self._live and self._session:
            session = self._session
            elapsed = duration(time.monotonic() - self._began)
            self._redraw(
                f"{session.emoji} {session.phase} │ iteration {session.iteration} │ {elapsed} │ {self._last_line}"
            )

    def _waiting(self, event: Waiting) -> None:
        hint = " (any key: go on now)" if event.skippable else ""
        text = f"⏳ {one_line(event.reason, 120)} │ {duration(event.left)} left{hint}"
        if self._live:
            self._redraw(text)
        elif event.first:
            self._line(text)

    def _ring(self, text: str) -> None:
        if self._notify and self._live:
            safe = one_line(text, 100).replace(";", ",")
            self._write(f"\a\x1b]9;{safe}\x1b\\\x1b]777;notify;pi-marathon;{safe}\x1b\\")

    def _line(self, text: str) -> None:
        self._erase()
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        """A closed window or pipe takes away the view, not the marathon."""
        if self._out is not None:
            try:
                self._out.write(text)
                self._out.flush()
            except (OSError, ValueError):
                self._out = None

    def _redraw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        shown = _fit(text, width)
        if shown != self._drawn:
            self._write("\r\x1b[K" + shown)
            self._drawn = shown

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = ""


def _fit(text: str, width: int) -> str:
    """As much of the text as fits into that many terminal cells."""
    from unicodedata import east_asian_width

    cells = 0
    for number, character in enumerate(text):
        cells += 2 if east_asian_width(character) in "WF" else 1
        if cells > width:
            return text[: number - 1] + "…"
    return text
