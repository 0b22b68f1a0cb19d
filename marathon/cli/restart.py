"""Asks before -h restarts a task whose work is not finished. To tell the agent without a restart is one key away."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from marathon.core.text import one_line
from marathon.errors import WrongUsage
from marathon.process.keys import TYPING_GAP, Keys
from marathon.process.signals import Signals

Choice = Literal["restart", "tell", "nothing"]
_KEYS: dict[str, Choice] = {"r": "restart", "f": "tell", "q": "nothing", "esc": "nothing"}


def ask(question: str, feedback: str, signals: Signals) -> Choice:
    """One key. A sentence that someone types here does nothing."""
    lines = [
        question,
        f"Your words: {one_line(feedback, 300)}",
        "  [r]  Restart; the documents of this run are archived, and your words come with the new run",
        "  [f]  Do not restart; give your words to the next session and continue",
        "  [q]  Do nothing",
    ]
    with Keys(pastes_apart=True) as keys:
        print("\n".join(lines), flush=True)
        while True:
            key = keys.read(None, signals) or ""
            alone = keys.read(TYPING_GAP, signals) is None
            if alone and key.lower() in _KEYS:
                return _KEYS[key.lower()]
            while keys.read(TYPING_GAP, signals) is not None:
                pass  # to the end of what is being typed
            print("Press r, f or q.", flush=True)


def refuse(question: str, shown: Path) -> None:
    """Without a terminal a restart of unfinished work has to be meant."""
    instead = f'pi-marathon tell {shlex.quote(str(shown))} "TEXT"'
    raise WrongUsage(
        f"{question} Nothing was changed. To restart: add --yes   To tell the agent without a restart: {instead}"
    )
