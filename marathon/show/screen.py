"""Events as they happen: live on a terminal, plain lines elsewhere; nothing an agent wrote is acted on."""

from __future__ import annotations

import os
import time
from typing import TextIO

from marathon.core.events import (
    Checking,
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
from marathon.show.cells import column_after, fit, fit_end, width
from marathon.show.outlet import Outlet

_SIGNS = {"info": "", "warning": "⚠️  ", "error": "❌ "}
_RULE, _TOOL, _RESULT, _FAILED = "1;36", "36", "2", "31"
_TOLD = {"info": "1", "warning": "33", "error": "31"}
_RESULT_LINES = 3


class Screen:
    """A consumer of events. `live` keeps one status line at the bottom; otherwise each event that matters is a line."""

    def __init__(self, out: TextIO | None, *, live: bool, notify: bool) -> None:
        self._out = Outlet(out)
        self._live = live
        self._notify = notify
        self._color = live and not os.environ.get("NO_COLOR")
        self._session: SessionBegan | None = None
        self._began = 0.0
        self._last_line = ""
        self._typed = ""
        self._drawn = ""
        self._in_line = False  # the agent's text stands in an unfinished line,
        self._column = 0  # as far as here,
        self._below = False  # and what is drawn stands below it,
        self._columns = 0  # in a window of this width
        self._thinking = False

    def __call__(self, event: Event) -> None:
        self._out.write("")  # what was held, if somebody reads again
        match event:
            case SessionBegan():
                self._session, self._began, self._last_line = event, time.monotonic(), ""
                head = f"{event.emoji} {event.phase}".strip()
                self._line(f"─── {head} · iteration {event.iteration} · {event.agent} ───", _RULE)
            case Output():
                self._output(event)
            case Said():
                self._said(event)
            case ToolStarted():
                self._line(f"⚙ {one_line(event.name, 40)} {one_line(event.arguments, 200)}".rstrip(), _TOOL)
            case ToolEnded():
                self._tool_ended(event)
            case Typing():
                self._typing(clean(event.text))
            case Ticked():
                self._draw()
            case SessionOver():
                self._session, self._typed = None, ""
                self._line(f"─── {' │ '.join(_summary(event))} ───", _RULE)
            case Checking():
                if self._live:
                    self._redraw(f"⏳ checking: {one_line(event.name, 120)} │ {duration(event.seconds)}")
            case Waiting():
                self._waiting(event)
            case Told():
                self._line(_SIGNS[event.level] + clean(event.text), _TOLD[event.level])
            case HumanNeeded():
                self._ring(event.text)

    def close(self) -> None:
        """Leave no half line behind."""
        self._erase()
        self._end_line()
        self._out.close()

    def _output(self, event: Output) -> None:
        if not (self._live or event.complete):
            return  # a piece of a very long line: nobody could read it
        text = one_line(event.text[:8000], 2000)
        if not text:
            return
        if self._live:
            self._last_line = text
            self._draw()
        else:
            self._line(f"  {text}")

    def _said(self, event: Said) -> None:
        text = clean(event.text).expandtabs(4)
        if not text or (text == "\n" and not (self._in_line and event.thinking == self._thinking)):
            return
        self._erase()
        if event.thinking != self._thinking:
            self._end_line()
            self._thinking = event.thinking
        self._out.write(self._styled(text, _RESULT if event.thinking else ""))
        self._in_line = not text.endswith("\n")
        if self._live:
            self._column = column_after(self._column, text)
            if self._typed:
                self._draw()

    def _typing(self, text: str) -> None:
        if text == self._typed:  # said again: somebody else had the terminal, and the cursor is elsewhere
            self._drawn, self._below, self._in_line, self._column = "", False, False, 0
        self._typed = text
        self._draw()

    def _tool_ended(self, event: ToolEnded) -> None:
        lines = [line for line in clean(event.text).splitlines() if line.strip()]
        if event.failed:
            self._line(f"  │ ✗ {one_line(event.name, 40)} failed", _FAILED)
        for line in lines[:_RESULT_LINES]:
            self._line(f"  │ {line.expandtabs(4).rstrip()[:200]}", _RESULT)
        if len(lines) > _RESULT_LINES:
            more = len(lines) - _RESULT_LINES
            self._line(f"  │ … {more} more line{'s' if more > 1 else ''}", _RESULT)

    def _draw(self) -> None:
        if not self._live or not self._session:
            return
        session, elapsed = self._session, duration(time.monotonic() - self._began)
        if self._typed:  # of a long line the end, where the cursor is
            self._redraw("› " + fit_end(self._typed, width() - 4))
        elif self._in_line:
            self._erase()
        else:
            head = f"{session.emoji} {session.phase}".strip()
            self._redraw(f"{head} │ iteration {session.iteration} │ {elapsed} │ {self._last_line}".rstrip(" │"))

    def _waiting(self, event: Waiting) -> None:
        reason, left = f"⏳ {one_line(event.reason, 120)}", f" │ {duration(event.left)} left"
        hint = " (any key: go on now)" if event.skippable else ""
        if self._live:
            if len(reason + left + hint) > width() - 2:  # in a narrow window the time counts most
                hint, reason = "", fit(reason, width() - len(left) - 1)
            self._redraw(reason + left + hint)
        elif event.first:
            self._line(reason + left + hint)

    def _ring(self, text: str) -> None:
        if self._notify and self._live:
            safe = one_line(text, 100).replace(";", ",")
            self._out.write(f"\a\x1b]9;{safe}\x1b\\\x1b]777;notify;pi-marathon;{safe}\x1b\\")

    def _line(self, text: str, style: str = "") -> None:
        self._erase()
        self._end_line()
        self._out.write(self._styled(text, style) + "\n")
        if self._typed:
            self._draw()

    def _end_line(self) -> None:
        if self._in_line:
            self._out.write("\n")
            self._in_line, self._column = False, 0

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and self._color else text

    def _redraw(self, text: str) -> None:
        shown = fit(text, width() - 1)
        if shown != self._drawn:
            if self._in_line and not self._drawn:
                self._below, self._columns = True, width()
                self._out.write("\n")
            self._out.write("\r\x1b[K" + shown)
            self._drawn = shown

    def _erase(self) -> None:
        """Take away what is drawn, and go back to where the agent's text ended."""
        if self._drawn:
            self._out.write("\r\x1b[K")
            if self._below and self._column < self._columns == width():
                self._out.write(f"\x1b[A\x1b[{self._column + 1}G")
            elif self._below:  # at the edge, or in a window that has changed, the text goes on in this line
                self._column = 0
            self._drawn, self._below = "", False


def _summary(event: SessionOver) -> list[str]:
    """45s, 3 turns, 12.4k tok, $0.12, and what went wrong."""
    parts = [duration(event.seconds)]
    if event.turns:
        parts += [
            f"{event.turns} turn{'s' if event.turns > 1 else ''}",
            f"{amount(event.tokens)} tok",
            f"${event.cost:.2f}",
        ]
    if event.steps:
        parts.append(event.steps)
    if event.ending != "ended":
        parts.append(event.ending + (f": {one_line(event.cause, 200)}" if event.cause else ""))
    return parts
