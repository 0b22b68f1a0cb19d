"""Keeps what a human says to a run out of `ps`, where every process of the machine could read it for hours."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

_FILE = "MARATHON_ARGUMENTS"  # the descriptor of the file that holds them
_OPTIONS = ("-h", "--human")
_UNSEEN = "…"


def arguments() -> list[str]:
    """What was typed. With words of a human in it this process begins again, and gets them in a file without a name."""
    typed = sys.argv[1:]
    given = os.environ.pop(_FILE, "")
    with contextlib.suppress(OSError, ValueError):  # then they stay visible
        if given:
            import json  # which `--help` does without

            with open(int(given), encoding="utf-8") as file:
                return [str(each) for each in json.load(file)]
        if (shown := _without_words(typed)) != typed:
            _begin_again(typed, shown)
    return typed


def _without_words(typed: Sequence[str]) -> list[str]:
    """As `ps` may show it. Nothing else depends on it, so a word that only looks like the option does no harm."""
    if typed[:1] == ["new"] and "--run" in typed:
        return ["new", _UNSEEN]
    end = typed.index("--") if "--" in typed else len(typed)
    shown = list(typed)
    for at, word in enumerate(typed[:end]):
        if word in _OPTIONS:
            shown[at + 1 : at + 2] = [_UNSEEN]
        elif word.startswith(_OPTIONS):
            shown[at] = word[: 2 if word[1] == "h" else len("--human=")] + _UNSEEN
    return shown


def _begin_again(typed: Sequence[str], shown: Sequence[str]) -> None:
    import json
    import tempfile

    ours = sys.orig_argv[: len(sys.orig_argv) - len(typed)]  # python with its options, up to the program
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        json.dump(list(typed), file)
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        os.execve(sys.executable, [*ours, *shown], {**os.environ, _FILE: str(file.fileno())})
