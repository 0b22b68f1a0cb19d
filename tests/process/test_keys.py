"""Single keys from a terminal: whole ones, none from before the question, and the terminal cooked afterwards."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from marathon.process.keys import Keys
from marathon.process.signals import Interrupted, Signals
from tests.process.driver import on_pty, shell, until


@dataclass
class GateSurface:
    master: int
    slave: int
    signals: Signals

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def modes(self) -> list[object]:
        return list(termios.tcgetattr(self.slave))

    def keys_of(self, data: bytes) -> list[str | None]:
        """All keys that these bytes make."""
        with Keys(self.slave) as keys:
            self.type(data)
            found = [keys.read(10, self.signals)]
            while (key := keys.read(0.2, self.signals)) is not None:
                found.append(key)
        return found


@pytest.fixture
def desk() -> Iterator[GateSurface]:
    master, slave = os.openpty()
    with Signals() as signals:
        yield GateSurface(master, slave, signals)
    for fd in (master, slave):
        os.close(fd)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"f", ["f"]),
        (b"fq", ["f", "q"]),
        (b"\r", ["enter"]),
        (b"\n", ["enter"]),
        ("é漢🏃".encode(), ["é", "漢", "🏃"]),
        (b"\x1b", ["esc"]),
        (b"\x1b[A", ["other"]),
        (b"\x1bOP", ["other"]),
        (b"\x1b[1;5Cq", ["other", "q"]),
        (b"\x1b[15~q", ["other", "q"]),
        (b"\x1b[[Aq", ["other", "q"]),
        (b"\x1b[113;1uq", ["other", "q"]),
        (b"\x1b[<0;10;10Mq", ["other", "q"]),
        (b"\x1b[M qqf", ["other", "f"]),
        (b"\x1bq", ["other"]),
        (b"\x1b\x1b[Aq", ["other", "q"]),
        (b"\x1b[200~q\rf\x1b[201~f", ["paste", "f"]),
        (b"\x1b]11;rgb:0000/0000/0000\x07q", ["other", "q"]),
        (b"\x1bP>|term q\x1b\\q", ["other", "q"]),
        (b"\t\x7f\x01", ["other", "backspace", "other"]),
        (b"\x1b\rq", ["alt+enter", "q"]),
        (b"\xff\xc3(q", ["other", "other", "q"]),
    ],
)
def test_bytes_become_keys(desk: GateSurface, data: bytes, keys: list[str]) -> None:
    assert desk.keys_of(data) == keys


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[200~two\r\nlines\rand q\x1b[201~", "two\nlines\nand q"),
        (b"\x1b[200~\x1b[31mred\x03\x1b[201~", "\x1b[31mred\x03"),
        ("\x1b[200~é漢".encode() + b"\xff\x1b[201~", "é漢\ufffd"),
        (b"\x1b[200~its end never comes", "its end never comes"),
    ],
)
def test_what_was_pasted_is_kept_as_a_text(desk: GateSurface, data: bytes, text: str) -> None:
    raw = termios.tcgetattr(desk.slave)
    raw[0] &= ~termios.ICRNL
    raw[3] &= ~termios.ISIG
    termios.tcsetattr(desk.slave, termios.TCSANOW, raw)
    with Keys(desk.slave) as keys:
        desk.type(data)
        assert keys.read(10, desk.signals) == "paste"
        assert keys.pasted == text
        desk.type(b"x")
        assert keys.read(10, desk.signals) == "x"


def test_what_follows_a_key_is_left_for_the_next_reader(desk: GateSurface) -> None:
    with Keys(desk.slave) as keys:
        desk.type(b"fabc")
        assert keys.read(10, desk.signals) == "f"
        assert os.read(desk.slave, 100) == b"abc"


def test_a_key_typed_before_the_question_does_not_answer_it(desk: GateSurface) -> None:
    desk.type(b"q\nf\n")
    with Keys(desk.slave) as keys:
        assert keys.read(0.1, desk.signals) is None
        desk.type(b"y")
        assert keys.read(10, desk.signals) == "y"


def test_inside_nothing_is_echoed_and_signals_still_work(desk: GateSurface) -> None:
    with Keys(desk.slave):
        local = termios.tcgetattr(desk.slave)[3]
        assert not local & (termios.ECHO | termios.ICANON)
        assert local & termios.ISIG


@pytest.mark.parametrize("leave", ["quietly", "by an exception"])
def test_the_modes_are_restored_exactly(desk: GateSurface, leave: str) -> None:
    odd = termios.tcgetattr(desk.slave)
    odd[0] &= ~termios.ICRNL
    odd[6][termios.VERASE] = b"\x08"
    termios.tcsetattr(desk.slave, termios.TCSANOW, odd)
    before = desk.modes()

    def use() -> None:
        with Keys(desk.slave):
            if leave != "quietly":
                raise ValueError

    if leave == "quietly":
        use()
    else:
        with pytest.raises(ValueError):  # noqa: PT011 - raised three lines above
            use()
    assert desk.modes() == before


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_waiting_is_no_answer(desk: GateSurface, signum: int) -> None:
    before = desk.modes()
    old = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signum))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Interrupted) as caught, Keys(desk.slave) as keys:
            keys.read(None, desk.signals)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert caught.value.signum == signum
    assert desk.modes() == before


def test_a_signal_that_came_with_a_key_wins(desk: GateSurface) -> None:
    with Keys(desk.slave) as keys:
        desk.type(b"\n")
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted):
            keys.read(10, desk.signals)


def test_a_resized_window_is_not_a_key(desk: GateSurface) -> None:
    with Keys(desk.slave) as keys:
        os.kill(os.getpid(), signal.SIGWINCH)
        assert keys.read(0.1, desk.signals) is None


def test_ctrl_d_is_the_end_of_input(desk: GateSurface) -> None:
    with Keys(desk.slave) as keys:
        desk.type(b"\x04")
        with pytest.raises(EOFError):
            keys.read(10, desk.signals)


def test_a_terminal_that_goes_away_is_the_end_of_input() -> None:
    master, slave = os.openpty()
    try:
        with Signals() as signals, Keys(slave) as keys:
            os.close(master)
            with pytest.raises(EOFError):
                keys.read(10, signals)
    finally:
        os.close(slave)


ASK = (
    "from marathon.process.keys import Keys\n"
    "from marathon.process.signals import Signals, Interrupted\n"
    "with Signals() as signals:\n"
    "    try:\n"
    "        with Keys() as keys:\n"
    "            print('<asking>', flush=True)\n"
    "            print('<key', keys.read(None, signals), '>', flush=True)\n"
    "    except Interrupted as error:\n"
    "        print('<signal', error.signum, '>', flush=True)\n"
)


def test_ctrl_c_at_a_question_leaves_a_cooked_terminal() -> None:
    with on_pty([sys.executable, "-c", ASK]) as terminal:
        terminal.expect(b"<asking>")
        until(lambda: not terminal.cooked(), "keys come singly")
        terminal.send(b"\x03")
        terminal.expect(b"<signal 2 >")
        assert terminal.cooked()
        assert terminal.wait() == 0


def test_ctrl_z_at_a_question_returns_to_the_shell_and_the_question_is_still_open() -> None:
    with shell(ASK=ASK) as terminal:
        terminal.send(f"{sys.executable} -c 'import os; exec(os.environ[\"ASK\"])'\n".encode())
        terminal.expect(b"<asking>")
        asking = terminal.foreground()
        terminal.send(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.expect(b"$ ")
        terminal.send(b"fg\n")
        until(lambda: terminal.foreground() == asking and not terminal.cooked(), "the question is open again")
        terminal.send(b"y")
        terminal.expect(b"<key y >")
