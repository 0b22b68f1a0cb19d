"""Reads the headings, lists and check boxes of the Markdown in instructions and plans.

Comments and placeholders (`<!-- a hint -->`, `<what to do>`, TBD) come from a template, so they are marked as such.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_BEGINNING = 2000  # characters
_NEWLINE = re.compile(r"\r\n?|\n")
_BOX = re.compile(r"\[[ xX]\](?:[ \t]+|$)")
_BOX_LINE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)+\[([ xX])\][ \t]+\S")
CODE_SPAN = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.*?)(?<!`)(?P=ticks)(?!`)", re.S)
# Code may contain text that looks like a comment. A comment that is its own block may never be closed.
_CODE_OR_COMMENT = re.compile(f"{CODE_SPAN.pattern}|<!--(?:(?!<!--).)*?-->", re.S)
_BLOCK_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_DECORATION = re.compile(r"[^\w(]*(?:\d{1,3}[.)])?[^\w(]*")
_PLACEHOLDER = re.compile(r"<[^<>\s]+\s[^<>]*>|(?:tbd|todo|fixme|xxx|title of the task|\.\.\.|…|\?+)\W*", re.I)


class Block(NamedTuple):
    """A heading, an item of a list, a paragraph, a line of code, or a placeholder of a template."""

    kind: Literal["heading", "item", "paragraph", "code", "placeholder"]
    text: str
    level: int = 0  # of the heading, or of the list among nested lists
    language: str = ""  # of code
    section: int = 0  # how many headings there are up to here


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text in order, each on one line. Items inside quotations do not count as items."""
    lists = quotes = heading = section = 0
    new_item = False
    for token in _parser().parse(text):
        if token.type.startswith(("bullet_list_", "ordered_list_")):
            lists += token.nesting
        elif token.type in ("blockquote_open", "blockquote_close"):
            quotes += token.nesting
            new_item = False
        elif token.type in ("list_item_open", "list_item_close"):
            new_item = token.nesting == 1 and not quotes
        elif token.type == "heading_open":
            heading = int(token.tag[1]) if token.level == 0 else 0
        elif token.type == "inline" and heading:
            section += 1
            yield Block("heading", _heading_words(token.content), heading, section=section)
            heading = 0
        elif token.type in ("fence", "code_block"):
            lines = filter(None, map(str.strip, token.content.splitlines()))
            yield from (Block("code", line, 0, token.info.strip().lower(), section) for line in lines)
            new_item = False
        elif token.type in ("inline", "html_block"):
            said = _said(token, "item" if new_item else "paragraph", lists)
            yield from (block._replace(section=section) for block in said)
            new_item = False


def sections(text: str) -> dict[str, list[Block]]:
    """Each heading, in small letters and without decoration, with the blocks below it and below its subheadings.

    The key '' has the blocks before the first heading. If a text begins with its only first-level heading, that is its
    title and not a section.
    """
    written = [block for block in blocks(text) if block.kind != "placeholder"]
    if [block for block in written if block.kind == "heading" and block.level == 1] == written[:1]:
        written = written[1:]  # the title
    found: dict[str, list[Block]] = {"": []}
    inside: list[tuple[int, str]] = []
    for block in written:
        if block.kind == "heading":
            inside = [*(outer for outer in inside if outer[0] < block.level), (block.level, block.text.lower())]
            found.setdefault(block.text.lower(), [])
        else:
            for name in {name for _, name in inside} or {""}:
                found[name].append(block)
    return found


def items(found: Iterable[Block]) -> list[str]:
    """The items of lists, including nested ones, without those that only introduce the items below them."""
    all_items = [block for block in found if block.kind == "item"]
    pairs = zip(all_items, [*(item.level for item in all_items[1:]), 0], strict=False)
    return [item.text for item, next_level in pairs if not (item.text.endswith(":") and next_level > item.level)]


def says_nothing(text: str) -> bool:
    """Whether there is nothing but blank lines, headings and comments."""
    if not text.strip():
        return True
    beginning = text[:_BEGINNING]  # almost always enough, and quick to parse
    return all(_is_empty(block) for part in (beginning, text) for block in blocks(part))


def _is_empty(block: Block) -> bool:
    return block.kind == "heading" or (block.kind == "placeholder" and block.text.startswith("<!--"))


@functools.lru_cache(maxsize=4)  # the page asks several times a second
def boxes(text: str) -> tuple[int, int]:
    """How many check boxes are ticked, and how many there are. Quotations and fenced code do not count."""
    marks = [box[1] for _, line in outline(text) if (box := _BOX_LINE.match(line))]
    return len(marks) - marks.count(" "), len(marks)


def is_step(line: str) -> bool:
    return bool(_BOX_LINE.match(line))


def outline(text: str) -> list[tuple[int, str]]:
    """The headings and the steps of a plan, each with the number of its line."""
    lines = _NEWLINE.split(text)
    headings = set[int]()
    # People and agents indent lists as they like. An indented step is not code.
    for token in _parser(indented_code=False).parse(text):
        if token.type in ("fence", "html_block", "blockquote_open") and token.map:
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
        elif token.type == "heading_open" and token.map and not token.level:
            headings.add(token.map[0])
    return [(at + 1, line) for at, line in enumerate(lines) if at in headings or is_step(line)]


def is_placeholder(line: str) -> bool:
    """Whether a line stands for words that are still missing."""
    return bool(_PLACEHOLDER.fullmatch(line.strip(" \t*_")))


def _said(token: Token, kind: Literal["item", "paragraph"], level: int) -> Iterator[Block]:
    """One block with everything that a human wrote, and one for each placeholder."""
    box = _BOX.match(token.content) if kind == "item" else None
    content = token.content[box.end() :] if box else token.content
    comments: list[str] = []

    def without_comment(found: re.Match[str]) -> str:
        if found[0].startswith("`"):
            return found[0]
        comments.append(found[0])
        return ""

    if token.type == "html_block":
        content = _BLOCK_COMMENT.sub(without_comment, content)
    elif "-->" in content:
        content = _CODE_OR_COMMENT.sub(without_comment, content)
    lines = [line.strip() for line in content.splitlines()]
    written = " ".join(line for line in lines if line and not is_placeholder(line))
    if written:
        yield Block(kind, written, level)
    yield from (Block("placeholder", hint) for hint in [*comments, *filter(is_placeholder, lines)])


def _heading_words(content: str) -> str:
    """The words of a heading, without the numbers, signs and marks around them."""
    words = content.strip()
    start = _DECORATION.match(words)
    return words[start.end() if start else 0 :].rstrip("#*_:. \t") or words


@functools.cache
def _parser(indented_code: bool = True) -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import html_block

    def comment(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        """Only comments count as HTML blocks, because `<which files>` must not hide the lines below it."""
        begins = state.src.startswith("<!--", state.bMarks[start] + state.tShift[start])
        return begins and html_block(state, start, end, silent)

    # Only blocks are parsed. The text of a line stays as it was written.
    parser = MarkdownIt("commonmark").disable(["inline", "reference"])
    parser.block.ruler.at("html_block", comment, {"alt": ["paragraph", "reference", "blockquote"]})
    return parser if indented_code else parser.disable("code")
