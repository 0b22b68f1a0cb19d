"""Tells a human who was not there how a marathon ended: as summary.md and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marathon.core.text import clean, duration, one_line
from marathon.show.status import Status, check_line, session_line, status_lines

if TYPE_CHECKING:
    from marathon.core.comments import Standing
    from marathon.core.rounds import Round

_MEANING = {
    0: "completed",
    1: "failed",
    3: "waits for a human",
    4: "a limit was reached",
    5: "stuck",
    129: "hung up",
    130: "interrupted",
    143: "terminated",
}


def meaning(code: int) -> str:
    """What an exit code says, as in `pi-marathon --help`."""
    return _MEANING.get(code, "ended")


def as_json(status: Status, code: int) -> dict[str, Any]:
    return {"exit": code, "outcome": meaning(code), **status.as_json()}


def as_markdown(status: Status, code: int, when: str) -> str:
    """The report for people. What agents wrote stands in code blocks or on one line."""
    told = status_lines(replace(status, checks=(), sessions=()))  # these have sections of their own
    parts = [f"# {meaning(code).capitalize()} (exit {code})", f"{when}, run {status.run}", _block(told)]
    if status.checks:
        parts += ["## Criteria", "\n".join(f"- {check_line(each)}" for each in status.checks)]
    if status.sessions:
        parts += ["## Sessions", _block([session_line(facts) for facts in status.sessions])]
    if status.note:
        parts += ["## The agent's note", f"> {one_line(status.note, 600)}"]
    return clean("\n\n".join(parts)) + "\n"


def as_description(status: Status, sessions: str, rounds: Sequence[Round], comments: Sequence[Standing]) -> str:
    """What a reviewer of the change should know, as Markdown for a pull request. Foreign words stand in code.

    `sessions`: how many in all runs, as the time and the cost are.
    """
    spent = f", ${status.usage.cost:.2f}" if status.usage.cost else ""
    worked = f"{sessions}, {duration(status.seconds)}{spent}"
    parts = [f"**{_code(Path(status.task).name)}**: {status.condition}, {worked}."]
    if status.checks:
        parts += ["### Criteria", "\n".join(f"- {_code(check_line(each))}" for each in status.checks)]
    if rounds:
        parts += ["### Rounds", "\n".join(map(_round, rounds))]
    if comments:
        parts += ["### Comments and answers", "\n".join(map(_comment, comments))]
    return "\n\n".join(parts) + "\n"


def _round(each: Round) -> str:
    reviewed = "reviewed" if each.looked_at else "not reviewed" if each.verdict else "waits for a review"
    by = " by hand" if each.by == "human" else ""
    said = f": {_code(each.feedback)}" if each.feedback else ""
    return f"- {_code(each.phase)}, round {each.label}{by}: {each.verdict or 'open'}, {reviewed}{said}"


def _comment(each: Standing) -> str:
    answer = _code(each.answer.text) if each.answer else each.state
    comment = each.comment
    where = f" {_code(comment.where())}" if comment.where() else ""
    return f"- {comment.id} ({comment.kind}){where}: {_code(comment.text)}\n  - {answer}"


def _code(text: str) -> str:
    """Words on one line that no page acts on: no markup, no mention, no link."""
    return f"`{one_line(text, 300).replace('`', chr(39))}`"


def _block(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
