"""Tells a key that was pressed from a sentence that is being typed, by the pause after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from marathon.core.text import clean
from marathon.process.keys import TYPING_GAP, Keys
from marathon.process.signals import Signals

PASTE_GAP = 0.05  # a terminal that does not say what is pasted sends all of it at once


class Typed(NamedTuple):
    """What came without a pause."""

    text: str
    entered: bool = False  # Enter ended it
    pressed: int = 1  # how many keys; a paste counts as many

    @property
    def key(self) -> str:
        """The one key that this was. Empty if it was more than one."""
        if not self.text and self.entered:
            return "enter"
        return self.text if self.pressed == 1 else ""


def read_typed(keys: Keys, first: str, signals: Signals, enough: Callable[[str], bool]) -> Typed | None:
    """All that comes until no other key follows, echoed. None for keys that are no text, such as arrows.

    Where the text so far is `enough`, the rest is left for the next reader.
    """
    text, pressed, entered = "", 0, False
    key: str | None = first
    while key is not None:
        gap = TYPING_GAP
        if key == "enter":
            entered, gap = True, PASTE_GAP
        elif key == "backspace":
            if text:
                print("\b \b", end="", flush=True)
            text = text[:-1]
        elif key == "paste" or len(key) == 1 or key == "alt+enter":
            more = clean({"paste": keys.pasted, "alt+enter": "\n"}.get(key, key))
            if entered and pressed:
                text += "\n"
            text, pressed, entered = text + more, pressed + (1 if len(key) == 1 else 2), False
            print(more, end="", flush=True)
            if enough(text):
                break
        elif not pressed and not entered:
            return None
        key = keys.read(gap, signals)
    if pressed:
        print(flush=True)
    return Typed(text, entered, pressed) if text or entered else None
