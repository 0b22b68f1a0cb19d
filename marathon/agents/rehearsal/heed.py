"""What the prompt brings that is new from the human, and what can be made of it without a model."""

import re
from typing import NamedTuple

from marathon.agents.rehearsal.survey import Survey

SECTIONS = {
    "New from the human": "feedback",
    "Steering": "steering",
    "Your question, answered": "answer",
    "Fix first": "mend",
}
_LEAVE = re.compile(r"\b(leave|skip|ignore|except|do not touch|don't touch|hands off)\b", re.IGNORECASE)


class Ask(NamedTuple):
    kind: str
    text: str


def asks(prompt: str) -> list[Ask]:
    """Every quoted line of the sections that bring something new; headings inside a quotation only tell where from."""
    found: list[Ask] = []
    kind = ""
    for line in prompt.splitlines():
        if line.startswith("## "):
            kind = SECTIONS.get(line[3:].strip(), "")
        elif kind and line.startswith("> ") and not line.startswith("> #"):
            found.append(Ask(kind, " ".join(line[2:].split())))
    return [ask for ask in found if ask.text]


def spared(texts: list[str], found: Survey) -> set[str]:
    """Files and functions that a sentence with "leave", "skip" and the like names."""
    sentences = [part for text in texts for part in re.split(r"(?<=[.!?;])\s+|\n", text) if _LEAVE.search(part)]
    names = {*found.lines, *(function.name for function in found.functions)}
    return {
        name for name in names if any(re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", each) for each in sentences)
    }


def answers(new: list[Ask], found: Survey) -> list[str]:
    """A line for each ask: what was said, and what came of it."""
    return [f"- {ask.kind}: “{ask.text}” → {_answer(ask, found)}" for ask in new]


def _answer(ask: Ask, found: Survey) -> str:
    left = sorted(spared([ask.text], found))
    if left:
        return f"left alone from here on: {', '.join(f'`{name}`' for name in left)}"
    named = [each for each in found.functions if re.search(rf"\b{each.name}\b", ask.text)]
    if named:
        return "looked at " + ", ".join(
            f"`{each.path}:{each.line}` ({each.gaps or 'nothing missing'})" for each in named
        )
    return "kept in view; more than that takes an agent with a model"
