"""One item of a list of criteria: a command that has to succeed, or a sentence to be judged."""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_COMMAND = 10_000
_TICKS = re.compile("`+")
_LABEL = re.compile(r"([^`:]+):\s*(?=`)")
_HOLDS = re.compile(
    r"(?:(?:must|should|still|always)\s+)*"
    r"(?:(?:pass|succeed|work)(?:s|es)?|(?:is|are|be|stays?)\s+green|runs?\s+without\s+(?:an\s+)?errors?"
    r"|exits?(?:\s+with)?(?:\s+(?:the\s+)?(?:exit\s+)?(?:code|status))?\s+(?P<exit>\d{1,3}))?[.;,!]?",
    re.I,
)
# People write requests and calls as code too: `POST /login` works, `parse("2026-W01")` works.
_NO_COMMAND = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+/.*|[\w.:]+\(.*\)", re.S)


class Item(NamedTuple):
    """What an item is called, its command ("" for a judgement) and the exit code it wants."""

    said: str
    command: str = ""
    exit: int = 0


def read_item(item: str) -> Item:
    """An item that is code, perhaps with a name before it and `passes` or the like behind it, is a command."""
    bare = item.strip(" *_")
    label = _LABEL.match(bare)
    command, rest = _code_span(bare[label.end() :] if label else bare)
    holds = _HOLDS.fullmatch(rest)
    exit_code = int(holds["exit"] or 0) if holds else 0
    if not command or not holds or exit_code > 255 or len(command) > LONGEST_COMMAND or _NO_COMMAND.fullmatch(command):
        return Item(item)
    return Item((label[1].strip(" *_") if label else "") or command, command, exit_code)


def _code_span(text: str) -> tuple[str, str]:
    """The code a text begins with, and what comes after it; ("", text) where it begins otherwise."""
    opening = _TICKS.match(text)
    if not opening:
        return "", text
    closing = next((run for run in _TICKS.finditer(text, opening.end()) if len(run[0]) == len(opening[0])), None)
    if closing is None:
        return "", text
    return text[opening.end() : closing.start()].strip(), text[closing.end() :].strip()
