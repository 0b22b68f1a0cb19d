"""Single key presses from the terminal on stdin."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import signal
import termios
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.process.terminal import on_terminal, suspend_self

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyPress

TYPING_GAP = 0.5  # seconds. Someone who types a sentence slowly presses a key every 0.3 or 0.4 seconds.
_SEQUENCE_GAP = 0.05  # the bytes of one escape sequence come together; a lone Esc has nothing after it
_PASTE_GAP = 0.5
_GARBAGE = "\0"  # for bytes that are no UTF-8: no key
_TELL_PASTES, _TELL_NO_PASTES = b"\x1b[?2004h", b"\x1b[?2004l"
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", b"\x1b[201~"
# A whole escape sequence, also one that the parser does not know: control sequences, single shifts, strings such as
# a colour report, and Alt with a key. No part of one may be taken for a key.
_SEQUENCE = re.compile(r"\x1b+(\[[0-?]*[ -/]*[@-~]|O.|[\]P_^X].*(\x07|\x1b\\)|[^\x1b\[O\]P_^X])", re.DOTALL)


class Keys:
    """Inside, keys arrive one by one and are not echoed; Ctrl+C and Ctrl+Z still make signals.

    What was typed before is thrown away on enter: a key pressed before a question was shown never answers it.
    """

    def __init__(
        self,
        fd: int = 0,
        on_resume: Callable[[], None] = lambda: None,
        *,
        pastes_apart: bool = False,
        keep_typed: bool = False,
    ) -> None:
        self._fd = fd
        self._on_resume = on_resume  # after a Ctrl+Z, when the shell has written on the screen
        self._pastes_apart = pastes_apart and on_terminal()  # a pasted text is one "paste", not the keys in it
        self._keep_typed = keep_typed  # what is typed already is meant for this reader
        self.presses: list[KeyPress] = []  # the last key, as prompt_toolkit names it
        self.pasted = ""  # the text of the last "paste"

    def __enter__(self) -> Keys:
        from prompt_toolkit.input.vt100_parser import Vt100Parser

        self._parser = Vt100Parser(self.presses.append)
        self._saved: list[Any] = termios.tcgetattr(self._fd)
        self.again(drop=not self._keep_typed)
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def read(self, timeout: float | None, signals: Signals) -> str | None:
        """ "enter", "alt+enter", "esc", "backspace", a printable character, "paste", "other"; None when time is over.

        EOFError at the end of input (or Ctrl+D), Interrupted for a signal that asks us to end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._fd, signals.fd], [], [], patience)
            if signals.fd in ready:
                self.obey(signals)
            elif self._fd in ready:
                try:
                    return self._key()
                except EOFError:
                    self.obey(signals)  # a closed window is the end of input and, before that, a signal
                    raise
            else:
                return None

    def obey(self, signals: Signals) -> None:
        """Step aside for a Ctrl+Z. Interrupted for a signal that asks us to end."""
        for signum in signals.take():
            if signum in ENDING:
                raise Interrupted(signum)
            if signum == signal.SIGTSTP:
                self.restore()
                suspend_self(job=False)
                self.again()
                self._on_resume()

    def again(self, *, drop: bool = True) -> None:
        """Listen, also after another program had the terminal, and drop what was typed before."""
        modes = termios.tcgetattr(self._fd)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        if drop:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        self._ask_terminal(_TELL_PASTES)

    def _ask_terminal(self, request: bytes) -> None:
        if self._pastes_apart:
            with contextlib.suppress(OSError):
                os.write(1, request)

    def restore(self) -> None:
        """Give the terminal back as it was."""
        self._ask_terminal(_TELL_NO_PASTES)
        try:
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved)
        except termios.error:
            if os.isatty(self._fd):  # a terminal that is gone has nothing to restore
                raise

    # Read byte by byte: what follows a key stays with the terminal, for the next reader.

    def _key(self) -> str:
        self._parser.reset()
        self.presses.clear()
        typed = self._character(None)
        self._parser.feed(typed)
        while not self.presses and (more := self._character(_SEQUENCE_GAP)):
            typed += more
            self._parser.feed(more)
            if typed == _PASTE_BEGINS:
                return self._paste()
        self._parser.flush()
        match [press.key for press in self.presses]:
            case ["c-d"]:
                raise EOFError
            case ["c-m" | "c-j"]:
                return "enter"
            case ["c-h"]:
                return "backspace"
            case ["escape", "c-m" | "c-j"]:
                return "alt+enter"
            case ["escape"] if typed == "\x1b":
                return "esc"
            case ["escape", *_]:
                return "other" if self._to_its_end(typed).strip("\x1b") else "esc"
            case [character] if len(character) == 1 and character.isprintable():
                return str(character)
        return "other"

    def _to_its_end(self, sequence: str) -> str:
        """The whole of an escape sequence that the parser does not know."""
        while not _SEQUENCE.fullmatch(sequence) and (more := self._character(_SEQUENCE_GAP)):
            sequence += more
        return sequence

    def _paste(self) -> str:
        data = bytearray()
        while not data.endswith(_PASTE_ENDS) and (byte := self._byte(_PASTE_GAP)):
            data += byte
        text = data.removesuffix(_PASTE_ENDS).decode("utf-8", "replace")
        self.pasted = text.replace("\r\n", "\n").replace("\r", "\n")
        return "paste"

    def _character(self, patience: float | None) -> str:
        """The next one; nothing if it does not come in time."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while byte := self._byte(patience):
                if text := decoder.decode(byte):
                    return text
                patience = _SEQUENCE_GAP
            return _GARBAGE if decoder.getstate()[0] else ""
        except UnicodeDecodeError:
            return _GARBAGE

    def _byte(self, patience: float | None) -> bytes:
        if not select.select([self._fd], [], [], patience)[0]:
            return b""
        try:
            byte = os.read(self._fd, 1)
        except OSError as error:  # the terminal is gone
            raise EOFError from error
        if not byte:
            raise EOFError
        return byte
