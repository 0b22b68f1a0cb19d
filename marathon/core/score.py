"""Advice on instructions: which signs of a good task are there, and what could be added.

The advice looks only at the form of a text, so it is the same in every language, and it never stops anyone. The agent
rates whether the words make sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from marathon.core.sections import CODE_SPAN, Block, blocks, is_placeholder
from marathon.core.text import one_line

# Each sign, and what to add if it is missing.
SIGNS = {
    "goal": "say in a sentence or two what will be different when the task is done",
    "place": "name the files or parts to work in, as `code` or as a path",
    "boundary": "say in a paragraph or section of its own what must stay as it is",
    "criterion": "list what must hold below `## Success Criteria`, or in checks.toml",
    "command": "name a command that checks the result, as `code`",
    "end": "say last what must exist at the end, such as a file or a command that passes",
}
# What each section of the template tells.
_TOLD_IN = {"goal": "goal", "scope": "place", "constraints": "boundary", "success": "criterion", "done": "end"}
LONGEST = 200_000  # characters that are read
_SENTENCE = 15  # columns; anything shorter is only a word or two
_SHELLS = ("", "sh", "bash", "zsh", "fish", "shell", "console")
_PROGRAM = re.compile(r"(?:[\w.~-]*/)*[a-z0-9][\w.+-]*")
_NOT_A_COMMAND = re.compile(r"[\w.:]+\(.*|\S+ [=:({<+*].*|[A-Z]+ .*", re.S)
_PATH = re.compile(r"[\w@~.-]*(?:/[\w@.-]+)*\w{2}\.[a-z]{1,5}|(?:\.{0,2}|~)/?[\w@.-]+/(?:[\w@.-]+/)*|[./~][\w@./-]+\w")
_NAME = re.compile(r"[\w./~][\w./:~-]*(?:\(.*\))?")
_EDGES = "`'\"*_,;:!?()[]{}<>"


@dataclass(frozen=True)
class Advice:
    """What was found for each sign ("" if nothing was), and the placeholders that are left in the text."""

    signs: dict[str, str]
    placeholders: tuple[str, ...]

    def lines(self) -> list[str]:
        """A line for each sign, then a line for each placeholder."""
        found = [f"  {'✓' if text else '+'} {sign:10} {text or SIGNS[sign]}" for sign, text in self.signs.items()]
        return [*found, *(f"  + still a placeholder: {each}" for each in self.placeholders)]


def advise(instructions: str, filled: Mapping[str, str] | None = None) -> Advice:
    """The signs in the form of a text. A text and its translation get the same advice.

    `filled` is what a human wrote under headings of ours (see _TOLD_IN), where no form has to be guessed.
    """
    found = list(blocks(instructions[:LONGEST]))
    texts = [block for block in found if block.kind in ("paragraph", "item", "code")]
    prose = [block for block in texts if block.kind != "code" and block.text[-1] not in ":："]
    goal = next(filter(_is_sentence, prose), None)
    others = [block for block in prose if block is not goal]
    # The last list is the criteria. A boundary stands between the goal and that list, in its own section. In a text
    # without sections it is a paragraph.
    divided = len({block.section for block in texts}) > 1
    last_list = max((block.section for block in others if block.kind == "item"), default=len(found) + 1)
    criteria = [block for block in others if block.section == last_list and block.kind == "item"]
    if goal and divided:
        boundary = [block for block in others if goal.section < block.section < last_list]
    else:
        boundary = [block for block in others if goal and block.kind == "paragraph"]
    last = [block for block in texts if block.section == texts[-1].section]
    end = last if not divided or last[0].section >= last_list else []
    commands = [*_commands(criteria, alone=True), *_commands(texts)]
    after = [block.text for block in prose if block.section > last_list and _is_sentence(block)]
    signs = {
        "goal": [goal.text] if goal else [],
        "place": [place for place in _places(prose) if place not in commands],
        "boundary": [block.text for block in boundary[-1:]],
        "criterion": [block.text for block in criteria],
        "command": commands,
        "end": [*after, *_commands(end, alone=True), *_places(end)],
    }
    if filled is not None:
        signs["boundary"] = []
        written = {sign: filled.get(name, "").strip().split("\n")[0] for name, sign in _TOLD_IN.items()}
        signs |= {sign: [line.removeprefix("- ")] for sign, line in written.items() if line}
    first = {sign: one_line(seen[0], 70) if seen else "" for sign, seen in signs.items()}
    return Advice(first, tuple(_placeholders(found, {block.section for block in texts})))


def _is_sentence(block: Block) -> bool:
    """Whether a block says enough. Characters of scripts without spaces say twice as much."""
    return len(block.text) + sum(letter > "\u2e7f" for letter in block.text) >= _SENTENCE


def _placeholders(found: list[Block], written: set[int]) -> Iterator[str]:
    """The words of the template, and its comments if nothing else was written below the heading."""
    for block in found:
        beside_text = block.text.startswith("<!--") and block.section in written
        if (block.kind == "placeholder" or is_placeholder(block.text)) and not beside_text:
            yield one_line(block.text.removeprefix("<!--").removesuffix("-->"), 90)


def _commands(found: list[Block], *, alone: bool = False) -> Iterator[str]:
    """Code that looks like something to run. With `alone`, a single word at the start of a text counts too."""
    for block in found:
        if block.kind == "code" and block.language in _SHELLS and _is_command(block.text):
            yield block.text
        for span in CODE_SPAN.finditer(block.text) if block.kind != "code" else ():
            code = " ".join(span["code"].split())
            if _is_command(code) and (" " in code or code.startswith("./") or (alone and not span.start())):
                yield code


def _is_command(code: str) -> bool:
    is_path = " " not in code and not code.startswith("./") and _PATH.fullmatch(code)
    program = code.removeprefix("$ ").split(" ")[0]
    return bool(_PROGRAM.fullmatch(program)) and not _NOT_A_COMMAND.fullmatch(code) and not is_path


def _places(found: list[Block]) -> Iterator[str]:
    """Paths first, then other names in code."""
    texts = [block.text for block in found if block.kind != "code"]
    words = (word.strip(_EDGES).rstrip(".") for text in texts for word in text.split())
    yield from filter(_PATH.fullmatch, words)
    spans = (span["code"].strip() for text in texts for span in CODE_SPAN.finditer(text))
    yield from filter(_NAME.fullmatch, spans)
