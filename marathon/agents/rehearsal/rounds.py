"""A document written again: it counts its round, says what changed, and keeps the earlier ones."""

import re
from typing import NamedTuple

from marathon.agents.rehearsal.prompt import Ask

EARLIER = "## Earlier rounds"
_ROUND = re.compile(r"^# .*\bRound (\d+)\b")


class Previous(NamedTuple):
    """The version that stands now (if any), and the rounds before it."""

    number: int
    text: str
    earlier: str


def previous(document: str | None) -> Previous:
    """Round 0 means that nothing was written yet."""
    if not document or not document.strip():
        return Previous(0, "", "")
    text, _, earlier = document.partition(f"\n{EARLIER}\n")
    counted = _ROUND.match(text)
    return Previous(int(counted.group(1)) if counted else 1, text.strip(), earlier.strip())


def title(what: str, before: Previous, task: str) -> str:
    return f"# {what}, Round {before.number + 1}: {task}" if before.number else f"# {what}: {task}"


def changes(before: Previous, old: list[str], new: list[str], asked: list[Ask]) -> list[str]:
    """What is different from the round before, and whose word made it so."""
    if not before.number:
        return []
    words = [f"because of {ask.kind}: “{ask.text}”" for ask in asked]
    lines = [f"## What changed since round {before.number}, and why", ""]
    lines += [f"- Why: {word}" for word in words] or ["- Why: asked to do it again, without a word about it."]
    lines += [f"- New: {line.removeprefix('- ')}" for line in new if line not in old]
    lines += [f"- Gone: {line.removeprefix('- ')}" for line in old if line not in new]
    if set(old) == set(new):
        lines.append("- Nothing else came out differently.")
    return [*lines, ""]


def earlier_rounds(before: Previous) -> list[str]:
    """All that earlier rounds found, quoted; their boxes are drawn so that nobody counts them as open."""
    if not before.number:
        return []
    drawn = re.sub(r"(?m)^- \[ \]", "- ☐", re.sub(r"(?m)^- \[[xX]\]", "- ☑", before.text))
    kept = [f"> {line}".rstrip() for line in drawn.splitlines()]
    older = [before.earlier, ""] if before.earlier else []
    return [EARLIER, "", *older, f"### Round {before.number}", "", *kept, ""]
