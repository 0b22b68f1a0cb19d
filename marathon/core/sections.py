"""Markdown by its headings, lists and check boxes: enough to read what people write into instructions and plans.

Comments and placeholders (`<!-- a hint -->`, `<what to do>`, TBD) are not what somebody wrote, so nobody sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_NEWLINE = re.compile(r"\r\n?|\n")
_MARKERS = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)"
_ITEM = re.compile(rf"([ \t]*){_MARKERS}+(?:\[[ xX]\][ \t]+)?(.*)")
_BOX = re.compile(rf"[ \t]*{_MARKERS}+\[([ xX])\][ \t]+\S")
_FENCE = re.compile(rf"[ \t]*{_MARKERS}*(`{{3,}}|~{{3,}})(.*)")
_COMMENT = re.compile(r"[ \t]*<!--")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_DECORATION = re.compile(r"[^\w(]*(?:\d{1,3}[.)])?[^\w(]*")
_PLACEHOLDER = re.compile(
    r"<[^<>\s]+\s[^<>]*>|<!--.*-->|(?:tbd|todo|fixme|xxx|title of the task|\.\.\.|…|\?+)\W*", re.I
)


class Block(NamedTuple):
    """A heading, a list's item, a paragraph or quotation on one line, or one line of fenced code."""

    kind: Literal["heading", "item", "paragraph", "quotation", "code"]
    text: str
    indent: int = 0


def sections(text: str) -> dict[str, str]:
    """Heading (small letters, undecorated) to body, with what stands below its subheadings too.

    What comes before the first heading is under ''; a title is no heading.
    """
    found: dict[str, list[str]] = {"": []}
    inside: list[tuple[int, str]] = []
    titled = bool(title(text))
    for line, fenced in _visible(text):
        heading = None if fenced else _heading(line)
        if heading and heading[0] == 1 and titled:
            titled = False
        elif heading:
            level, name = heading
            inside = [outer for outer in inside if outer[0] < level]
            for _, outer in inside:
                found[outer].append("")
            inside.append((level, name.lower()))
            found.setdefault(name.lower(), [])
        else:
            kept = line if fenced or not is_placeholder(line) else ""
            for name in {name for _, name in inside} or {""}:
                found[name].append(kept)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def title(text: str) -> str:
    """The first-level heading a text begins with, if it is the only one of its level."""
    written = [(line, fenced) for line, fenced in _visible(text) if line.strip()]
    levels = [heading[0] for line, fenced in written if not fenced and (heading := _heading(line))]
    first = _heading(written[0][0]) if written else None
    return first[1] if first and first[0] == 1 and levels.count(1) == 1 else ""


def items(body: str) -> list[str]:
    """The items of the lists in a text, nested ones too, without their boxes; those that only announce others not."""
    blocks = [block for block in blocks_of(body) if block.kind == "item"]
    follower = [*blocks[1:], Block("item", "")]
    return [
        block.text
        for block, after in zip(blocks, follower, strict=False)
        if block.text and not (block.text.endswith(":") and after.indent > block.indent)
    ]


def is_placeholder(line: str) -> bool:
    """What a template says, not a human."""
    item = _ITEM.match(line)
    return bool(_PLACEHOLDER.fullmatch((item[2] if item else line).strip(" \t*_")))


def boxes(text: str) -> tuple[int, int]:
    """How many check boxes are ticked, and how many there are; those in quotations and code do not count."""
    marks = [box[1] for line, fenced in _visible(text) if not fenced and (box := _BOX.match(line))]
    return sum(mark != " " for mark in marks), len(marks)


def blocks_of(text: str) -> list[Block]:
    """What a text consists of, in order; lines that belong together are joined."""
    found: list[tuple[Block, list[str]]] = []
    continuing = False
    for line, fenced in _visible(text):
        begun = _block(line, fenced)
        if begun and continuing and begun.kind in ("paragraph", found[-1][0].kind) and begun.kind != "item":
            found[-1][1].append(begun.text)
        elif begun:
            found.append((begun, [begun.text]))
        continuing = bool(begun) and found[-1][0].kind not in ("heading", "code")
    return [block._replace(text=" ".join(parts).strip()) for block, parts in found if any(parts)]


def _block(line: str, fenced: bool) -> Block | None:
    """The block that begins with this line, if any does; a paragraph may only go on."""
    if fenced:
        return None if _FENCE.match(line) else Block("code", line.strip())
    if not set(line) - set("-*_= \t"):
        return None
    if heading := _heading(line):
        return Block("heading", heading[1])
    words = "" if is_placeholder(line) else line.lstrip("> \t").rstrip()
    if item := _ITEM.match(line):
        return Block("item", words and item[2].strip(), len(item[1].expandtabs(4)))
    return Block("quotation" if line.lstrip().startswith(">") else "paragraph", words)


def _visible(text: str) -> Iterator[tuple[str, bool]]:
    """Every line that is no comment, and whether it is part of fenced code (its fences are)."""
    fence, commented = "", False
    for line in _NEWLINE.split(text):
        shown = line
        if not fence:
            shown, commented = _without_comments(line, commented)
        mark = None if fence else _FENCE.match(shown)
        if fence:
            yield shown, True
            bare = shown.strip(" \t")
            if len(bare) >= len(fence) and not bare.strip(fence[0]):
                fence = ""
        elif mark and (mark[1][0] == "~" or "`" not in mark[2]):
            fence = mark[1]
            yield shown, True
        else:
            yield shown, False


def _without_comments(line: str, commented: bool) -> tuple[str, bool]:
    """The line after the comments it begins with, and whether the last one goes on below."""
    if not commented and "<!--" not in line:
        return line, False
    place = 0
    while commented or _COMMENT.match(line, place):
        end = line.find("-->", place)
        if end < 0:
            return "", True
        place, commented = end + len("-->"), False
    return line[place:], False


def _heading(line: str) -> tuple[int, str] | None:
    """The level and the words of a heading, without the numbers, signs and marks around them."""
    mark = _HEADING.match(line) if "#" in line else None
    if not mark:
        return None
    words = line[mark.end() :].strip()
    start = _DECORATION.match(words)
    bare = words[start.end() if start else 0 :].rstrip("#*_:. \t")
    return len(mark[1]), bare or words
