"""What a human said, as it stands in human.md: a block under a heading of its own, which names its time."""

from __future__ import annotations

from dataclasses import dataclass

from marathon.core.text import quoted

TITLE = "# Human Feedback"


@dataclass(frozen=True)
class Words:
    heading: str
    text: str

    @property
    def block(self) -> str:
        return f"## {self.heading}\n\n{self.text.strip()}\n"


@dataclass(frozen=True)
class Answer:
    """What the agent asked and what the human said."""

    question: str
    text: str
    heading: str = ""

    @property
    def words(self) -> Words:
        """With the question: a later session has to know what it was an answer to."""
        return Words(self.heading, f"The agent asked:\n\n{quoted(self.question)}\n\nThe answer:\n\n{self.text}")


def without_answer(text: str, answer: Answer | None) -> str:
    """What is new in human.md beside the answer, which has its own place in the prompt."""
    rest = text
    if answer:  # an editor may have changed how lines end
        rest = text.replace("\r\n", "\n").replace(answer.words.block.replace("\r\n", "\n"), "")
    return "" if rest.strip() == TITLE else rest
