"""Takes a human's text: Enter ends it, Alt+Enter makes a new line; an interruption keeps what was typed as a draft."""

from __future__ import annotations

import termios
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.disk.files import read_regular, write_atomic
from marathon.process.signals import Interrupted, Signals

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent


def ask_words(question: str, draft: Path, signals: Signals) -> str | None:
    """The text, or None if the human took the question back with Ctrl+C or Esc. Signals raise Interrupted."""
    import questionary

    saved = termios.tcgetattr(0)
    earlier = (read_regular(draft) or b"").decode("utf-8", "replace")
    prompt = questionary.text(
        question,
        default=earlier,
        multiline=True,
        instruction="(Enter ends, Alt+Enter: new line)\n",
        key_bindings=_bindings(),
    )
    try:
        with signals.raising():
            said = prompt.unsafe_ask(patch_stdout=False)
    except (KeyboardInterrupt, EOFError):
        _keep(prompt.application.current_buffer.text, draft)
        return None
    except Interrupted as signal_:
        _keep(prompt.application.current_buffer.text, draft)
        if signal_.signum == 2:
            return None
        raise
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
    if said is None:
        return None
    draft.unlink(missing_ok=True)
    return str(said)


def _keep(text: str, draft: Path) -> None:
    if text.strip():
        write_atomic(draft, text.encode("utf-8", "replace"))


def _bindings() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter")
    def _end(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
