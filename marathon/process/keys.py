"""Single key presses from the terminal on stdin."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import termios
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.process.terminal import on_terminal, suspend_self

_SEQUENCE_GAP = 0.05  # the bytes of one escape sequence come together; a lone Esc has nothing after it
_PASTE_GAP = 0.5
_END_OF_INPUT = b"\x04"
_TELL_PASTES, _TELL_NO_PASTES = b"\x1b[?2004h", b"\x1b[?2004l"


class Keys:
    """Inside, keys arrive one by one and are not echoed; Ctrl+C and Ctrl+Z still make signals.

    What was typed before is thrown away on enter: a key pressed before a question was shown never answers it.
    """

    def __init__(
        self, fd: int = 0, on_resume: Callable[[], None] = lambda: None, *, pastes_apart: bool = False
    ) -> None:
        self._fd = fd
        self._on_resume = on_resume  # after a Ctrl+Z, when the shell has written on the screen
        self._pastes_apart = pastes_apart and on_terminal()  # a pasted text is one "paste", not the keys in it

    def __enter__(self) -> Keys:
        self._saved: list[Any] = termios.tcgetattr(self._fd)
        self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def read(self, timeout: float | None, signals: Signals) -> str | None:
        """ "enter", "alt+enter", "esc", "backspace", a printable character, "paste", "other"; None when time is over.

        EOFError at the end of input (or Ctrl+D), Interrupted for a signal that asks us to end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._fd, signals.fd], [], [], patience)
            if signals.fd in ready:
                self._obey(signals)
            elif self._fd in ready:
                try:
                    return self._key(self._byte())
                except EOFError:
                    self._obey(signals)  # a closed window is the end of input and, before that, a signal
                    raise
            else:
                return None

    def again(self) -> None:
        """After somebody else had the terminal."""
        self._listen()

    def _obey(self, signals: Signals) -> None:
        for signum in signals.take():
            if signum in ENDING:
                raise Interrupted(signum)
            if signum == signal.SIGTSTP:
                self._restore()
                suspend_self(job=False)
                self._listen()
                self._on_resume()

    def _listen(self) -> None:
        modes = termios.tcgetattr(self._fd)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        termios.tcflush(self._fd, termios.TCIFLUSH)
        self._ask_terminal(_TELL_PASTES)

    def _ask_terminal(self, request: bytes) -> None:
        if self._pastes_apart:
            with contextlib.suppress(OSError):
                os.write(1, request)

    def _restore(self) -> None:
        self._ask_terminal(_TELL_NO_PASTES)
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)
        except termios.error:
            if os.isatty(self._fd):  # a terminal that is gone has nothing to restore
                raise

    def _key(self, first: bytes) -> str:
        if first in (b"\r", b"\n"):
            return "enter"
        if first == b"\x1b":
            return self._escape()
        if first == _END_OF_INPUT:
            raise EOFError
        if first in (b"\x7f", b"\b"):
            return "backspace"
        return self._character(first)

    def _character(self, first: bytes) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            text = decoder.decode(first)
            while not text:
                if (byte := self._next(_SEQUENCE_GAP)) is None:
                    return "other"
                text = decoder.decode(byte)
        except UnicodeDecodeError:
            return "other"
        return text if text.isprintable() else "other"

    # Escape sequences: read to their end, so that no part of one is taken for a key.

    def _escape(self) -> str:
        match self._next(_SEQUENCE_GAP):
            case None:
                return "esc"
            case b"[":
                return "paste" if self._control_sequence() == b"200~" else "other"
            case b"O":
                self._next(_SEQUENCE_GAP)
            case b"]" | b"P" | b"_" | b"^" | b"X":
                self._string_sequence()
            case b"\r" | b"\n":
                return "alt+enter"
            case b"\x1b":  # Alt+arrow in some terminals
                return self._escape() if self._waiting(_SEQUENCE_GAP) else "esc"
            case _:
                pass
        return "other"

    def _control_sequence(self) -> bytes:
        sequence = b""
        while byte := self._next(_SEQUENCE_GAP):
            sequence += byte
            if sequence == b"[":  # the Linux console's F1 to F5: one more letter
                continue
            if b"@" <= byte <= b"~":
                break
        if sequence == b"M":  # a mouse report of the oldest kind
            for _ in range(3):
                self._next(_SEQUENCE_GAP)
        elif sequence == b"200~":
            self._swallow_until(b"\x1b[201~", _PASTE_GAP)
        return sequence

    def _string_sequence(self) -> None:
        self._swallow_until(b"\x1b\\", _SEQUENCE_GAP, b"\x07")

    def _swallow_until(self, end: bytes, gap: float, *other_ends: bytes) -> None:
        seen = b""
        while not seen.endswith((end, *other_ends)) and (byte := self._next(gap)):
            seen = (seen + byte)[-len(end) :]

    def _next(self, gap: float) -> bytes | None:
        return self._byte() if self._waiting(gap) else None

    def _waiting(self, gap: float) -> bool:
        return bool(select.select([self._fd], [], [], gap)[0])

    def _byte(self) -> bytes:
        try:
            byte = os.read(self._fd, 1)
        except OSError as error:  # the terminal is gone
            raise EOFError from error
        if not byte:
            raise EOFError
        return byte
