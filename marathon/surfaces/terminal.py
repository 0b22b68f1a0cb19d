"""Where a gate is answered: at the terminal with one key press, or, without one, by commands from a shell."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from marathon.core.events import Notice, Sink
from marathon.core.text import clean
from marathon.process.keys import Keys
from marathon.process.signals import Interrupted, Signals
from marathon.surfaces.gate_text import (
    BEFOREHAND,
    EMPTY_ANSWER,
    RULE,
    GateView,
    Option,
    Reply,
    answering_commands,
    describe,
    fitted,
    options,
)
from marathon.surfaces.text_prompt import ask_words

TYPING_GAP = 0.5  # seconds between two keys of a sentence
NOT_A_KEY = "That is none of the keys above: to say something, press f first."
LOOK_EVERY = 0.5


class GateSurface(Protocol):
    """Somewhere a gate can be answered."""

    interactive: bool

    def ask(self, view: GateView, elsewhere: Callable[[], Reply | None]) -> Reply | None:
        """The human's reply, or None if there is nobody to ask. `elsewhere` tells of a verdict sent from a shell."""


class ShellSurface:
    """Prints the gate and the commands that answer it; asks nothing."""

    interactive = False

    def __init__(self, emit: Sink) -> None:
        self._emit = emit

    def ask(self, view: GateView, elsewhere: Callable[[], Reply | None]) -> Reply | None:
        reply = elsewhere()
        if reply is None:
            commands = answering_commands(view.gate.kind, view.gate.phase, view.task, view.phases)
            indented = [f"  {command}" for command in commands]
            lines = [*describe(view), "", "Answer it with one of:", *indented, f"then: {view.resume}"]
            self._emit(Notice("\n".join(lines)))
        return reply


class TerminalSurface:
    """Asks at the terminal. An interruption is no answer."""

    interactive = True

    def __init__(self, signals: Signals, draft: Path) -> None:
        self._signals = signals
        self._draft = draft

    def ask(self, view: GateView, elsewhere: Callable[[], Reply | None]) -> Reply | None:
        try:
            return self._ask(view, elsewhere)
        except (OSError, termios.error) as gone:  # the window was closed: that is no answer
            raise EOFError from gone

    def _ask(self, view: GateView, elsewhere: Callable[[], Reply | None]) -> Reply | None:
        keys = "\n".join([RULE, "Options:", *map(str, options(view))])
        shown = whole = clean("\n".join([*describe(view), "", keys]))
        cancel_pending = False
        while True:
            again = f"{whole}\n{shown}" if cancel_pending else whole
            key = self._key(shown, again, options(view), elsewhere, any_key=cancel_pending)
            if isinstance(key, Reply):
                return key
            if key == "c" and cancel_pending:
                return Reply("cancel")
            # A key that forgets a cancel does nothing else: Enter was meant as a no, not as a review.
            reply = None if cancel_pending else self._reply(key, view)
            if reply is not None:
                return reply
            cancel_pending = key == "c"
            shown = "Press c again to cancel this run for good; any other key forgets it." if cancel_pending else keys

    def _key(
        self, shown: str, again: str, known: list[Option], elsewhere: Callable[[], Reply | None], *, any_key: bool
    ) -> str | Reply:
        """One of the known keys (with `any_key`, the empty string for all others), or a verdict from elsewhere.

        After a Ctrl+Z, `again` is shown.
        """
        keys = {option.key for option in known}

        def show(text: str) -> None:
            print(fitted(text, shutil.get_terminal_size().columns), flush=True)

        with Keys(on_resume=functools.partial(show, again), pastes_apart=True) as pressed:
            show(shown)  # only now: what was typed before is thrown away, so no earlier key can answer
            stray, last = False, 0.0  # the key before was none of ours: somebody may be typing a sentence
            while True:
                reply = elsewhere()
                if reply is not None:
                    asked = "Asked to stop" if reply.choice == "quit" else "Answered"
                    print(f"{asked} from another shell.", flush=True)
                    return reply
                key = pressed.read(LOOK_EVERY, self._signals)
                if key is None:
                    continue
                goes_on = stray and (key == "enter" or time.monotonic() - last < TYPING_GAP)
                if key.lower() in keys and not goes_on:
                    return key.lower()
                if any_key:
                    return ""
                if stray and key == "enter":
                    stray = False
                    show("Enter was not taken: it came after other keys. Press it again to mean it.")
                    continue
                last = time.monotonic()
                if (key == "paste" or len(key) == 1) and not stray:
                    stray = True
                    show(NOT_A_KEY if "f" in keys else NOT_A_KEY.partition(":")[0] + ".")

    def _reply(self, key: str, view: GateView) -> Reply | None:
        """What a key means here; None where it only showed something."""
        match key:
            case "q":
                return Reply("quit")
            case "enter" if not view.asks:
                return Reply("continue")
            case "enter":
                return self._with_words("Your answer:", Reply("answer"), may_be_empty=True)
            case "f":
                return self._with_words("Feedback:", Reply("continue"))
            case "r" if view.gate.kind == "checks":
                return self._with_words("What is wrong with them?", Reply("redo", view.gate.phase))
            case "r":
                return self._with_words(f"Why should {view.gate.phase} be done again?", Reply("redo", view.gate.phase))
            case "l":
                return self._with_words("Why once more?", Reply("loop"))
            case "v" if view.output:
                self._outside(functools.partial(show_document, view.output))
            case "d" if view.output and view.previous_round:
                self._outside(functools.partial(show_diff, view.previous_round, view.output))
            case "e" if view.output:
                self._outside(functools.partial(edit, view.output))
                return Reply("look") if view.gate.kind in BEFOREHAND else None
            case digit if digit.isdigit():
                return Reply("redo", view.phases[int(digit) - 1])
        return None

    def _outside(self, show: Callable[[], None]) -> None:
        """Run a pager or an editor; a Ctrl+C typed in it was meant for it."""
        try:
            show()
        except OSError as error:
            print(f"Could not show it: {error.strerror}.", flush=True)
        for signum in self._signals.take():
            if signum in (signal.SIGTERM, signal.SIGHUP):
                raise Interrupted(signum)

    def _with_words(self, question: str, reply: Reply, *, may_be_empty: bool = False) -> Reply | None:
        text = ask_words(question, self._draft, self._signals)
        if text is None or (not text.strip() and not may_be_empty):
            print("Nothing was recorded. Choose again.", flush=True)
            return None
        if not text.strip():
            print(EMPTY_ANSWER, flush=True)
        return Reply(reply.choice, reply.phase, text.strip())


def show_document(path: Path) -> None:
    """The artifact, laid out for reading, through the user's pager."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(highlight=False)
    less = os.environ.get("LESS")
    os.environ["LESS"] = less if less is not None else "-RFX"
    try:
        with console.pager(styles=True):
            console.print(Markdown(clean(path.read_text(encoding="utf-8", errors="replace"))))
    finally:
        if less is None:
            del os.environ["LESS"]


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
