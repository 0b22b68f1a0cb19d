"""The surface on a terminal: one key press answers a gate. An interruption is no answer."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Set
from pathlib import Path

from marathon.core.gates import Offer
from marathon.core.records import Answer
from marathon.core.text import clean
from marathon.process.keys import Keys
from marathon.process.signals import Interrupted, Signals
from marathon.surfaces.base import Elsewhere, GateView
from marathon.surfaces.gate_text import EMPTY_ANSWER, RULE, describe, fitted, offer_line
from marathon.surfaces.text_prompt import ask_text

TYPING_GAP = 0.5  # seconds between two keys of a sentence
READ_AGAIN = 0.5
CANCEL = "Press c again to cancel this run for good. Any other key keeps the run."
ACCEPT = "Press a again to end the task although not everything is met. Any other key goes back."
ONCE_MORE = {"c": CANCEL, "a": ACCEPT}
LATE_ENTER = "Ignored that Enter because other keys came just before it. Press Enter again to continue."


class TerminalSurface:
    interactive = True

    def __init__(self, signals: Signals, draft: Path) -> None:
        self._signals = signals
        self._draft = draft

    def ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        try:
            return self._ask(view, elsewhere)
        except (OSError, termios.error) as gone:  # the window was closed, which is no answer
            raise EOFError from gone

    def _ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        offers = {offer.key: offer for offer in _with_sights(view)}
        menu = "\n".join([RULE, "Options:", *map(offer_line, offers.values())])
        shown = whole = clean("\n".join([*describe(view), "", menu]))
        while True:
            key = self._key(shown, whole, offers.keys(), elsewhere)
            if isinstance(key, str) and (warning := ONCE_MORE.get(key)):
                again = self._key(warning, f"{whole}\n{warning}", {key}, elsewhere, any_key=True)
                # Another key does nothing else. Enter was meant as a no, not as an approval.
                answer = self._answer(offers[key], view) if again == key else None
                answer = again if isinstance(again, Answer) else answer
            else:
                answer = key if isinstance(key, Answer) else self._answer(offers[key], view)
            if answer is not None:
                return answer
            shown = menu

    def _key(
        self, shown: str, again: str, keys: Set[str], elsewhere: Elsewhere, *, any_key: bool = False
    ) -> str | Answer:
        """One of the known keys, with `any_key` also "" for any other, or an answer from elsewhere.

        After a Ctrl+Z, `again` is shown.
        """

        def show(text: str) -> None:
            print(fitted(text, shutil.get_terminal_size().columns), flush=True)

        with Keys(on_resume=functools.partial(show, again), pastes_apart=True) as pressed:
            show(shown)  # only now, because Keys drops what was typed earlier, so that it cannot answer
            stray, last = False, 0.0  # after a key that is no option, someone may be typing a sentence
            while True:
                answer = elsewhere()
                if answer is not None:
                    asked = "Asked to stop" if answer.choice == "quit" else "Answered"
                    said = "The files changed." if answer.choice == "refresh" else f"{asked} from another shell."
                    print(said, flush=True)
                    return answer
                key = pressed.read(READ_AGAIN, self._signals)
                if key is None:
                    continue
                in_sentence = stray and (key == "enter" or time.monotonic() - last < TYPING_GAP)
                if key.lower() in keys and not in_sentence:
                    return key.lower()
                if any_key:
                    return ""
                if stray and key == "enter":
                    stray = False
                    show(LATE_ENTER)
                    continue
                last = time.monotonic()
                if (key == "paste" or len(key) == 1) and not stray:
                    stray = True
                    hint = " To say something, press f first." if "f" in keys else ""
                    show(f"That key is not one of the options.{hint}")

    def _answer(self, offer: Offer, view: GateView) -> Answer | None:
        """The answer that a key stands for, or None if the key only showed something."""
        match offer.key:
            case "v" if view.document:
                self._outside(functools.partial(show_document, view.document))
            case "d" if view.document and view.previous_round:
                self._outside(functools.partial(show_diff, view.previous_round, view.document))
            case "e" if view.document:
                self._outside(functools.partial(edit, view.document))
                return Answer(choice="refresh")
            case _ if offer.words == "none":
                return Answer(choice=offer.choice, phase=offer.phase)
            case _:
                return self._with_text(offer)
        return None

    def _with_text(self, offer: Offer) -> Answer | None:
        text = ask_text(offer.ask, self._draft, self._signals)
        if text is None or (not text.strip() and offer.words == "required"):
            print("Nothing was recorded. Choose again.", flush=True)
            return None
        if not text.strip() and offer.choice == "answer":
            print(EMPTY_ANSWER, flush=True)
        return Answer(choice=offer.choice, phase=offer.phase, text=text.strip())

    def _outside(self, show: Callable[[], None]) -> None:
        """Run a pager or an editor. A Ctrl+C typed there does not end the marathon."""
        try:
            show()
        except OSError as error:
            print(f"Could not show it: {error.strerror}.", flush=True)
        for signum in self._signals.take():
            if signum in (signal.SIGTERM, signal.SIGHUP):
                raise Interrupted(signum)


def _with_sights(view: GateView) -> list[Offer]:
    """The gate's offers, with the keys that show something before the rarely used ones."""
    name = view.document.name if view.document else ""
    sights = [Offer("v", f"View {name}", "refresh"), Offer("e", f"Edit {name}", "refresh")] if name else []
    if name and view.previous_round:
        sights.append(Offer("d", "Show what changed since the last round", "refresh"))
    rare = next((at for at, offer in enumerate(view.offers) if offer.key in "loc"), len(view.offers))
    return [*view.offers[:rare], *sights, *view.offers[rare:]]


def show_document(path: Path) -> None:
    """The artifact, laid out for reading, through the user's pager."""
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-RFX")  # show colors, and end at once if everything fits on the screen
    console = Console(highlight=False)
    with console.pager(styles=True):
        console.print(Markdown(clean(path.read_text(encoding="utf-8", errors="replace"))))


def show_diff(before: Path, after: Path) -> None:
    import difflib

    old, new = (clean(path.read_text(encoding="utf-8", errors="replace")).splitlines() for path in (before, after))
    lines = list(difflib.unified_diff(old, new, "last round", after.name, lineterm=""))
    print("\n".join(lines) or "Nothing changed since the last round.", flush=True)


def edit(path: Path) -> None:
    """The user's own editor, in the foreground like any program."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        print(f"Could not start {editor!r}: {error.strerror}. Set EDITOR to your editor.", flush=True)
