"""What a gate says, as text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

from marathon.core.completion import result_facts
from marathon.core.gates import POLICIES, Offer
from marathon.core.records import CheckResult, Rating
from marathon.core.text import clean, one_line, wrapped
from marathon.core.writes import UNCHECKED
from marathon.show.status import check_line
from marathon.surfaces.base import GateView

TITLE = (
    "╔══════════════════════════════════════════════════════════════════╗\n"
    "║  ⏸️  MARATHON PAUSED                                              ║\n"
    "╚══════════════════════════════════════════════════════════════════╝"
)
RULE = "─" * 68
EMPTY_ANSWER = "The answer is empty, so the agent decides."
ENOUGH_POINTS, FEW_POINTS = 8, 5


def describe(view: GateView) -> list[str]:
    """Everything above the keys."""
    gate, policy = view.gate, POLICIES[view.gate.reason]
    total = f" | Total: {view.total}" if view.total else ""
    lines = ["", TITLE, "", f"Phase: {gate.phase} | Iteration: {view.iteration}{total}"]
    if view.summary:
        lines.append(view.summary)
    if view.breadcrumb.count(" > ") > 1:
        lines.append(view.breadcrumb)
    if view.offers and view.offers[0].choice == "answer":
        lines += ["", "The agent asks:", *(f"  {line}" for line in clean(gate.message).splitlines())]
    elif policy.whole_message:
        first, *rest = clean(gate.message).splitlines() or [""]
        lines += [f"⚠️  {first}", *(f"    {line}" for line in rest)]
    elif gate.message:
        lines.append(f"⚠️  {one_line(gate.message, 600)}")
    lines += [f"{'' if line.startswith(UNCHECKED) else '⚠️  '}{one_line(line, 900)}" for line in gate.writes]
    if gate.put_back:
        lines += ["If it was your own work, put it back:", *(f"    {command}" for command in gate.put_back)]
    if gate.more:
        lines += ["To continue with more:", f"    {with_option(view.resume, gate.more)}"]
    if view.denied:
        lines.append(f"⚠️  {one_line(view.denied, 600)}")
    if gate.note:
        lines.append(f"Note: {one_line(gate.note, 600)}")
    lines += view.checks
    if view.rating:
        lines += rating_lines(view.rating)
    if view.log:
        lines.append(f"Everything it printed: {view.log}")
    if view.unanswered:
        lines.append(f"⚠️  Not answered: {', '.join(view.unanswered)}")
    if view.document:
        lines.append(f"{'The criteria are in' if policy.agreement else 'Review the output'}: {view.document}")
    return lines


def rating_lines(rating: Rating) -> list[str]:
    """How the agent rates the instructions, and what that suggests. The rating decides nothing."""
    lines = [f"The agent rates the instructions {rating.points} of 10."]
    if FEW_POINTS <= rating.points < ENOUGH_POINTS:
        lines[0] += " You may want to look after every session (m, or --oversight colleague)."
    if rating.missing:
        lines += ["It misses:", *(f"  - {one_line(line)}" for line in rating.missing)]
    return lines


def offer_line(offer: Offer) -> str:
    key = "Enter" if offer.key == "enter" else offer.key
    return f"  [{key}]".ljust(11) + offer.label


def with_option(command: str, option: str) -> str:
    """The command that continues, with one more option. What comes after -- is for the agent."""
    return command.replace(" --task ", f" {option} --task ", 1)


def check_lines(results: Sequence[CheckResult]) -> list[str]:
    """Each criterion with its result."""
    return [check_line(result_facts(result)) for result in results]


def fitted(text: str, columns: int) -> str:
    """The gate's text, without its frame if the window is too narrow. What is indented by four is for copying."""
    if columns < len(RULE):
        text = text.replace(TITLE, "⏸️  MARATHON PAUSED").replace(RULE, "─" * columns)
    return "\n".join(
        wrapped(line, columns, _indent(line)) if len(line) > columns and line[:4].strip() else line
        for line in text.split("\n")
    )


def _indent(line: str) -> str:
    """Where a line goes on that is too long: below its own words, so that none of them passes for a new line."""
    words = line.lstrip(" -⚠️✓✗○·")
    return " " * (len(line) - len(words))
