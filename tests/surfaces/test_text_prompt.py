"""Words typed at the gate: Enter ends them, nothing typed is lost, and the terminal is always as it was."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.driver import ROOT, Pty, environment, until

ASKED = b"Enter ends"


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return tmp_path / "draft.md"


@pytest.fixture
def asked(draft: Path) -> Iterator[Callable[..., Pty]]:
    """A terminal on which the question stands."""
    opened: list[Pty] = []

    def start(times: int = 1) -> Pty:
        harness = str(ROOT / "tests" / "surfaces" / "words_harness.py")
        opened.append(Pty([sys.executable, harness, str(draft), str(times)], environment()))
        opened[-1].expect(ASKED)
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def said(terminal: Pty) -> str:
    terminal.expect(b"<said ")
    return terminal.expect(b">\r\n").decode().removesuffix(">\r\n")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (b"check auth\r", "check auth"),
        ("é 漢字 🏃\r".encode(), "é 漢字 🏃"),
        (b"one\x1b\rtwo\r", "one\ntwo"),
        (b"\x1b[200~one\rtwo\nthree\x1b[201~\r", "one\ntwo\nthree"),
        (b"wrong\x7f\x7f\x7f\x7f\x7fright\r", "right"),
        (b"\r", ""),
    ],
    ids=["a line", "any script", "Alt+Enter", "a paste of lines", "corrected", "empty"],
)
def test_enter_ends_the_text(asked: Callable[..., Pty], draft: Path, typed: bytes, text: str) -> None:
    terminal = asked()
    terminal.send(typed)
    assert said(terminal) == repr(text)
    assert terminal.wait() == 0
    assert terminal.cooked()
    assert not draft.exists()


@pytest.mark.parametrize("key", [b"\x03", b"\x1b"], ids=["Ctrl+C", "Esc"])
def test_taken_back_it_is_no_answer_and_what_was_typed_is_offered_again(
    asked: Callable[..., Pty], draft: Path, key: bytes
) -> None:
    terminal = asked(times=2)
    terminal.send(b"half a thou")
    terminal.expect(b"thou")
    terminal.send(key)
    assert said(terminal) == "None"
    assert draft.read_text() == "half a thou"
    assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    terminal.expect(ASKED)
    terminal.expect(b"half a thou")
    terminal.send(b"ght\r")
    assert said(terminal) == "'half a thought'"
    assert terminal.wait() == 0
    assert terminal.cooked()
    assert not draft.exists()


def test_nothing_typed_leaves_no_draft(asked: Callable[..., Pty], draft: Path) -> None:
    terminal = asked()
    terminal.send(b"\x03")
    assert said(terminal) == "None"
    assert terminal.wait() == 0
    assert not draft.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_the_draft_and_leaves_the_terminal_cooked(
    asked: Callable[..., Pty], draft: Path, number: signal.Signals
) -> None:
    terminal = asked()
    terminal.send(b"do not lose me")
    terminal.expect(b"lose me")
    assert not terminal.cooked()
    os.kill(terminal.pid, number)
    terminal.expect(f"<interrupted {number.name}>".encode())
    assert terminal.wait() == 128 + number
    assert terminal.cooked()
    assert draft.read_text() == "do not lose me"
    again = asked()
    again.expect(b"do not lose me")


def test_a_closed_window_keeps_the_draft(asked: Callable[..., Pty], draft: Path) -> None:
    terminal = asked()
    terminal.send(b"do not lose me")
    terminal.expect(b"lose me")
    terminal.hang_up()
    until(lambda: terminal.poll() is not None, "the program ends with its window")
    assert draft.read_text() == "do not lose me"


def test_a_draft_that_is_no_text_does_not_stand_in_the_way(asked: Callable[..., Pty], draft: Path) -> None:
    draft.write_bytes(b"caf\xe9")
    terminal = asked()
    terminal.send(b"!\r")
    assert said(terminal) == repr("caf\ufffd!")
    assert terminal.wait() == 0
