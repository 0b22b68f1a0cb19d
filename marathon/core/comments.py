"""Comments on a document: how human.md shows them, where their text is now, and what the agent answered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from marathon.core.human_note import HumanNote
from marathon.core.text import clean, quoted

Kind = Literal["must", "note"]
MOST_QUOTED = 12  # lines; they are enough to find a longer range again
LONGEST_QUOTED = 200  # characters of a line
LONGEST_ANSWER = 2000
_HEADING = re.compile(
    r"## Comment (?P<id>c[1-9]\d{0,8}) \((?P<kind>must|note)\)"
    r"(?: · (?!\d{4}-\d\d-\d\dT)(?P<file>[^·]+?)(?: lines? (?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?)?"
    r"(?: · (?P<at>\d{4}-\d\d-\d\dT[^·\s]*))?\s*"
)
_WITHDRAWN = re.compile(r"## Comment (c[1-9]\d{0,8}) withdrawn\b.*")
_ENDS_TEXT = re.compile(r"#{1,2}(?:\s|$)")
_LOOKS_LIKE_OURS = re.compile(r"\\*(?:#{1,2}(?:\s|$)|>)")
_MARK = r"[ \t>*+#|`_\[(-]{0,20}"
_ANSWER = re.compile(
    rf"{_MARK}(c[1-9]\d{{0,8}}(?:(?:, ?| and | & )c[1-9]\d{{0,8}}){{0,50}})\b[ \t*`_\])|.:—–-]*(.*)", re.I
)
_ANSWERS = re.compile(r"(#{1,6})\s+(?:\d+[.)]\s*)?Answers?\b.*", re.I)
_ANY_HEADING = re.compile(r"(#{1,6})\s")


@dataclass(frozen=True)
class Comment:
    """What a human says about some lines of a file. Without lines it is about the file, or about everything."""

    id: str
    text: str
    kind: Kind = "note"
    file: str = ""  # in the task directory
    first: int = 0  # the lines when it was made, counted from 1; 0: all of it
    last: int = 0
    quote: str = ""
    at: str = ""
    withdrawn: bool = False
    sent: bool = False  # a session was given it

    def where(self, lines: tuple[int, int] | None = None) -> str:
        """Such as plan.md lines 10-14."""
        first, last = lines or (self.first, self.last)
        on = f"{self.file} line{'s' if last > first else ''} {first}" if first else self.file
        return f"{on}-{last}" if last > first else on


@dataclass(frozen=True)
class Reply:
    """What the agent answered to a comment."""

    text: str
    line: int = 0  # of the document; 0: it stands in STATE.json


@dataclass(frozen=True)
class Standing:
    """A comment as it stands now."""

    comment: Comment
    lines: tuple[int, int] | None  # where its text is; None: the text is gone
    answer: Reply | None = None

    @property
    def state(self) -> str:
        if self.comment.withdrawn:
            return "withdrawn"
        return "answered" if self.answer else "not answered" if self.comment.sent else "not sent yet"

    @property
    def open(self) -> bool:
        return self.answer is None and not self.comment.withdrawn

    @property
    def gone(self) -> bool:
        """Whether the comment was about some lines whose text is not there any more."""
        return self.lines is None


def noted(known: Iterable[Comment], said: Iterable[Comment]) -> tuple[Comment, ...]:
    """The comments after some were made or taken back. Nothing else of one that is known ever changes."""
    found = {each.id: each for each in known}
    for each in said:
        before = found.get(each.id, each)
        found[each.id] = replace(before, withdrawn=before.withdrawn or each.withdrawn)
    return tuple(found.values())


def is_id(name: str) -> bool:
    return re.fullmatch(r"c[1-9]\d{0,8}", name) is not None


def next_id(known: Iterable[Comment]) -> str:
    return f"c{max((int(each.id[1:]) for each in known), default=0) + 1}"


def note_of(comment: Comment) -> HumanNote:
    """What human.md shows of a comment, or of its withdrawal."""
    if comment.withdrawn:
        return HumanNote(f"Comment {comment.id} withdrawn", "It does not count any more.")
    parts = [f"Comment {comment.id} ({comment.kind})", comment.where(), comment.at]
    body = "\n".join(rf"\{line}" if _LOOKS_LIKE_OURS.match(line) else line for line in comment.text.split("\n"))
    quote = f"{quoted(comment.quote)}\n\n" if comment.quote else ""
    return HumanNote(" · ".join(filter(None, parts)), f"{quote}{body}")


def without_comments(text: str, comments: Iterable[Comment]) -> str:
    """What a human typed into human.md, without the comments that it shows: these come to the agent by themselves."""
    text = text.replace("\r\n", "\n")  # of an editor
    for each in comments:
        for shown in (note_of(replace(each, withdrawn=gone)).block for gone in (False, True)):
            text = text.replace(shown, "")
    return text


def comments_in(human_md: str) -> list[Comment]:
    """The comments of a task that an older version began: they stood in human.md alone."""
    found: dict[str, Comment] = {}
    lines = clean(human_md).split("\n")
    starts = [at for at, line in enumerate(lines) if _ENDS_TEXT.match(line)]
    for at, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        if (made := _HEADING.fullmatch(lines[at])) and made["id"] not in found:
            found[made["id"]] = _read(made, lines[at + 1 : end])
        elif (gone := _WITHDRAWN.fullmatch(lines[at])) and gone[1] in found:
            found[gone[1]] = replace(found[gone[1]], withdrawn=True)
    return list(found.values())


def _read(made: re.Match[str], below: list[str]) -> Comment:
    first = int(made["first"] or 0)
    below = "\n".join(below).strip("\n").split("\n")
    end = next((at for at, line in enumerate(below) if not line.startswith(">")), len(below))
    quote = "\n".join(line[2:] if line.startswith("> ") else line[1:] for line in below[:end])
    text = "\n".join(line[1:] if line[:1] == "\\" and _LOOKS_LIKE_OURS.match(line) else line for line in below[end:])
    kind: Kind = "must" if made["kind"] == "must" else "note"
    last = max(first, int(made["last"] or 0))
    return Comment(made["id"], text.strip(), kind, made["file"] or "", first, last, quote, made["at"] or "")


def lines_of(text: str) -> list[str]:
    """The lines as comments count them."""
    return clean(text).split("\n")


def lines_said(first: int, last: int) -> str:
    """Such as 12–14, or 12."""
    return f"{first}–{last}" if last > first else str(first)


def quote_of(text: str, first: int, last: int) -> tuple[int, int, str]:
    """Some lines without the blank ones around them, and what stands there. (0, 0, "") if nothing does."""
    lines = _index(text)[0]
    wanted = [at for at in range(max(first, 1), min(last, len(lines)) + 1) if lines[at - 1]]
    if not wanted:
        return 0, 0, ""
    kept = lines[wanted[0] - 1 : wanted[-1]][:MOST_QUOTED]
    return wanted[0], wanted[-1], "\n".join(kept).rstrip("\n")


def anchor(comment: Comment, text: str) -> tuple[int, int] | None:
    """The lines whose text the comment quotes, the nearest ones if there are several. None: that text is gone."""
    if not comment.first:
        return 0, 0
    lines, places = _index(text)
    quote = [_quotable(line) for line in comment.quote.split("\n")] if comment.quote else []
    if not quote:
        return (comment.first, comment.last) if comment.last <= len(lines) else None
    rarest = min(range(len(quote)), key=lambda at: len(places.get(quote[at], ())))
    starts = [place - rarest for place in places.get(quote[rarest], ())]
    for start in sorted(starts, key=lambda start: abs(start + 1 - comment.first)):
        if start >= 0 and lines[start : start + len(quote)] == quote:
            return start + 1, min(start + 1 + comment.last - comment.first, len(lines))
    return None


def _quotable(line: str) -> str:
    return line[:LONGEST_QUOTED].rstrip()


@lru_cache(maxsize=4)
def _index(text: str) -> tuple[list[str], Mapping[str, Sequence[int]]]:
    """The lines as they are quoted, and where each of them stands."""
    lines = [_quotable(line) for line in lines_of(text)]
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        places.setdefault(line, []).append(at)
    return lines, places


def answers_in(document: str, state_answers: object = None) -> dict[str, Reply]:
    """What the agent answered, by the comment's id: in the section Answers of a document, or in STATE.json."""
    found: dict[str, Reply] = {}
    if isinstance(state_answers, Mapping):
        for name, said in state_answers.items():
            if isinstance(name, str) and isinstance(said, str) and said.strip():
                found[name.strip().lower()] = Reply(clean(said).strip()[:LONGEST_ANSWER])
    inside, ids = 0, list[str]()  # the level of the section's heading, and whose answer goes on
    for number, line in enumerate(lines_of(document), start=1):
        if heading := _ANSWERS.match(line):
            inside, ids = len(heading[1]), []
        elif inside and (other := _ANY_HEADING.match(line)) and len(other[1]) <= inside:
            inside = 0
        elif inside and (answer := _ANSWER.match(line)):
            ids = [name.lower() for name in re.findall(r"c\d+", answer[1], re.I)]
            found |= {name: Reply(answer[2].strip(), number) for name in ids}
        elif inside and line.strip():
            ids = [name for name in ids if len(found[name].text) < LONGEST_ANSWER]
            found |= {name: replace(found[name], text=f"{found[name].text}\n{line.strip()}".strip()) for name in ids}
    return {name: replace(each, text=each.text[:LONGEST_ANSWER]) for name, each in found.items() if each.text}


def unanswered(found: Iterable[Standing]) -> list[str]:
    """The ids of those that the agent must answer and has not."""
    return [each.comment.id for each in found if each.open and each.comment.kind == "must"]


def see(comments: Iterable[Comment]) -> str:
    """The words with which a phase is sent back, where the comments say it all. Empty if there are none."""
    ids = ", ".join(each.id for each in comments)
    return f"See {ids}." if ids else ""
