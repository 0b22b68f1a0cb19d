"""Markdown and words as rows of a terminal. Rich is loaded only here, and only if a terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Literal, NamedTuple

from marathon.core.comments import lines_of
from marathon.core.text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.console import Console, RenderableType
    from rich.text import Text

_LONGEST_BLOCK = 16 * 1024  # characters that are held until a block is complete
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_LEAD = re.compile(r"[ >]*(?:(?:[-*+]|\d{1,9}[.)]) +)*(?:\[[ xX]\] +)?")  # of an item, a step or a quotation
_HEADING = re.compile(r"(#{1,6})\s+(.*?)(?:\s+#+)?\s*")
_INLINE = {"em": "italic", "strong": "bold", "s": "strike", "link": "underline"}
_NARROWEST = 6  # cells of a table's column
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
    from rich.markdown import Markdown

    shown = _rendered(Markdown(text, code_theme="ansi_light", hyperlinks=False), max(width, 10), color)
    return "\n".join(shown).strip("\n").split("\n")


def document_rows(text: str, width: int, table_width: int, color: bool) -> list[str]:
    """Every line of a document, with the number that a comment names it by. Nothing is left out or cut.

    A line keeps its row, so the marks of Markdown are only hidden inside of it. A table takes more room than text.
    """
    from rich.text import Text

    lines = lines_of(text.rstrip("\n"))
    gutter = len(str(len(lines))) + 2
    kinds, tables = _kinds(lines)
    shown, done = list[str](), 0
    for number, line in enumerate(lines, start=1):
        if number <= done:
            continue
        if number in tables and (table := _table(tables[number], number, gutter, table_width)):
            shown += _rendered(table, table_width, color)
            done = number + len(tables[number].rows)
            continue
        line = line.expandtabs(4).rstrip()
        lead, words = "", Text(line, "cyan")
        if kinds.get(number) == "heading" and (found := _HEADING.fullmatch(line)):
            words = Text(style=_STYLES[f"h{len(found[1])}"]).append_text(_inline(found[2]))
        elif kinds.get(number) != "code":
            lead = (_LEAD.match(line) or [""])[0]
            lead = lead if len(lead) <= width // 2 else ""
            words = _inline(line[len(lead) :])
            words.stylize("bold" if kinds.get(number) == "heading" else "")
        room = max(width - gutter - len(lead), 10)
        for at, row in enumerate(words.wrap(_console(), room, overflow="fold") or [Text()]):
            label = f"{number:{gutter - 2}}" if at == 0 and line else ""
            whole = Text.assemble((label.ljust(gutter), "dim"), " " * len(lead) if at else lead, row)
            shown += _rendered(whole, table_width, color)
    return shown


class _Table(NamedTuple):
    rows: list[list[str]]  # of cells, the header first
    aligned: list[Literal["left", "center", "right"]]


def _kinds(lines: list[str]) -> tuple[dict[int, str], dict[int, _Table]]:
    """Which lines are headings or code, and the tables by the number of their first line."""
    kinds, tables, before = dict[int, str](), dict[int, _Table](), ""
    table = _Table([], [])
    for token in _parser().parse("\n".join(lines)):
        first, end = token.map or (0, 0)
        match token.type:
            case "heading_open":
                kinds |= dict.fromkeys(range(first + 1, end + 1), "heading")
            case "fence" | "code_block":
                kinds |= dict.fromkeys(range(first + 1, end + 1), "code")
            case "table_open":
                table = tables[first + 1] = _Table([], [])
            case "tr_open":
                table.rows.append([])
            case "inline" if before in ("th_open", "td_open"):
                table.rows[-1].append(token.content)
            case "th_open":
                style = str(token.attrGet("style"))
                table.aligned.append("right" if "right" in style else "center" if "center" in style else "left")
        before = token.type
    return kinds, tables


def _table(table: _Table, number: int, gutter: int, width: int) -> RenderableType | None:
    """The table with the number of each row's line. None where it has too many columns for the window."""
    from rich import box
    from rich.table import Table

    if gutter + len(table.aligned) * _NARROWEST > width:
        return None
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="bold")
    shown.add_column(str(number), justify="right", no_wrap=True, width=gutter - 2, style="dim", header_style="dim")
    for cell, aligned in zip(table.rows[0], table.aligned, strict=True):
        shown.add_column(_inline(cell), justify=aligned, overflow="fold")
    for at, row in enumerate(table.rows[1:], start=number + 2):
        shown.add_row(str(at), *map(_inline, row))
    return shown


def _inline(text: str) -> Text:
    """A line with its emphasis, code and links shown, and with where the links lead."""
    from rich.text import Text

    shown, styles, targets = Text(), list[str](), list[str]()
    for token in _flat(_parser().parseInline(text)):
        kind, _, side = token.type.rpartition("_")
        if side == "open" and kind in _INLINE:
            styles.append(_INLINE[kind])
            targets += [" ".join(map(str, token.attrs.values()))] if kind == "link" else []  # and a title
        elif side == "close" and kind in _INLINE:
            styles.pop()
            if kind == "link" and not shown.plain.endswith(target := clean(targets.pop())):
                shown.append(f" ({target})")
        elif token.type == "image":
            shown.append(clean(f"{token.content} ({token.attrs.get('src', '')})"))
        else:
            styled = [*styles, "cyan"] if token.type == "code_inline" else styles
            # Cleaned again, because Markdown can name any character by its number.
            shown.append(clean(token.content).replace("\n", " "), " ".join(styled) or None)
    return shown


def _flat(tokens: Iterable[Token]) -> list[Token]:
    return [child for token in tokens for child in token.children or ()]


def _rendered(what: RenderableType, width: int, color: bool) -> list[str]:
    """As rows of a terminal, in the 16 colours."""
    from rich.color import ColorSystem

    console, shown = _console(), list[str]()
    for line in console.render_lines(what, console.options.update(width=width), pad=False):
        row = ""
        for segment in line:  # cleaned again, because Markdown can name any character by its number
            part = clean(segment.text).replace("\n", " ").replace("\t", " ")
            row += segment.style.render(part, color_system=ColorSystem.STANDARD) if color and segment.style else part
        shown.append(row.rstrip(" "))
    return shown


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
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@cache
def _console() -> Console:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Heading, Markdown, TableElement
    from rich.table import Table
    from rich.theme import Theme

    class FoldedTable(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                for column in part.columns if isinstance(part, Table) else ():
                    column.overflow = "fold"  # else the end of a long word is cut
                yield part

    Heading.LEVEL_ALIGN = {}  # all at the left
    Markdown.elements["table_open"] = FoldedTable
    theme = Theme({f"markdown.{name}": style for name, style in _STYLES.items()})
    return Console(file=StringIO(), theme=theme, color_system="standard", force_terminal=True)
