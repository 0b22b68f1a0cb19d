"""What the prompt brings that is new: feedback, steering, an answer, and what is to be mended."""

import re
from typing import NamedTuple

SECTIONS = {
    "## New from the human": "feedback",
    "## Steering": "steering",
    "## Your question, answered": "answer",
    "## Mend first": "mend",
}
LONGEST_ASK = 400
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")


class Ask(NamedTuple):
    kind: str
    text: str


def asks(prompt: str) -> list[Ask]:
    """Every piece of the known sections, in order. Only quoted lines count: nobody can forge a heading."""
    found: list[Ask] = []
    for heading, body in _sections(prompt):
        kind = SECTIONS[heading]
        pieces = [" / ".join(_pieces(body))] if kind == "answer" else _pieces(body)
        found += [Ask(kind, one_line(piece)) for piece in pieces if piece.strip()]
    return found


def one_line(text: str) -> str:
    """Fit a piece of text into a bullet: one line, no curly quotes of its own, not endless."""
    plain = " ".join(text.replace("“", '"').replace("”", '"').split())
    return plain if len(plain) <= LONGEST_ASK else plain[: LONGEST_ASK - 1] + "…"


def _sections(prompt: str) -> list[tuple[str, list[str]]]:
    """The known headings with their quoted lines; what stands between the quotes only parts them."""
    sections: list[tuple[str, list[str]]] = []
    inside = False
    for line in prompt.splitlines():
        if line.startswith("#"):
            inside = line.rstrip() in SECTIONS
            if inside:
                sections.append((line.rstrip(), []))
        elif inside and line.startswith(">"):
            sections[-1][1].append(line[1:].strip())
        elif inside:
            sections[-1][1].append("")
    return sections


def _pieces(body: list[str]) -> list[str]:
    """Paragraphs and list items are pieces of their own; headings only say where a piece came from."""
    pieces: list[str] = []
    fresh = True
    for line in body:
        if not line or re.match(r"#+\s", line):
            fresh = True
            continue
        item = _ITEM.match(line)
        text = line[item.end() :] if item else line
        if fresh or item:
            pieces.append(text)
        else:
            pieces[-1] += " " + text
        fresh = False
    return pieces or [line.lstrip("# ") for line in body if line]
