"""Tells a human who was not there how a marathon ended: as summary.md and as one JSON object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from marathon.core.text import clean, one_line
from marathon.show.status import Status, check_line, session_line, status_lines

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


def _block(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
