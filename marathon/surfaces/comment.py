"""Asks a human for a comment: on which lines, and what to say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from marathon.core.comments import Comment, Kind, lines_of
from marathon.core.sections import outline
from marathon.core.text import clean, one_line
from marathon.errors import MarathonError
from marathon.process.signals import Signals
from marathon.store.files import read_regular, write_atomic
from marathon.surfaces.base import Commenting
from marathon.surfaces.pager import edit
from marathon.surfaces.text_prompt import ask_text

MOST_LISTED = 40  # headings and steps
_LINES = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?")
_MARKS = str.maketrans("", "", "*`")


def ask_comment(commenting: Commenting, draft: Path, signals: Signals) -> Comment | None:
    """The comment, written already. None if the human took it back."""
    document = commenting.read()
    columns = shutil.get_terminal_size().columns
    print("\n".join(place_lines(document, columns)), flush=True)
    while True:
        typed = ask_text("Which lines? 12, 12-20, words of one; empty: all.", None, signals)
        if typed is None:
            return None
        place = lines_in(typed, len(lines_of(document)))
        found = lines_with(typed, document) if place is None and not _LINES.fullmatch(typed.strip()) else []
        if len(found) == 1:
            place = found[0][0], found[0][0]
        if place:
            break
        said = "Several lines have these words" if found else f"{commenting.file} has no such lines"
        print("\n".join([*_listed(found, columns), f"{said}: {one_line(typed, 40)}"]), flush=True)
    text = ask_text("Comment (! or ?: must be answered; empty: editor)", draft, signals)
    if text is not None and not text.strip():
        with signals.lent():  # a Ctrl+Z in the editor stops us too
            text = _from_editor(draft.with_name("comment.md"))
    if text is None or not text.strip(" \n!"):
        return None
    try:
        return commenting.add(*kind_of(text), *place)
    except MarathonError as error:  # such as a full disk, so the only copy left is the one on the screen
        print(f"{error}\nWhat you typed:\n{text}", flush=True)
        return None


def place_lines(document: str, columns: int) -> list[str]:
    """The headings and steps, each with the line number that picks it."""
    found = outline(clean(document))
    shown = found if len(found) <= MOST_LISTED else [each for each in found if each[1].lstrip().startswith("#")]
    return _listed(shown, columns)


def _listed(found: Sequence[tuple[int, str]], columns: int) -> list[str]:
    return [f"{number:6}  {one_line(line, max(20, columns - 8))}" for number, line in found[:MOST_LISTED]]


def lines_with(words: str, document: str) -> list[tuple[int, str]]:
    """The headings and steps with these words, those that say just this first of all; else every line with them."""
    wanted = _words(words)
    for lines in (outline(clean(document)), [*enumerate(lines_of(document), start=1)]):
        near = [(at, line) for at, line in lines if wanted in _words(line)]
        if near:
            return [(at, line) for at, line in near if _words(line) == wanted] or near
    return []


def _words(line: str) -> str:
    """As they are read, where the marks of Markdown are not shown."""
    return " ".join(line.translate(_MARKS).lower().lstrip("# ").split())


def lines_in(typed: str, length: int) -> tuple[int, int] | None:
    """(12, 20) for 12-20, (0, 0) for nothing. None for what is no such place."""
    if not typed.strip():
        return 0, 0
    found = _LINES.fullmatch(typed.strip())
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    return (first, last) if 1 <= first <= last <= length else None


def kind_of(text: str) -> tuple[str, Kind]:
    """The text without its mark, and whether it must be answered."""
    text = text.strip()
    return text.removeprefix("!").strip(), "must" if text.startswith("!") or text.endswith("?") else "note"


def _from_editor(path: Path) -> str:
    write_atomic(path, b"", durable=False)
    edit(path)
    text = (read_regular(path) or b"").decode("utf-8", "replace")
    path.unlink(missing_ok=True)
    return text
