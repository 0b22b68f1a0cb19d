"""Markdown and words as rows of a terminal. Rich is loaded only here, and only if a terminal shows them."""

from __future__ import annotations

import re
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING

from marathon.core.text import clean

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_BLOCK = 16 * 1024  # characters that are held until a block is complete
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_STYLES = {"h1": "bold underline", **dict.fromkeys(("h2", "h3", "h4", "h5", "h6"), "bold"), "code": "cyan"}


def split_complete(text: str) -> tuple[str, str]:
    """The blocks of Markdown that are complete, and the rest.

    A block ends at an empty line, unless what follows is indented as in a list. Code ends at its fence.
    """
    fence, opened, gap, end, at = "", "", False, 0, 0
    for line in text.splitlines(keepends=True):
        mark, flush = _FENCE.match(line), not line[0].isspace()
        if fence and mark and mark[1].startswith(fence) and line.strip() == mark[1] and line.endswith("\n"):
            fence, end = "", at + len(line) if flush else end
        elif not fence:
            end = at if flush and (gap or mark) else end
            fence, opened = (mark[1], line) if mark else ("", "")
        gap = not line.strip()
        at += len(line)
    if len(text) - end > _LONGEST_BLOCK:  # code goes on in a block of its own
        return text, opened if fence else ""
    return text[:end], text[end:]


def markdown_rows(text: str, width: int, color: bool) -> list[str]:
    """The rows of a block, without empty ones around it. The 16 colours are used, and no background."""
    from rich.color import ColorSystem
    from rich.markdown import Markdown

    console, shown = _console(), list[str]()
    markdown = Markdown(text, code_theme="ansi_light", hyperlinks=False)
    for line in console.render_lines(markdown, console.options.update(width=max(width, 10)), pad=False):
        row = ""
        for segment in line:  # cleaned again, because Markdown can name any character by its number
            part = clean(segment.text).replace("\n", " ").replace("\t", " ")
            row += segment.style.render(part, color_system=ColorSystem.STANDARD) if color and segment.style else part
        shown.append(row.rstrip(" "))
    return "\n".join(shown).strip("\n").split("\n")


def wrapped(line: str, width: int, indent: str = "") -> list[str]:
    """The line in rows of so many cells, broken at words. The indent stands before each row but the first."""
    if cells(line) <= width:
        return [line]
    from rich.text import Text

    broken = Text(line).wrap(_console(), max(width - len(indent), 2))
    return [(indent if number else "") + row.plain.rstrip() for number, row in enumerate(broken)]


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


@cache
def _console() -> Console:
    from rich.console import Console
    from rich.markdown import Heading
    from rich.theme import Theme

    Heading.LEVEL_ALIGN = {}  # all at the left
    theme = Theme({f"markdown.{name}": style for name, style in _STYLES.items()})
    return Console(file=StringIO(), theme=theme, color_system="standard", force_terminal=True)
