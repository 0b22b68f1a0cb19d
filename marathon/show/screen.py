"""Shows events as they happen: live on a terminal, as plain lines elsewhere. Control codes of agents are removed."""

from __future__ import annotations

import os
import shutil
import time
from typing import TextIO

from marathon.core.budgets import Usage
from marathon.core.events import (
    CheckEnded,
    Checking,
    Event,
    HumanNeeded,
    Notice,
    Output,
    SessionBegan,
    SessionEnded,
    Text,
    Ticked,
    ToolCalled,
    ToolEnded,
    Typing,
    Used,
    WaitBegan,
    Waiting,
)
from marathon.core.text import amount, clean, counted, duration, one_line
from marathon.show.outlet import Outlet
from marathon.show.status import check_line

_SIGNS = {"info": "", "warning": "⚠️  ", "error": "❌ "}
_RULE, _TOOL, _RESULT, _FAILED = "1;36", "36", "2", "31"
_NOTICE = {"info": "1", "warning": "33", "error": "31"}
_RESULT_LINES = 3


class Screen:
    """A consumer of events. `live` keeps one status line at the bottom; otherwise each event that matters is a line."""

    def __init__(self, out: TextIO | None, *, live: bool, notify: bool, color: bool | None = None) -> None:
        self._out = Outlet(out)
        self._live = live
        self._notify = notify
        self._color = (live and not os.environ.get("NO_COLOR")) if color is None else color
        self._session: SessionBegan | None = None
        self._began = 0.0
        self._used = Usage()
        self._calls: dict[str, str] = {}  # what each open tool call is, by its id
        self._last_call = ""  # the id of the call whose result may stand right below it
        self._typed = ""
        self._drawn = ""
        self._in_line = False  # the agent's text stands in an unfinished line
        self._thinking = False
        self._held = ""  # the agent's unfinished line while the human types

    def __call__(self, event: Event) -> None:
        self._out.write("")  # what was held, if the reader reads again
        match event:
            case SessionBegan():
                self._session, self._began, self._used = event, time.monotonic(), Usage()
                self._calls.clear()
                self._line(f"─── {_head(event)} · iteration {event.iteration} · {event.agent} ───", _RULE)
            case Output():
                self._output(event)
            case Text():
                self._text(event)
            case ToolCalled():
                self._tool_called(event)
            case ToolEnded():
                self._tool_ended(event)
            case Used():
                self._used = self._used.plus(event.usage)
                self._draw()
            case Typing():
                self._typing(clean(event.text))
            case Ticked():
                self._draw()
            case SessionEnded():
                self._session, self._typed = None, ""
                self._line(f"─── {' │ '.join(_summary(event))} ───", _RULE)
            case Checking():
                if self._live:
                    self._redraw(f"⏳ checking: {one_line(event.name, 120)} │ {duration(event.seconds)}")
            case CheckEnded():
                known_by = ("ran" if event.command else "agent") if event.met else None
                took = f" ({duration(event.seconds)})" if event.command else ""
                self._line(check_line({**vars(event), "known_by": known_by}) + took, _NOTICE["info"])
            case WaitBegan():
                if not self._live:
                    self._line(f"⏳ {one_line(event.reason, 120)} │ {duration(event.seconds)} left")
            case Waiting():
                if self._live:
                    self._waiting(event)
            case Notice():
                self._line(_SIGNS[event.level] + clean(event.text), _NOTICE[event.level])
            case HumanNeeded():
                self._ring(event.text)

    def close(self) -> None:
        """Leave no half line behind."""
        self._end_line()
        self._erase()
        self._out.close()

    def _output(self, event: Output) -> None:
        # A piece of a very long line is nothing that anyone could read.
        if event.complete and (text := one_line(event.text[:8000], 2000)):
            self._line(f"  {text}")
            self._draw()

    def _text(self, event: Text) -> None:
        """Text is shown as it comes. While the human types, only whole lines are shown, above the typed line."""
        if event.thinking != self._thinking:
            self._end_line()
            self._thinking = event.thinking
        self._held += clean(event.text).expandtabs(4)
        if self._held == "\n" and not self._in_line:
            self._held = ""  # the end of a part that ended its line itself
        self._show_held(self._held.rfind("\n") + 1 if self._typed else len(self._held))

    def _show_held(self, length: int) -> None:
        text, self._held = self._held[:length], self._held[length:]
        if not text:
            return
        self._erase()
        self._out.write(self._styled(text, _RESULT if self._thinking else ""))
        self._in_line = not text.endswith("\n")
        if self._typed:
            self._draw()

    def _typing(self, text: str) -> None:
        if text == self._typed:  # the same again means that another program had the terminal and moved the cursor
            self._drawn, self._in_line = "", False
        self._typed = text
        if not text:
            self._show_held(len(self._held))
        self._draw()

    def _tool_called(self, event: ToolCalled) -> None:
        call = f"{one_line(event.name, 40)} {event.summary}".rstrip()
        self._calls[event.id] = call
        self._last_call = event.id
        self._line(f"⚙ {call}", _TOOL)

    def _tool_ended(self, event: ToolEnded) -> None:
        """Show the first lines of a result, and the call they belong to if other calls came between."""
        call = self._calls.pop(event.id, one_line(event.name, 40))
        if event.failed:
            self._line(f"  │ ✗ {call} failed", _FAILED)
        elif self._calls or event.id != self._last_call:
            self._line(f"  │ ⚙ {call}", _TOOL)
        self._last_call = ""
        lines = [line for line in clean(event.text).splitlines() if line.strip()]
        for line in lines[:_RESULT_LINES]:
            self._line(f"  │ {line.expandtabs(4).rstrip()[:200]}", _RESULT)
        if len(lines) > _RESULT_LINES:
            more = len(lines) - _RESULT_LINES
            self._line(f"  │ … {more} more line{'s' if more > 1 else ''}", _RESULT)

    def _draw(self) -> None:
        if not self._live or not self._session:
            return
        session, elapsed = self._session, duration(time.monotonic() - self._began)
        if self._typed:  # of a long line, the end is shown, where the cursor is
            self._redraw("› " + _fit_end(self._typed, _width() - 4))
        elif not self._in_line:
            self._redraw(" │ ".join([_head(session), f"iteration {session.iteration}", elapsed, *_spent(self._used)]))

    def _waiting(self, event: Waiting) -> None:
        reason, left = f"⏳ {one_line(event.reason, 120)}", f" │ {duration(event.left)} left"
        hint = " (any key: go on now)" if event.skippable else ""
        if len(reason + left + hint) > _width() - 2:  # in a narrow window, the time is what matters
            hint, reason = "", _fit(reason, _width() - len(left) - 1)
        self._redraw(reason + left + hint)

    def _ring(self, text: str) -> None:
        if self._notify and self._live:
            safe = one_line(text, 100).replace(";", ",")
            self._out.write(f"\a\x1b]9;{safe}\x1b\\\x1b]777;notify;pi-marathon;{safe}\x1b\\")

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._erase()
        self._out.write(self._styled(text, style) + "\n")
        if self._typed:
            self._draw()

    def _end_line(self) -> None:
        self._show_held(len(self._held))
        if self._in_line:
            self._out.write("\n")
            self._in_line = False

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and self._color else text

    def _redraw(self, text: str) -> None:
        shown = _fit(text, _width() - 1)
        if shown != self._drawn:
            if self._in_line:
                self._out.write("\n")
                self._in_line = False
            self._out.write("\r\x1b[K" + shown)
            self._drawn = shown

    def _erase(self) -> None:
        if self._drawn:
            self._out.write("\r\x1b[K")
            self._drawn = ""


def _head(session: SessionBegan) -> str:
    return f"{session.emoji} {session.phase}".strip()


def _spent(used: Usage | None) -> list[str]:
    """3 turns, 12.4k tok, $0.12"""
    if not used or not used.turns:
        return []
    return [counted(used.turns, "turn"), f"{amount(used.tokens)} tok", f"${used.cost:.2f}"]


def _summary(event: SessionEnded) -> list[str]:
    """45s, 3 turns, 12.4k tok, $0.12, and what went wrong."""
    parts = [duration(event.seconds), *_spent(event.usage)]
    if event.steps:
        parts.append(event.steps)
    if event.ending != "ended":
        parts.append(event.ending + (f": {one_line(event.cause, 200)}" if event.cause else ""))
    return parts


def _width() -> int:
    """The columns of the terminal as it is now."""
    return shutil.get_terminal_size().columns


def _fit(text: str, room: int) -> str:
    """The beginning of the text, as much as fits into that many cells."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= room else set_cell_size(text, max(room - 1, 0)).rstrip() + "…"


def _fit_end(text: str, room: int) -> str:
    """The end of the text, as much as fits."""
    from rich.cells import cell_len

    if cell_len(text) <= room:
        return text
    end = text[-max(room, 1) :]
    while end and cell_len(end) >= room:
        end = end[1:]
    return "…" + end
