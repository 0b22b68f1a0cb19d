"""Instructions taken apart: what they say about which question, by heading or by label, and their sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass

from marathon.core.sections import Block, blocks_of, is_placeholder, sections, title

# Each is looked for in a heading in small letters.
OUTCOME = re.compile(
    r"^(?:(?:the|our|my) )?(?:goals?|objectives?|outcomes?|aims?|purpose|summary|overview|tasks?|description|problem"
    r"|motivation|features?|bug|issue|user stor(?:y|ies)|requirements?|expected|desired|what to do|what should)\b"
)
SCOPE = re.compile(r"\bscope\b|\bnon-?goals?\b|\bfiles\b|^where\b|\baffected\b|\bcomponents?\b|\bwhat's (?:in|out)\b")
CONSTRAINTS = re.compile(
    r"constraint|restriction|guardrail|\blimits?\b|\blimitations?\b|\brules?\b|invariant|\bmust (?:not|stay)\b"
    r"|\bdo not\b|\bdon'?ts?\b|\bnever\b|^keep\b|\bnon-?functional\b|compatib"
)
SUCCESS = re.compile(
    r"success|acceptance|criteri|verif|validat|^how (?:to|will|do|i|we)\b"
    r"|\btest plan\b|^tests?$|^testing|^checks?$|^expected|\bdone\b"
)
DONE = re.compile(r"\bdone\b|deliverable|^finished|^complet|^outputs?$|^results?$|^artifacts?$")
_TOPICS = (OUTCOME, SCOPE, CONSTRAINTS, SUCCESS, DONE)

_SENTENCE_END = re.compile(r"(?<=[.;!?。；！？])(?:\s+|(?<=[。；！？]))")
_LABEL = re.compile(r"[*_]{0,3}([A-Za-z][A-Za-z' -]{2,30}?)[*_]{0,3}:[*_]{0,3}(?:\s+|$)")


@dataclass(frozen=True)
class Text:
    """Instructions, taken apart."""

    title: str
    parts: dict[str, str]
    statements: tuple[str, ...]

    def headings(self, topic: re.Pattern[str]) -> str:
        """The headings and labels of this topic that have something below them."""
        return ", ".join(name for name, body in self.parts.items() if name and body and topic.search(name))

    def about(self, topic: re.Pattern[str]) -> str:
        """Everything below headings and behind labels of this topic."""
        return "\n\n".join(body for name, body in self.parts.items() if name and body and topic.search(name))

    @property
    def intro(self) -> str:
        """The title and what stands before the first heading."""
        return f"{self.title}\n\n{self.parts.get('', '')}"

    @property
    def rest(self) -> str:
        """What stands below headings that tell nothing of their topic."""
        return "\n\n".join(
            body for name, body in self.parts.items() if name and not any(topic.search(name) for topic in _TOPICS)
        )


def read(instructions: str) -> Text:
    """The text with its parts: by headings, or by labels such as `Scope: …` where no heading has any text."""
    parts = sections(instructions)
    for name, body in _labelled(blocks_of(instructions)).items():
        parts[name] = parts.get(name) or body
    headline = title(instructions)
    return Text("" if is_placeholder(headline) else headline, parts, tuple(statements(instructions)))


def _labelled(blocks: list[Block]) -> dict[str, str]:
    """What follows a label on its line, and the list below it."""
    found: dict[str, list[str]] = {}
    name = ""
    for block in blocks:
        label = _LABEL.match(block.text) if block.kind in ("paragraph", "item") else None
        if label and any(topic.search(label[1].lower()) for topic in _TOPICS):
            name = label[1].lower()
            found.setdefault(name, []).append(block.text[label.end() :])
        elif name and block.kind == "item":
            found[name].append(f"- {block.text}")
        elif name and block.kind == "code":
            found[name].append(f"- `{block.text}`")
        else:
            name = ""
    return {name: "\n".join(bodies).strip() for name, bodies in found.items()}


def statements(body: str) -> list[str]:
    """Sentences and items; a line of fenced code is one, as code."""
    found: list[str] = []
    for block in blocks_of(body):
        if block.kind == "code":
            found.append(f"`{block.text}`")
        elif block.kind != "heading":
            found += (part for part in _SENTENCE_END.split(block.text) if part.strip())
    return found
