"""The surface on a terminal: one key press answers a gate. An interruption is no answer, and neither is a sentence."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import termios
from collections.abc import Callable, Mapping
from pathlib import Path

from marathon.core.gates import Offer
from marathon.core.records import Answer
from marathon.core.text import clean, one_line
from marathon.errors import MarathonError
from marathon.process.keys import Keys
from marathon.process.signals import Interrupted, Signals
from marathon.surfaces.base import Elsewhere, GateView, Sight
from marathon.surfaces.gate_text import EMPTY_ANSWER, RULE, describe, fitted, offer_line
from marathon.surfaces.pager import page
from marathon.surfaces.paint import ASKS_TWICE, HINT, YES, colored, paint, paint_diff, paint_head
from marathon.surfaces.text_prompt import add_to_draft, ask_text, draft_text
from marathon.surfaces.typed import Typed, read_typed

READ_AGAIN = 0.5
QUIET = 0.3  # seconds without a key, after which the keys meant for a pager or an editor are over
CANCEL = "Press c again to cancel this run for good. Any other key keeps the run."
QUIT = "Press q again to quit the marathon. Any other key stays here."

Options = Mapping[str, Offer | Sight]


class TerminalSurface:
    interactive = True

    def __init__(self, signals: Signals, draft: Path) -> None:
        self._signals = signals
        self._draft = draft
        self._on_screen = ""  # the gate that was shown last
        self._unfinished = False  # a sentence was typed, and no Enter has ended it
        self._was_outside = False  # in a pager or an editor just now, so that late keys are not for us
        self._looked = False  # in a pager, before this key: a q may have been meant for it

    def ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        try:
            return self._ask(view, elsewhere)
        except (OSError, termios.error) as gone:  # the window was closed, which is no answer
            raise EOFError from gone

    def _ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        options = {option.key: option for option in _options(view)}
        head = clean("\n".join(describe(view)))

        def whole() -> str:
            return f"{paint_head(_fitted(head))}\n\n{_menu(options)}"

        def hint() -> str:
            return paint(f"{', '.join(map(_key_name, options))} · ? shows the options", HINT)

        shown = hint
        if self._on_screen != view.gate.token + head:
            shown, self._on_screen, self._unfinished = whole, view.gate.token + head, False
        while True:
            pressed = self._pressed(shown(), whole, options, elsewhere)
            shown = hint
            if pressed == "?":
                shown, self._looked = whole, False
            if isinstance(pressed, Typed):
                pressed = self._with_text(view.offers[0], pressed.text)
            elif isinstance(pressed, str) and pressed in options:
                pressed = self._chosen(options[pressed], view, whole, options, elsewhere)
            if isinstance(pressed, Answer):
                return pressed

    def _pressed(
        self, shown: str, again: Callable[[], str], options: Options, elsewhere: Elsewhere, *, confirms: str = ""
    ) -> str | Typed | Answer | None:
        """A key that stands for something, the beginning of an answer, or an answer from elsewhere.

        Any other text is kept and offered as feedback. While a key `confirms`, every other one ends the waiting.
        After a Ctrl+Z, `again` is shown.
        """
        answers = any(isinstance(each, Offer) and each.choice == "answer" for each in options.values())

        def begins_answer(text: str) -> bool:
            return answers and not confirms and (len(text) > 1 or text.lower() not in options)

        with Keys(on_resume=lambda: print(again(), flush=True), pastes_apart=True) as keys:
            while self._was_outside:
                self._was_outside = keys.read(QUIET, self._signals) is not None
            print(shown, flush=True)  # only now, because what was typed earlier is dropped, so that it cannot answer
            while True:
                answer = elsewhere()
                if answer is not None:
                    asked = "Asked to stop" if answer.choice == "quit" else "Answered"
                    said = "The files changed." if answer.choice == "refresh" else f"{asked} from another shell."
                    print(said, flush=True)
                    return answer
                first = keys.read(READ_AGAIN, self._signals)
                if first is None:
                    continue
                typed = read_typed(keys, first, self._signals, begins_answer)
                key = typed.key.lower() if typed else ""
                if confirms and (key or not typed):
                    return key
                if typed and begins_answer(typed.text):
                    return typed
                if key == "enter" and self._unfinished:
                    self._unfinished = False
                    print(f"{self._offered(options)}\nPress Enter again to go on without it.", flush=True)
                elif key and (key in options or key == "?"):
                    return key
                elif typed and key and not typed.entered:
                    print(f"{_key_name(typed.key)} is not one of the options. ? shows them.", flush=True)
                elif typed and typed.text.strip():
                    add_to_draft(typed.text, self._draft, "" if self._unfinished else "\n")
                    self._unfinished = not typed.entered
                    print(self._offered(options), flush=True)
                    if confirms:
                        return ""

    def _offered(self, options: Options) -> str:
        """What was typed, and the keys that take it."""
        taking = [each for each in options.values() if isinstance(each, Offer) and each.words != "none"]
        near = [each for each in taking if each.key in "fr"] or taking
        ways = " · ".join(f"[{each.key}] {each.label.partition(', then ')[2] or each.label}" for each in near)
        return paint(f'You typed: "{one_line(draft_text(self._draft))}". Send it as feedback? {ways}', HINT)

    def _chosen(
        self, option: Offer | Sight, view: GateView, again: Callable[[], str], options: Options, elsewhere: Elsewhere
    ) -> Answer | None:
        """The answer that a key stands for, or None if the key only showed something."""
        looked, self._looked = self._looked, False
        if isinstance(option, Sight):
            self._outside(lambda: look(option))
            self._looked = True
            return None
        if option.key == "e" and view.at_hand:
            document = view.at_hand
            self._outside(lambda: edit(document))
            return Answer(choice="refresh")
        if once_more := _once_more(option, looked):
            shown = paint(once_more, ASKS_TWICE)
            key = self._pressed(shown, lambda: f"{again()}\n{shown}", options, elsewhere, confirms=option.key)
            if key != option.key:  # Enter was meant as a no, not as an approval
                return key if isinstance(key, Answer) else None
        if option.words == "none":
            return Answer(choice=option.choice, phase=option.phase)
        return self._with_text(option)

    def _with_text(self, offer: Offer, begun: str = "") -> Answer | None:
        text = ask_text(offer.ask, self._draft, self._signals, begun)
        self._unfinished = False
        if text is None or (not text.strip() and offer.words == "required"):
            print("Nothing was recorded. Choose again.", flush=True)
            return None
        if not text.strip() and offer.choice == "answer":
            print(EMPTY_ANSWER, flush=True)
        return Answer(choice=offer.choice, phase=offer.phase, text=text.strip())

    def _outside(self, show: Callable[[], None]) -> None:
        """Run a pager or an editor. A Ctrl+C typed there does not end the marathon."""
        self._was_outside = True
        try:
            show()
        except OSError as error:
            print(f"Could not show it: {error.strerror}.", flush=True)
        except MarathonError as error:
            print(error, flush=True)
        for signum in self._signals.take():
            if signum in (signal.SIGTERM, signal.SIGHUP):
                raise Interrupted(signum)


def _options(view: GateView) -> list[Offer | Sight]:
    """The gate's offers, with the keys that show something before the rarely used ones."""
    edits = [Offer("e", f"Edit {view.at_hand.name}", "refresh")] if view.at_hand else []
    rare = next((at for at, offer in enumerate(view.offers) if offer.key in "loc"), len(view.offers))
    return [*view.offers[:rare], *view.sights[:1], *edits, *view.sights[1:], *view.offers[rare:]]


def _menu(options: Options) -> str:
    lines = [_fitted(RULE), "Options:"]
    for option in options.values():
        heavy = isinstance(option, Offer) and option.heavy
        lines.append(paint(clean(offer_line(option)), YES if option.key == "enter" else ASKS_TWICE if heavy else ""))
    return "\n".join(lines)


def _fitted(text: str) -> str:
    return fitted(text, shutil.get_terminal_size().columns)


def _key_name(key: str) -> str:
    return {"enter": "Enter", " ": "Space"}.get(key, key)


def _once_more(offer: Offer, looked: bool) -> str:
    """The question before a key that is hard to take back, or that may have been meant for a pager."""
    if offer.choice == "cancel":
        return CANCEL
    if offer.choice == "quit" and looked:
        return QUIT
    return f"{offer.label}? Press {offer.key} again to do it. Any other key does nothing." if offer.heavy else ""


def look(sight: Sight) -> None:
    """Through the user's pager, laid out for reading. A log is read from its end."""
    text = sight.read()
    if sight.form == "document":
        text = _laid_out(clean(text))
    elif sight.form == "diff":
        text = paint_diff(clean(text))
    page(text, from_end=sight.form == "log")


def _laid_out(text: str) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    out, color = StringIO(), colored()
    width = shutil.get_terminal_size().columns
    console = Console(
        file=out, width=width, highlight=False, force_terminal=color, color_system="standard" if color else None
    )
    console.print(Markdown(text))
    return out.getvalue()


def edit(path: Path) -> None:
    """The user's own editor, in the foreground like any program."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        print(f"Could not start {editor!r}: {error.strerror}. Set EDITOR to your editor.", flush=True)
