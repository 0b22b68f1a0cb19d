"""The line that a human types for the agent: it edits like a line of a shell, and nothing in it acts before Enter."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marathon.core.events import Event, Notice, Typing, Unfolding
from marathon.process.input_line import InputLine, Typed
from marathon.process.keys import Keys
from marathon.process.signals import Signals
from tests.process.driver import Pty, until
from tests.support.world import World, research

LEFT, RIGHT, UP, DOWN, HOME, END, DELETE = (f"\x1b[{end}".encode() for end in ("D", "C", "A", "B", "H", "F", "3~"))
ALT_UP, ALT_B, CTRL_LEFT = b"\x1b[1;3A", b"\x1bb", b"\x1b[1;5D"


class Desk:
    """A line on a terminal of its own."""

    def __init__(self, signals: Signals) -> None:
        self.master, self.slave = pty.openpty()
        self.queued: list[str] = []
        self.events: list[Event] = []
        self.line = InputLine(signals, self.events.append, lambda: self.queued.pop() if self.queued else "")
        self.line.keys = Keys(self.slave)

    def type(self, *keys: bytes) -> list[Typed]:
        """What the keys ended."""
        ended = []
        with self.line.keys:
            for key in keys:
                os.write(self.master, key)
                while typed := self.line.hear(0.2) or self._more():
                    ended += [typed] if isinstance(typed, Typed) else []
        return ended

    def _more(self) -> bool:
        import select

        return bool(select.select([self.slave], [], [], 0)[0])

    @property
    def shown(self) -> str:
        last = [each for each in self.events if isinstance(each, Typing)][-1]
        return f"{last.text}|{last.behind}"


@pytest.fixture
def desk() -> Iterator[Desk]:
    with Signals() as signals:
        made = Desk(signals)
        yield made
        os.close(made.master)
        os.close(made.slave)


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ([b"one three", LEFT, LEFT, LEFT, LEFT, LEFT, b"two "], "one two |three"),
        ([b"mind the gap", b"\x01", b"do "], "do |mind the gap"),
        ([b"mind the gap", HOME, b"\x05", b"s"], "mind the gaps|"),
        ([b"mind the gap", HOME, END, b"s"], "mind the gaps|"),
        ([b"mind the gap", b"\x17"], "mind the |"),
        ([b"mind the gap", CTRL_LEFT, b"\x15"], "|gap"),
        ([b"mind the gap", ALT_B, b"\x0b", b"\x19\x19"], "mind the gapgap|"),
        ([b"mind the gap", b"\x01", RIGHT, DELETE, b"\x04"], "m|d the gap"),
        ([b"mind", b"\x7f\x7f"], "mi|"),
        (["größe".encode(), LEFT, b"\x7f", "ß".encode()], "größ|e"),
        ([b"a", b"\x1b[?997;1n", b"\x1b[15~", b"b"], "ab|"),
    ],
)
def test_it_edits_like_a_shell(desk: Desk, keys: list[bytes], shown: str) -> None:
    assert desk.type(*keys) == []
    assert desk.shown == shown


def test_the_cursor_keys_bring_back_what_was_typed(desk: Desk) -> None:
    desk.type(b"one\r", b"two\r")
    desk.type(b"dropped", b"\x1b")
    desk.type(b"thr", UP)
    assert desk.shown == "dropped|"
    desk.type(UP, UP, UP)
    assert desk.shown == "one|"
    desk.type(DOWN, DOWN, DOWN, DOWN)
    assert desk.shown == "thr|", "the line that was begun is still there"
    desk.type(UP, UP)
    assert desk.type(b"!\r") == [Typed("enter", "two!")]


def test_alt_up_takes_a_queued_message_back_and_ctrl_o_unfolds(desk: Desk) -> None:
    desk.queued = ["first", "second"]
    desk.type(b"begun", ALT_UP)
    assert desk.shown == "second|"
    assert desk.queued == ["first"]
    desk.type(UP)
    assert desk.shown == "begun|", "nothing typed is lost"
    desk.type(ALT_UP, ALT_UP)
    assert isinstance(desk.events[-1], Notice)
    desk.type(b"\x0f")
    assert isinstance(desk.events[-1], Unfolding)


def test_ctrl_d_ends_the_input_only_of_an_empty_line(desk: Desk) -> None:
    desk.type(b"x", b"\x04")
    with pytest.raises(EOFError):
        desk.type(b"\x7f", b"\x04")


def messages(world: World) -> list[Path]:
    return sorted((world.task / ".marathon/inbox").glob("*.json"))


def test_a_message_is_edited_and_recalled_on_a_real_terminal(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(say=["\n".join(f"line {n}" for n in range(20))], hold=True), research())
    terminal = on_terminal()
    until(lambda: world.holding(1), "the agent works")
    terminal.send(b"mid the gap" + b"\x1b[D" * 9)
    terminal.expect(b"\x1b[")
    terminal.send(b"n")
    terminal.expect("› mind the gap".encode())
    terminal.expect(b"\x1b[6G")
    terminal.send(b"\r")
    terminal.expect("→ for the next session: mind the gap (Alt+Up takes it back)".encode())
    assert len(messages(world)) == 1
    terminal.send(ALT_UP)
    terminal.expect("› mind the gap".encode())
    assert not messages(world)
    terminal.send(b"\x17step\r")
    terminal.expect("→ for the next session: mind the step".encode())
    assert len(messages(world)) == 1
    world.release(1)
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert terminal.cooked()
