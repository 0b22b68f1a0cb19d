"""When to stop a marathon that goes nowhere: how often the same thing may happen, and what counts as the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from marathon.core.text import one_line

LONGEST_HISTORY = 32  # contents of a file that are remembered
MOST_FILES = 200
WARN_FROM_ROUND = 4

_HEX = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b", re.I)
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.@+-]+)+/?|\b[\w.@+-]+(?:/[\w.@+-]+)+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


class Breakers(NamedTuple):
    """How often each may happen in a row before a human is asked; 0 turns one off."""

    same_error: int = 3
    no_progress: int = 3
    same_unmet: int = 5
    back_and_forth: int = 3
    review_rounds: int = 13


def parse_breakers(words: Iterable[str]) -> Breakers:
    """NAME=N for each; a ValueError names what cannot be read."""
    changes: dict[str, int] = {}
    for word in words:
        name, _, number = word.partition("=")
        field = name.strip().replace("-", "_")
        if field not in Breakers._fields or not number.strip().isdecimal():
            known = ", ".join(each.replace("_", "-") for each in Breakers._fields)
            raise ValueError(f"{word!r} is not a breaker. Write NAME=N, where NAME is one of {known}; 0 turns it off")
        changes[field] = int(number)
    return Breakers()._replace(**changes)


def signature(place: str, message: str) -> str:
    """An error with what differs from time to time left out: numbers, addresses, paths."""
    text = _NUMBER.sub("N", _PATH.sub("PATH", _HEX.sub("N", message[-4000:])))
    return f"{place}: {' '.join(text.split())[:400]}"


History = tuple[tuple[str, tuple[str, ...]], ...]


def remember(before: History, files: Mapping[str, str]) -> History:
    """The contents (as digests) each file went through, oldest first; only so many of both are kept."""
    known = dict(before)
    for path, digest in files.items():
        contents = known.pop(path, ())  # the file touched last stands last
        known[path] = contents if contents[-1:] == (digest,) else (*contents, digest)[-LONGEST_HISTORY:]
    return tuple(known.items())[-MOST_FILES:]


def begun_anew(history: History) -> History:
    """Only what each file holds now: where it has been before does not count any more."""
    return tuple((path, contents[-1:]) for path, contents in history)


def last_contents(history: History) -> set[tuple[str, str]]:
    """Each file with what it held when a session last left it."""
    return {(path, contents[-1]) for path, contents in history if contents}


def returns(contents: tuple[str, ...]) -> int:
    """How often in a row, up to now, a file went back to what it was two changes before."""
    count = 0
    for now in range(len(contents) - 1, 1, -1):
        if contents[now] != contents[now - 2]:
            break
        count += 1
    return count


def circles(history: History, allowed: int) -> str | None:
    """Names the files that were rewritten back and forth at least so often."""
    files = [path for path, contents in history if allowed and returns(contents) >= allowed]
    if not files:
        return None
    named = ", ".join(one_line(name, 100) for name in files[:3])
    return f"Rewritten back and forth between the same two contents: {named}."
