"""Asks a human for text. Enter ends it, Alt+Enter makes a new line, and an interruption keeps a draft."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marathon.core.text import clean, one_line
from marathon.git.writes import Touched
from marathon.process.keys import Keys
from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.process.terminal import on_terminal
from marathon.store.files import read_regular, write_atomic

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent
    from questionary import Question

_HINT = "(Enter ends, Alt+Enter new line, Ctrl+G editor, Esc back)"


def ask_text(
    question: str,
    draft: Path | None,
    signals: Signals,
    begun: str = "",
    on_paste: Callable[[], None] = lambda: None,
) -> str | None:
    """The text, or None if the human took the question back with Ctrl+C or Esc. Signals raise Interrupted.

    The text begins with the draft, or with what the human has `begun` to type. Then the draft is for another time.
    Without a draft, nothing is kept. `on_paste` hears of text that was not typed, or that may not have been.
    """
    earlier = begun or (draft_text(draft) if draft else "")
    if not on_terminal():
        on_paste()  # such a terminal cannot tell
        return _ask_plainly(question, earlier, draft, signals, begun)
    import questionary

    prompt = questionary.text(
        _fitted(question),
        default=earlier,
        multiline=True,
        instruction=f"{_HINT}\n",
        key_bindings=_bindings(on_paste),
    )
    said = _answer_to(prompt, signals, lambda: _keep(prompt.application.current_buffer.text, draft, begun))
    if said is not None:
        _done_with(draft, begun)
    return None if said is None else str(said)


def ask_files(question: str, files: Sequence[Touched], signals: Signals) -> list[str] | None:
    """Those of the files that the human ticks, or None. What the agent wrote is ticked already."""
    free = [each for each in files if not each.fixed]
    for each in files:
        if each.fixed:
            print(f"{one_line(clean(each.name), 200)} stays as it is. {each.fixed}", flush=True)
    if not free:
        return []
    if not on_terminal():
        listed = [f"  {number}  {_row(each)}" for number, each in enumerate(free, start=1)]
        said = ask_text("\n".join([question, *listed, "Their numbers (empty: none):"]), None, signals)
        numbers = (int(word) for word in re.findall(r"\d+", said or ""))
        return None if said is None else [free[number - 1].name for number in numbers if 0 < number <= len(free)]
    import questionary
    from prompt_toolkit.key_binding import KeyBindings

    rows = [questionary.Choice(_row(each), value=each.name, checked=each.by_agent) for each in free]
    how = "(Space ticks, a: all, Enter undoes, Esc back)"
    prompt = questionary.checkbox(question, choices=rows, instruction=how)
    assert isinstance(prompt.application.key_bindings, KeyBindings)
    prompt.application.key_bindings.add("escape")(lambda event: event.app.exit(exception=KeyboardInterrupt))
    termios.tcflush(0, termios.TCIFLUSH)  # an Enter that was meant for the pager undoes nothing
    said = _answer_to(prompt, signals, lambda: None)
    return None if said is None else list(said)


def _row(file: Touched) -> str:
    return one_line(clean(file.name), 200) + (" (a tool call of the agent wrote it)" if file.by_agent else "")


def _answer_to(prompt: Question, signals: Signals, taken_back: Callable[[], None]) -> Any:
    """What the human said, or None. A signal that ends us raises Interrupted."""
    saved = termios.tcgetattr(0)
    # Alt+Enter and the arrow keys begin with Esc too, so wait a moment for the rest of them.
    prompt.application.ttimeoutlen, prompt.application.timeoutlen = 0.1, 0.3
    caught = _end_on_signals(prompt.application, signals)
    said = None
    try:
        with signals.lent():
            said = prompt.unsafe_ask(patch_stdout=False)
    except (KeyboardInterrupt, EOFError, Interrupted):
        pass
    except OSError:
        if not caught:
            raise EOFError from None  # the terminal is gone
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, saved)
    if said is None:
        taken_back()
        if caught and caught[0] != signal.SIGINT:
            raise Interrupted(caught[0])
    return said


def _fitted(question: str) -> str:
    """The prompt cuts a line that is too long, so the hint gets a line of its own where both do not fit."""
    import textwrap

    columns = shutil.get_terminal_size().columns
    beside = len(question) + len(_HINT) + 5 <= columns
    return textwrap.fill(question, columns - 3) + ("" if beside else "\n")


def draft_text(draft: Path) -> str:
    return (read_regular(draft) or b"").decode("utf-8", "replace")


def discard(draft: Path) -> str:
    """Forget the draft, and return what it said."""
    text = draft_text(draft)
    draft.unlink(missing_ok=True)
    return text


def add_to_draft(text: str, draft: Path, between: str = "\n") -> None:
    """Keep what was typed where no one had asked for it. The next text prompt begins with it."""
    earlier = draft_text(draft)
    write_atomic(draft, f"{earlier}{between if earlier else ''}{text}".encode("utf-8", "replace"))


def _done_with(draft: Path | None, begun: str) -> None:
    if draft and not begun:
        draft.unlink(missing_ok=True)


def _ask_plainly(question: str, earlier: str, draft: Path | None, signals: Signals, begun: str) -> str | None:
    """The same for a terminal that knows no escape sequences."""
    text, key = earlier, None
    print(f"{question}\n(Enter ends, Esc: back)\n{text}", end="", flush=True)
    with Keys(keep_typed=bool(begun)) as keys:
        try:
            while (key := keys.read(None, signals)) not in ("enter", "esc"):
                if key == "backspace" and text:
                    text = text[:-1]
                    print("\b \b", end="", flush=True)
                elif key is not None and len(key) == 1:
                    text += key
                    print(key, end="", flush=True)
        except Interrupted as end:
            key = "esc"
            if end.signum != signal.SIGINT:
                raise
        finally:
            if key != "enter":
                _keep(text, draft, begun)
            print(flush=True)
    if key == "esc":
        return None
    _done_with(draft, begun)
    return text


def _end_on_signals(prompt: Application[Any], signals: Signals) -> list[int]:
    """End the prompt from its own event loop, which would swallow an exception from a signal handler."""
    import asyncio

    caught: list[int] = []

    def obey() -> None:
        caught.extend(number for number in signals.take() if number in ENDING)
        if caught and not prompt.is_done:
            prompt.exit(exception=Interrupted(caught[0]))

    prompt.pre_run_callables.append(lambda: asyncio.get_running_loop().add_reader(signals.fd, obey))
    return caught


def _keep(text: str, draft: Path | None, begun: str) -> None:
    """The text for the next time. A draft that was cleared is none any more."""
    if draft and text.strip() and begun:
        add_to_draft(text, draft)
    elif draft and text.strip():
        write_atomic(draft, text.encode("utf-8", "replace"))
    elif draft and not begun:
        draft.unlink(missing_ok=True)


def _bindings(on_paste: Callable[[], None]) -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys as Codes

    bindings = KeyBindings()

    @bindings.add("enter")
    def _end(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("escape")
    def _back(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt)

    @bindings.add(Codes.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        on_paste()
        event.current_buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))

    @bindings.add("c-g")
    def _edit(event: KeyPressEvent) -> None:
        on_paste()  # a file may be read into it
        event.current_buffer.open_in_editor()

    @bindings.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return bindings
