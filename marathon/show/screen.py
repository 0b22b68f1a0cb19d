"""Shows events as they happen: live on a terminal, as plain lines elsewhere. Control codes of agents are removed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

from marathon.core import events
from marathon.core.budgets import Usage
from marathon.core.names import short_name
from marathon.core.text import amount, clean, duration, one_line
from marathon.process.window import marks_of
from marathon.show import blocks
from marathon.show.blocks import Block, Line, Prose
from marathon.show.live import Region, fit, footer, typed_row
from marathon.show.markdown import cells, split_complete, wrapped
from marathon.show.outlet import Outlet

WATCHED = ("type to tell it", "Alt+Enter next session", "Esc Esc stop")  # with attach,
STEERED = ("type to steer", "Alt+Enter next session", "Esc stop")  # what a human may do while pi works,
KEPT = ("type a note for the next session",)  # while a program works that cannot be told anything,
_REASON = 44  # columns that the reason of a wait has at least, where there is room
_AROUND = 9  # columns for the marks around it
IN_WAIT = ("Enter go on now", "type a note")  # and in a wait
LEAVE = "b Enter leave"
UNFOLD = "Ctrl+O unfold"
_OF_WORK = events.Ticked | events.Text | events.Output | events.ToolCalled
_AMID_TEXT = events.Text | events.ToolUpdated | events.Output | events.Notice  # these do not end a message
_BETWEEN_DRAWINGS = 0.1  # seconds
_MOST_WAITING = 500  # lines that wait to be drawn
_LONGEST_THOUGHT = 64 * 1024
_LIVE_ROWS, _TAIL_LINES, _MOST_CALLS = 10, 3, 50


@dataclass
class _Running:
    """A tool call that has not ended."""

    call: events.ToolCalled
    since: float
    tail: str = ""


class Screen:
    """A consumer of events. `live` keeps the footer at the bottom; otherwise each event that matters is a line.

    A live screen needs Ticked several times a second. `hints` name what a human may type.
    """

    def __init__(
        self, out: TextIO | None, *, live: bool, notify: bool, color: bool | None = None, hints: Sequence[str] = ()
    ) -> None:
        self._out = Outlet(out)
        self._live = live
        self._notify = notify
        self._marks = marks_of(out) if live and notify else None
        self._called = "pi-marathon"  # the task, in the window's title
        self._color = (live and not os.environ.get("NO_COLOR")) if color is None else color
        self._hints = hints
        self._region = Region(self._out, self._color)
        self._session: events.SessionBegan | None = None
        self._working = False  # the agent leaves the terminal to us, so the footer may be drawn
        self._began = 0.0
        self._used = Usage()
        self._context = events.Context()
        self._calls: dict[str, _Running] = {}
        self._speech = ""  # Markdown that is not complete
        self._thought = ""
        self._compacting = 0.0  # since when
        self._typed = events.Typing("")
        self._unfolded = False
        self._whole: Block = []  # of the last block that was folded
        self._status: list[Line] = []  # of a check or a wait, in place of the footer
        self._above: list[str] = []  # lines that are not written yet
        self._last = ""  # the kind of the last block
        self._next_drawing = 0.0

    def __call__(self, event: events.Event) -> None:
        self._out.write("")  # what was held, if the reader reads again
        self._mark(event)
        if isinstance(event, _OF_WORK):
            self._working = self._session is not None
        if isinstance(event, events.Logged):
            self._status = []
            if not isinstance(event, _AMID_TEXT):
                self._end_text()
        match event:
            case events.SessionBegan():
                self._end_calls()
                self._session, self._working = event, False
                self._began, self._used = event.at or time.time(), Usage()
                self._context = events.Context()
                self._put(blocks.block_of(event))
            case events.Text():
                self._say(event)
            case events.ToolCalled():
                if len(self._calls) >= _MOST_CALLS:
                    self._end_calls()
                self._calls[event.id] = _Running(event, event.at or time.time())
            case events.ToolUpdated():
                if event.id in self._calls:
                    self._calls[event.id].tail = event.text
            case events.ToolEnded():
                known = self._calls.pop(event.id, None)
                call = known.call if known else events.ToolCalled(event.id, event.name)
                self._put_folded(lambda whole: blocks.call_block(call, event, whole=whole))
            case events.Used():
                self._used = self._used.plus(event.usage)
                if event.usage.turns:  # what a message was given and said is what the context holds
                    self._know(events.Context(event.usage.model, tokens=event.usage.tokens))
            case events.Context():
                self._know(event)
            case events.Typing():
                before, self._typed = self._typed, events.Typing(clean(event.text), clean(event.behind))
                if self._typed == before:  # another program had the terminal and moved the cursor
                    self._region.forget()
            case events.Unfolding():
                self._unfolded = not self._unfolded
                said = "Whole from now on. Ctrl+O folds again." if self._unfolded else "Folded from now on."
                self._put([*(self._whole if self._unfolded else ()), Line(said, blocks.DIM)])
            case events.Checking():
                self._show_status(f"checking: {one_line(event.name, 120)}", duration(event.seconds))
            case events.Waiting():
                hints = [*IN_WAIT, *({LEAVE} & {*self._hints})] if event.skippable else []
                hints = ["Enter keeps it for the next session"] if self._is_typing else hints
                left, width = f"{duration(event.left)} left", (self._width or 80) - _AROUND
                while len(hints) > 1 and len(" · ".join(hints)) + len(left) + _REASON > width:
                    hints.pop()  # the first says how to go on
                room = width - len(left) - len(" · ".join(hints)) if hints else 120
                self._show_status(one_line(event.reason, max(room, 24)), left, hints)
            case events.WaitBegan() if self._live:
                pass  # the countdown says it
            case events.SessionEnded():
                self._end_calls()
                self._session, self._working, self._typed = None, False, events.Typing("")
                self._put(blocks.block_of(event))
            case events.HumanNeeded():
                self._ring(event.text)
            case events.CompactionEnded(after=after) if after:
                self._know(events.Context(tokens=after))
                self._compacting = 0.0
                self._put(blocks.block_of(event))
            case events.Logged():
                self._compacting = (event.at or time.time()) if isinstance(event, events.CompactionBegan) else 0.0
                self._put(blocks.block_of(event))
        self._draw(at_once=isinstance(event, events.Typing | events.Unfolding | events.Notice))

    def show_now(self) -> None:
        """Write what waits for the next drawing."""
        self._draw(at_once=True)

    def close(self) -> None:
        """Leave no half line behind."""
        self._end_text()
        self._end_calls()
        self._working, self._status = False, []
        self._draw(at_once=True)
        if self._marks:
            self._out.write(self._marks.clear())
        self._out.close()

    def _know(self, new: events.Context) -> None:
        known = self._context
        model, window = new.model or known.model, new.window or known.window
        self._context = events.Context(model, window, new.tokens or known.tokens)

    # What stays

    def _put(self, block: Block) -> None:
        """Add a block. On a terminal, an empty line stands around a block of several lines."""
        if not block:
            return
        kind = "prose" if isinstance(block[0], Prose) else "line" if len(block) == 1 else "lines"
        apart = {kind, self._last} != {"line"} if self._width else kind == self._last == "prose"
        if self._last and apart:
            self._above.append("")
        self._last = kind
        self._above += blocks.rows(block, self._width, self._color)

    def _put_folded(self, block: Callable[[bool], Block]) -> None:
        """A block that may be long: its beginning or its end, or the whole of it."""
        folded, whole = block(False), block(True)
        if folded != whole:
            self._whole = whole
        self._put(whole if self._unfolded else folded)

    @property
    def _is_typing(self) -> bool:
        return self._typed != events.Typing("")

    @property
    def _width(self) -> int | None:
        """The cells of a row, where text is laid out for a terminal."""
        return shutil.get_terminal_size().columns - 1 if self._live or self._color else None

    def _say(self, event: events.Text) -> None:
        if event.thinking:
            self._put_speech(rest=True)
            self._thought += event.text
            if len(self._thought) > _LONGEST_THOUGHT:
                self._put_thought()
        else:
            self._put_thought()
            self._speech += event.text
            if "\n" in self._speech[-len(event.text) - 1 :]:
                self._put_speech(rest=False)

    def _put_speech(self, *, rest: bool) -> None:
        done, self._speech = (self._speech, "") if rest else split_complete(self._speech)
        self._put([Prose(done)] if done.strip() else [])

    def _put_thought(self) -> None:
        text, self._thought = self._thought, ""
        self._put_folded(lambda whole: blocks.thought(text, self._width, whole=whole))

    def _end_text(self) -> None:
        self._put_thought()
        self._put_speech(rest=True)

    def _end_calls(self) -> None:
        for running in self._calls.values():
            self._put(blocks.call_block(running.call, None))
        self._calls.clear()

    # What changes

    def _draw(self, *, at_once: bool) -> None:
        """Write what waits. On a terminal that is done at most ten times a second while an agent works."""
        now = time.monotonic()
        may_wait = self._working and not at_once and len(self._above) <= _MOST_WAITING
        if not self._live:
            self._out.write("".join(f"{line}\n" for line in self._above))
        elif may_wait and (now < self._next_drawing or self._out.behind):
            return
        else:
            self._next_drawing = now + _BETWEEN_DRAWINGS
            rows = self._rows()
            if rows and self._is_typing:
                columns = shutil.get_terminal_size().columns
                line, cursor = typed_row(self._typed.text, self._typed.behind, columns - 1)
                self._region.draw(self._above, [*rows, line], cursor if self._typed.behind else None)
            else:
                self._region.draw(self._above, rows)
        self._above = []

    def _rows(self) -> list[Line]:
        columns, height = shutil.get_terminal_size()
        if self._status or not self._session or not self._working:
            return self._status
        now, most = time.time(), max(0, min(_LIVE_ROWS, height - 5))
        # Each running call has a row with its time. What is left is for what the calls print and the agent says.
        room, calls = max(0, most - len(self._calls)), list[Line]()
        for running in self._calls.values():
            took = f" · {duration(now - running.since)}"
            calls.append(Line(fit(f"⚙ {blocks.title(running.call)}", columns - 1 - cells(took)) + took, blocks.CYAN))
            tail = blocks.printed(running.tail, last=True, most=_TAIL_LINES)[-min(_TAIL_LINES, room) :] if room else []
            room -= len(tail)
            calls += tail
        shown = [*self._unfinished(columns - 1, room), *calls]
        if self._compacting:
            shown.append(Line(f"⏳ Compacting · {duration(now - self._compacting)}", blocks.DIM))
        if len(shown) > max(most, 1):
            shown = [*shown[:most], Line(f"… {len(shown) - most} more lines", blocks.DIM)]
        bottom = [footer(self._facts(self._session, now), () if self._is_typing else self._hints, columns - 1)]
        return [*([Line("")] if shown else []), *shown, Line(""), *bottom]

    def _show_status(self, what: str, time: str, hints: Sequence[str] = ()) -> None:
        self._status = [footer([f"⏳ {what}", time], hints, self._width or 80)._replace(style="")]

    def _unfinished(self, width: int, most: int) -> list[Line]:
        """The end of what the agent says or thinks right now."""
        text, style = (self._thought, blocks.THOUGHT) if self._thought else (self._speech, "")
        lines = clean(text).expandtabs(4).rstrip().split("\n")[-most:] if text.strip() else []
        return [Line(row, style) for line in lines for row in wrapped(line, width)][-most:] if most else []

    def _facts(self, session: events.SessionBegan, now: float) -> list[str]:
        name, most = one_line(short_name(session.task), 60), session.max_iterations
        number = f"{session.iteration}/{most}" if most else f"iteration {session.iteration}"
        cost, allowed = session.spent + self._used.cost, f" of ${session.max_cost:g}" if session.max_cost else ""
        money = f"${cost:.2f}{allowed}" if cost or allowed else ""
        context = self._context
        share = f"{context.tokens / context.window:.0%}" if context.window else amount(context.tokens)
        taken = f"context {share}" if context.tokens else ""
        facts = (name, blocks.head(session), number, duration(now - self._began), money, taken, context.model)
        return [one_line(fact, 60) for fact in facts if fact]

    def _mark(self, event: events.Event) -> None:
        """In the window's title, and as its progress."""
        if not self._marks:
            return
        match event:
            case events.SessionBegan():
                self._called = one_line(short_name(event.task), 40)
                title = one_line(f"▶ {self._called} · {event.phase} · {event.iteration}", 80)
                self._out.write(self._marks.show(title, "working"))
            case events.HumanNeeded():
                self._out.write(self._marks.show(one_line(f"⏸ {event.text}", 80), "waiting"))
            case events.WaitBegan():
                self._out.write(self._marks.show(f"⏳ {self._called} waits", "waiting"))

    def _ring(self, text: str) -> None:
        if self._notify and self._live:
            safe = one_line(text, 100).replace(";", ",")
            self._out.write(f"\a\x1b]9;{safe}\x1b\\\x1b]777;notify;pi-marathon;{safe}\x1b\\\x1b]99;;{safe}\x1b\\")
