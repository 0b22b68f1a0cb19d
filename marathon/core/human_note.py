"""What a human said, as it is written to human.md: a block under a heading with its time."""

from __future__ import annotations

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


def without_answer(text: str, reply: Reply | None) -> str:
    """What is new in human.md without the reply, which has a section of its own in the prompt."""
    rest = text
    if reply:  # an editor may have changed how lines end
        rest = text.replace("\r\n", "\n").replace(reply.note.block.replace("\r\n", "\n"), "")
    return "" if rest.strip() == TITLE else rest
