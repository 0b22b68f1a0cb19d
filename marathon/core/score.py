"""How well instructions are specified: five questions, 0 to 2 points each, with the reason for every point. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from marathon.core import topics, wording
from marathon.core.text import one_line
from marathon.core.topics import Text

Shape = Literal["tool", "colleague", "clarify"]
MEANING: dict[Shape, str] = {
    "tool": "Clear enough for the agent to be left alone between the gates.",
    "colleague": "Enough to begin, not enough to be left alone: a look after every session.",
    "clarify": "Too little to begin with: say more first.",
}
BEST = 10
LONGEST = 200_000  # characters; whoever has not said it by then does not say it


@dataclass(frozen=True)
class Point:
    """One question with its points, why, and what would earn the rest."""

    question: str
    points: int
    reason: str
    missing: str = ""


@dataclass(frozen=True)
class Score:
    points: tuple[Point, ...]

    @property
    def total(self) -> int:
        return sum(point.points for point in self.points)

    @property
    def shape(self) -> Shape:
        """tool: clear enough to be left alone; colleague: a look after each session; clarify: ask first."""
        return "tool" if self.total >= 8 else "colleague" if self.total >= 5 else "clarify"

    @property
    def missing(self) -> list[str]:
        """What to add, the worst first."""
        return [f"{point.question}: {point.missing}" for point in self.worst_first if point.missing]

    @property
    def worst_first(self) -> list[Point]:
        return sorted(self.points, key=lambda point: point.points)


def score(instructions: str) -> Score:
    """Rates a text; deterministic, and always with a reason."""
    text = topics.read(instructions[:LONGEST])
    return Score(tuple(rate(text) for rate in _QUESTIONS))


def _outcome(text: Text) -> Point:
    body = text.about(topics.OUTCOME) or (text.intro if wording.words(text.intro) > 3 else text.rest)
    length, concrete, vague = wording.words(body), wording.is_concrete(body), wording.is_vague(body)
    missing = "say what a user can do or see afterwards that is not so today."
    if length < 4 or (vague and not concrete and length < 10):
        return Point("Outcome", 0, "nothing says what will be different afterwards", missing)
    if vague:
        return Point("Outcome", 1, "there is a goal, but its words could mean anything", missing)
    if length < (6 if concrete else 10):
        return Point("Outcome", 1, "there is a goal, but a very short one", missing)
    return Point("Outcome", 2, "it says what will be different")


def _scope(text: Text) -> Point:
    whole = "\n".join(text.statements)
    section = text.about(topics.SCOPE)
    named = wording.places(section or whole)
    bounded = wording.is_bounded(section or whole) or wording.is_bounded(text.headings(topics.SCOPE))
    where = f"it says where to work ({one_line(named[0], 40)})" if named else "it says where to work"
    if wording.words(section) and (named or bounded or wording.words(section) >= 8):
        return Point("Scope", 2, where + (" and what stays out" if bounded else ""))
    if named and bounded:
        return Point("Scope", 2, f"{where} and sets a boundary")
    if named:
        return Point("Scope", 1, f"{where}, but not what stays out", "say what is not to be touched.")
    if bounded:
        return Point("Scope", 1, "it sets a boundary, but names no place", "name the files or parts to work in.")
    missing = "name the files or parts to work in, and what stays out."
    if wording.words(section):
        return Point("Scope", 1, "there is a scope, but it names neither a place nor a boundary", missing)
    return Point("Scope", 0, "nothing says where to work", missing)


def _constraints(text: Text) -> Point:
    section = text.about(topics.CONSTRAINTS)
    checks = set(topics.statements(text.about(topics.SUCCESS)))
    limiting = [one for one in text.statements if one not in checks and wording.limits(one)]
    missing = "say what must stay as it is, what is not allowed, or that there are none."
    if section and wording.says_none(section):
        return Point("Constraints", 2, "it says there are none")
    if wording.words(section) >= 3 and not wording.is_vague(section):
        return Point("Constraints", 2, "they are stated")
    if len(limiting) > 1:
        return Point("Constraints", 2, f"{len(limiting)} sentences set limits")
    if limiting or section:
        return Point("Constraints", 1, "a limit is mentioned in passing", missing)
    return Point("Constraints", 0, "no limits are stated", missing)


def _success(text: Text) -> Point:
    listed = topics.statements(text.about(topics.SUCCESS))
    clear = [one for one in listed if wording.words(one) >= 4 and not wording.is_vague(one)]
    missing = "name a command that must pass, or something one can count or see."
    if any(wording.is_checkable(one) and not wording.is_vague(one) for one in listed) or len(clear) > 1:
        return Point("Success", 2, "there is something that can be checked")
    if listed:
        return Point("Success", 1, "there are criteria, but none that can be checked", missing)
    if any(wording.must_hold(one) for one in text.statements):
        return Point("Success", 2, "it names something that has to hold")
    if any(wording.hints_at_a_check(one) for one in text.statements):
        return Point("Success", 1, "a behaviour is named, but no way to check it", missing)
    return Point("Success", 0, "nothing says how to tell success", missing)


def _done(text: Text) -> Point:
    ending = [one for one in text.statements if wording.ends(one)]
    listed = [one for one in topics.statements(text.about(topics.SUCCESS)) if not wording.is_vague(one)]
    missing = "say what must exist at the end: a file, a commit, a list of criteria that all hold."
    if wording.words(text.about(topics.DONE)) >= 3 or any(wording.is_checkable(one) for one in ending):
        return Point("Done", 2, "it says what there must be at the end")
    if any(wording.commands(one) for one in listed) or len(listed) > 2:
        return Point("Done", 2, "it is done when all the criteria hold")
    if ending or any(wording.words(one) > 2 for one in listed):
        return Point("Done", 1, "an end is hinted at", missing)
    if any(wording.must_hold(one) or wording.tests(one) for one in text.statements):
        return Point("Done", 1, "what has to hold may be the end", missing)
    return Point("Done", 0, "nothing says when to stop", missing)


_QUESTIONS: tuple[Callable[[Text], Point], ...] = (_outcome, _scope, _constraints, _success, _done)
