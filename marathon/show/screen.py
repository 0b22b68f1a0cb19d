"""Events as they happen: live on a terminal, plain lines elsewhere; nothing an agent wrote is acted on."""

from __future__ import annotations

import os
import shutil
import time
from typing import TextIO
from unicodedata import east_asian_width

from marathon.core.events import (
    Event,
    HumanNeeded,
    Output,
    Said,
    SessionBegan,
    SessionOver,
    Ticked,
    Told,
    ToolEnded,
    ToolStarted,
    Typing,
    Waiting,
)
from marathon.core.text import amount, clean, duration, one_line

_SIGNS = {"info": "", "warning": "⚠️  ", "error": "❌ "}
_RESULT_LINES = 3


class Screen:
    """A consumer of events. `live` keeps one status line at the bottom; otherwise each event that matters is a line."""

    def __init__(self, out: TextIO | None, *, live: bool, notify: bool) -> None:
        self._out = out
        self._live = live
        self._notify = notify
        self._color = live and not os.environ.get("NO_COLOR")
        self._session: SessionBegan | None = None
        self._began = 0.0
        self._last_line = ""
        self._typed = ""
        self._drawn = ""
        self._in_line = False
        self._thinking = False

    def __call__(self, event: Event) -> None:
        match event:
            case SessionBegan():
                self._session, self._began, self._last_line = event, time.monotonic(), ""
                head = f"{event.emoji} {event.phase}".strip()
                self._line(f"─── {head} · iteration {event.iteration} · {event.agent} ───")
            case Output():
                self._output(event)
            case Said():
                self._said(event)
            case ToolStarted():
                self._line(f"⚙ {one_line(event.name, 40)} {one_line(event.arguments, 200)}".rstrip())
            case ToolEnded():
                self._tool_ended(event)
            case Typing():
                self._typed = one_line(event.text, 2000)
                self._draw()
            case Ticked():
                self._draw()
            case SessionOver():
                self._session, self._typed = None, ""
                self._line(f"─── {' │ '.join(_summary(event))} ───")
            case Waiting():
                self._waiting(event)
            case Told():
                self._line(_SIGNS[event.level] + clean(event.text))
            case HumanNeeded():
                self._ring(event.text)

    def close(self) -> None:
        """Leave no half line behind."""
        self._erase()
        self._end_line()

    def _output(self, event: Output) -> None:
        text = one_line(event.text, 2000)
        if not text:
            return
        if self._live:
            self._last_line = text
            self._draw()
        elif event.complete:
            self._line(f"  {text}")

    def _said(self, event: Said) -> None:
        text = clean(event.text)
        if not text or (text == "\n" and not self._in_line):
            return
        self._erase()
        if event.thinking != self._thinking:
            self._end_line()
            self._thinking = event.thinking
        self._write(f"\x1b[2m{text}\x1b[22m" if event.thinking and self._color else text)
        self._in_line = not text.endswith("\n")

    def _tool_ended(self, event: ToolEnded) -> None:
        lines = [line for line in clean(event.text).splitlines() if line.strip()]
        shown = [one_line(line, 200) for line in lines[:_RESULT_LINES]]
        if len(lines) > _RESULT_LINES:
            shown.append(f"… {len(lines) - _RESULT_LINES} more lines")
        if event.failed:
            shown = [f"✗ {one_line(event.name, 40)} failed", *shown]
        for line in shown:
            self._line(f"  │ {line}")

    def _draw(self) -> None:
        if not self._live or not self._session or self._in_line:
            return
        session, elapsed = self._session, duration(time.monotonic() - self._began)
        if self._typed:
            self._redraw(f"› {self._typed}")
        else:
            head = f"{session.emoji} {session.phase}".strip()
            self._redraw(f"{head} │ iteration {session.iteration} │ {elapsed} │ {self._last_line}".rstrip(" │"))

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
        self._end_line()
        self._write(text + "\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._write("\n")
            self._in_line = False

    def _write(self, text: str) -> None:
        """A closed window or pipe takes away the view, not the marathon."""
        if self._out is not None:
            try:
                self._out.write(text)
                self._out.flush()
            except (OSError, ValueError):
                self._out = None

    def _redraw(self, text: str) -> None:
        shown = _fit(text, shutil.get_terminal_size().columns - 1)
        if shown != self._drawn:
            self._write("\r\x1b[K" + shown)
            self._drawn = shown

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = ""


def _summary(event: SessionOver) -> list[str]:
    """45s, 3 turns, 12.4k tok, $0.12, and what went wrong."""
    parts = [duration(event.seconds)]
    if event.turns:
        parts += [f"{event.turns} turns", f"{amount(event.tokens)} tok", f"${event.cost:.2f}"]
    if event.ending != "ended":
        parts.append(event.ending + (f": {one_line(event.cause, 200)}" if event.cause else ""))
    return parts


def _fit(text: str, width: int) -> str:
    """As much of the text as fits into that many terminal cells."""
    cells = 0
    for number, character in enumerate(text):
        cells += 2 if east_asian_width(character) in "WF" else 1
        if cells > width:
            return text[: max(0, number - 1)] + "…"
    return text
