"""What a human said, as it is written to human.md: a block under a heading with its time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from marathon.core.text import quoted

TITLE = "# Human Feedback"


@dataclass(frozen=True)
class HumanNote:
    heading: str
    text: str

    @property
    def block(self) -> str:
        return f"## {self.heading}\n\n{self.text.strip()}\n"


@dataclass(frozen=True)
class Reply:
    """The agent's question and the human's reply."""

    question: str
    text: str
    heading: str = ""

    @property
    def note(self) -> HumanNote:
        """The reply with its question, because a later session has to know what was answered."""
        return HumanNote(self.heading, f"The agent asked:\n\n{quoted(self.question)}\n\nThe answer:\n\n{self.text}")


def without(text: str, notes: Iterable[HumanNote]) -> str:
    """What is new in human.md without these notes, which have sections of their own in the prompt or were heard."""
    rest = text
    for note in notes:  # an editor may have changed how lines end
        rest = rest.replace("\r\n", "\n").replace(note.block.replace("\r\n", "\n"), "")
    return "" if rest.strip() == TITLE else rest
