"""How a task is named, and which one a human means by a name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_TIME = re.compile(r"\d{8}-\d{6}-(?=.)")  # which `new` puts before the name


def task_name(path: Sequence[str]) -> str:
    """What the task at this path is called. Every measured loop's task has a folder of one name, so it is lane/tag."""
    return "/".join(path[-3:-1]) if ".multiloop" in path else path[-1]


def short_name(name: str) -> str:
    """A task's name without the time it was made."""
    made = _TIME.match(name)
    return name[made.end() :] if made else name


def called(path: Sequence[str]) -> str:
    """A task's name in a sentence for a human. Commands that look for a running task know it by this name."""
    return short_name(task_name(path))


def is_whole_name(typed: str, names: Iterable[str]) -> bool:
    """Whether a task is called exactly this, with or without its time."""
    return any(_plain(typed) in (_plain(name), _plain(short_name(name))) for name in names)


def meant(typed: str, names: Sequence[str]) -> list[str]:
    """The names that may be meant: those that are typed in full, with or without the time, else all with this part.

    A title finds the task that was made of it.
    """
    for plain in (_plain, _slugged):
        said = plain(typed)
        whole = [name for name in names if said and plain(name) == said]
        if found := whole or [name for name in names if said and plain(short_name(name)) == said]:
            return found
    return [name for name in names if said and said in _slugged(name)]


def similar(typed: str, names: Sequence[str]) -> str:
    """The name that is probably meant by one that no task has: as a whole or by a word of it. Empty if none is."""
    from difflib import get_close_matches

    short = {_slugged(short_name(name)): short_name(name) for name in names}
    words = {word: name for plain, name in short.items() for word in plain.split("-")} | short
    return words[near[0]] if (near := get_close_matches(_slugged(typed), words, 1, 0.75)) else ""


def completions(typed: str, names: Sequence[str]) -> list[str]:
    """What a shell may offer for the beginning of a name. Names stand without their time, where one task has it."""
    short = [short_name(name) for name in names]
    clear = [one if short.count(one) == 1 else name for one, name in zip(short, names, strict=True)]
    for plain in (_plain, _slugged):
        for offered in (clear, names):
            if begun := [name for name in offered if plain(name).startswith(plain(typed))]:
                return begun
    return []


def slug(title: str) -> str:
    """A name made of a title: only small letters of any script, Latin ones without accents, digits and hyphens."""
    letters = (_unaccented(each) for each in unicodedata.normalize("NFKC", title))
    return "-".join("".join(letters).lower().split())


def _unaccented(letter: str) -> str:
    """A Latin letter without its accents, any other letter as it is, a space for everything else."""
    base = unicodedata.normalize("NFD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    return letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " "


def _slugged(name: str) -> str:
    return slug(name).casefold()


def _plain(name: str) -> str:
    """Upper case, and how accents are stored, make no difference."""
    return unicodedata.normalize("NFC", name).casefold()
