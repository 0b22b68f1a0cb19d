"""Comments and rounds as lines for a terminal. What an agent wrote is cleaned here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from marathon.core.comments import Comment, Standing
from marathon.core.rounds import Round
from marathon.core.text import age, clean, counted, one_line, quoted

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")


def comment_lines(found: Iterable[Standing]) -> list[str]:
    """Each comment with its place, its text and its answer; those without an answer first."""
    lines = []
    for each in sorted(found, key=lambda one: not one.open):
        comment = each.comment
        gone = " · text gone" if each.gone else ""
        said = f" · {comment.where(each.lines)}{gone}" if comment.file else ""
        status = each.state.upper() if each.open and each.comment.sent else each.state
        lines += [f"━━ {comment.id} ({comment.kind}){said} · {status}", "", *quoted(comment.quote).splitlines()]
        lines += [*clean(comment.text).splitlines(), ""]
        if each.answer:
            lines += [f"  ↳ {line}" for line in clean(each.answer.text).splitlines()] + [""]
    return lines or ["There are no comments."]


def beside_changes(diff: str, found: Sequence[Standing]) -> str:
    """The diff, with each comment and its answer after the changes of the lines that it was about."""
    shown: list[str] = []
    below: list[Standing] = []
    for line in [*diff.split("\n"), ""]:
        hunk = _HUNK.match(line)
        if hunk or not line:
            shown += [f"┃ {text}" for text in comment_lines(below)] if below else []
            below = []
        if hunk:
            first = int(hunk[1])
            last = first + int(hunk[2] or 1) - 1
            below = [each for each in found if each.comment.first <= last and each.comment.last >= first > 0]
        shown.append(line)
    return "\n".join(shown[:-1])


def round_lines(found: Sequence[Round], comments: Mapping[Round, Sequence[Comment]]) -> list[str]:
    """Each round of each run with what it took, what came of it, and the feedback it got."""
    lines: list[str] = []
    for at, each in enumerate(found):
        if not at or each.run != found[at - 1].run:
            lines += [*([""] if at else []), f"Run {each.run}"]
        by = "agent" if each.by == "agent" else f"you edited {one_line(each.file, 60)}"
        took = [counted(each.sessions, "session"), age(each.seconds)] if each.sessions else []
        took += [f"${each.cost:.2f}"] if each.cost else []
        met = sum(check.met for check in each.checks)
        took += [f"{met} of {counted(len(each.checks), 'check')} met"] if each.checks else []
        came = f"{each.verdict} ({each.answered_by})" if each.verdict else "open"
        lines.append(f"  {one_line(each.phase, 30):12} {each.label:4} {each.at}  {' · '.join([by, *took, came])}")
        lines += [f"      {line}" for line in quoted(clean(each.feedback)).splitlines()]
        lines += [
            f"      {said.id} ({said.kind}) {said.where()}: {one_line(said.text)}"
            for said in comments[each]
            if not said.withdrawn
        ]
    return lines or ["No version was reviewed yet."]
