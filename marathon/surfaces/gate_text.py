"""What a gate says, as text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marathon.core.comments import Standing
from marathon.core.completion import result_facts
from marathon.core.gates import POLICIES, agrees
from marathon.core.records import CheckResult, Rating
from marathon.core.text import clean, counted, cut, one_line, wrapped
from marathon.core.writes import UNCHECKED
from marathon.show.markdown import cells
from marathon.show.status import check_line
from marathon.surfaces.base import GateView

TITLE = (
    "╔══════════════════════════════════════════════════════════════════╗\n"
    "║  ⏸️  MARATHON PAUSED                                              ║\n"
    "╚══════════════════════════════════════════════════════════════════╝"
)
EMPTY_ANSWER = "The answer is empty, so the agent decides."
ENOUGH_POINTS, FEW_POINTS = 8, 5
MOST_COMMENTS = 5


@dataclass(frozen=True)
class Part:
    """What a gate says about one thing. Where rows are few, `short` stands for it, or the beginning of its line."""

    lines: Sequence[str]
    short: Sequence[str] | None = None
    whole: bool = False  # never shortened
    may_go: bool = False  # `?` shows it too
    dear: bool = False  # shortened after all others

    def forms(self, columns: int) -> list[Sequence[str]]:
        """From all of it to the least."""
        if self.whole:
            return [self.lines]
        if self.short is not None:
            shorter = [self.short]
        else:
            shorter = [[_begun(self.lines[0], 3 * (columns - 8))], [_begun(self.lines[0], columns)]]
        return [self.lines, *shorter, *([()] if self.may_go else [])]


def describe(view: GateView) -> list[str]:
    """Everything above the keys."""
    return [clean(line) for part in parts(view) for line in part.lines]


def parts(view: GateView, columns: int = 200) -> list[Part]:
    gate, policy = view.gate, POLICIES[view.gate.reason]
    blank = Part([""], [])
    first, *rest = clean(gate.message).expandtabs(4).splitlines() or [""]
    if agrees(gate):
        return [blank, Part([first, *(f"    {line}" for line in rest)], whole=True), *_place(view, "They are in")]
    total = f" | Total: {view.total}" if view.total else ""
    found = [blank, Part([TITLE], whole=True), blank]
    found.append(Part([f"Phase: {gate.phase} | Iteration: {view.iteration}{total}"]))
    if view.summary:
        found.append(Part([view.summary], may_go=True))
    if view.breadcrumb.count(" > ") > 1:
        found.append(Part([view.breadcrumb], may_go=True))
    asks = bool(view.offers) and view.offers[0].choice == "answer"
    question = Part(["The agent asks:", *(f"  {line}" for line in (first, *rest))], whole=True)
    if policy.whole_message and not asks:
        found.append(Part([f"⚠️  {first}", *(f"    {line}" for line in rest)], whole=True))
    elif gate.message and not asks:
        found.append(Part([f"⚠️  {one_line(gate.message, 600)}"]))
    if gate.writes:
        told = [f"{'' if line.startswith(UNCHECKED) else '⚠️  '}{one_line(line, 900)}" for line in gate.writes]
        more = f"{counted(len(told), 'warning')}: " if len(told) > 1 else ""
        found.append(Part(told, [_begun(told[0].replace("⚠️  ", f"⚠️  {more}", 1), columns)]))
    if gate.put_back:
        short = ["If it was your own work: [u] puts it back"] if view.put_back else []
        yours = ["If it was your own work, put it back:", *(f"    {command}" for command in gate.put_back)]
        found.append(Part(yours, short, may_go=True))
    if gate.more:
        longer = f"    {with_option(view.resume, gate.more)}"
        found.append(Part(["To continue with more:", longer], [f"To continue with more: q, then add {gate.more}"]))
    if view.denied:
        found.append(Part([f"⚠️  {one_line(view.denied, 600)}"], may_go=True))
    if gate.note:
        found.append(Part([f"Note: {one_line(gate.note, 600)}"]))
    if view.checks:
        unmet = [one_line(each.name, 60) for each in view.checks if not each.met]
        count = f"{len(view.checks) - len(unmet)} of {counted(len(view.checks), 'criterion is', 'criteria are')} met"
        lacking = f". Not met: {', '.join(unmet)}" if unmet else ""
        found.append(Part(check_lines(view.checks), [_begun(count + lacking, columns)]))
    if view.rating:
        rated = rating_lines(view.rating)
        found.append(Part(rated, [_begun(rated[0], columns)], may_go=True))
    if view.comments:
        unanswered = ", ".join(each.comment.id for each in view.comments if each.open and each.comment.sent)
        least = f"⚠️  Not answered: {unanswered}" if unanswered else f"{counted(len(view.comments), 'comment')}: [o]"
        found.append(Part(comment_rows(view.comments, columns), [_begun(least, columns)], dear=True))
    if view.log:
        found.append(Part([f"Everything it printed: {view.log}"], ["Everything it printed: [t]"], may_go=True))
    found += _place(view, "The criteria are in" if policy.agreement else "Review the output")
    return [*found, *([blank, question] if asks else []), blank]


def _place(view: GateView, lead: str) -> list[Part]:
    return [Part([f"{lead}: {view.document}"], whole=True)] if view.document else []


def comment_rows(comments: Sequence[Standing], columns: int) -> list[str]:
    """The first comments with their answers, a row each; those without an answer first."""
    shown = sorted(comments, key=lambda one: not one.open)[:MOST_COMMENTS]
    rows = [_begun(_comment(each, columns), columns) for each in shown]
    more = len(comments) - len(shown)
    return rows + [f"  … {counted(more, 'more comment')}: [o]"] * (more > 0)


def _comment(each: Standing, columns: int) -> str:
    comment = each.comment
    must = " (must)" if comment.kind == "must" else ""
    mark = "✓ " if each.answer else "⚠️  " if comment.sent else "· "
    text = one_line(comment.text, max(20, columns * 2 // 5))
    return f"{mark}{comment.id}{must}: {text} → {one_line(each.answer.text, columns) if each.answer else each.state}"


def fit(found: Sequence[Part], columns: int, rows: int) -> list[str]:
    """The lines of all parts in so many rows. As long as they are too many, the longest part is shortened."""
    forms = [part.forms(columns) for part in found]

    def height(at: int) -> int:
        return rows_of(forms[at][0], columns)

    while sum(map(height, range(len(forms)))) > rows and (long := [at for at in range(len(forms)) if forms[at][1:]]):
        forms[max(long, key=lambda at: (not found[at].dear, height(at)))].pop(0)
    return [clean(line) for each in forms for line in each[0]]


def rows_of(lines: Sequence[str], columns: int) -> int:
    """How many rows of a terminal the lines take."""
    broken = [row for line in lines for row in fitted(line, columns).split("\n")]
    return sum(max(1, -(-cells(row) // columns)) for row in broken)


def pages(lines: Sequence[str], columns: int, rows: int, last: int) -> list[str]:
    """The lines laid out in pages of so many rows, of which the last one leaves room for what comes below it."""
    left = [row for line in lines for row in fitted(line, columns).split("\n")]
    if rows_of(left, columns) > last:  # one line may be longer than a page
        left = [piece for row in left for piece in _pieces(row, columns)]
    every, found = left, []
    while len(left) > max(last, 1):
        taken = min(max(rows, 1), len(left) - 1)
        found.append("\n".join(left[:taken]))
        left = left[taken:]
    return [*found, "\n".join(every[-max(last, 1) :] if found else left)]


def _pieces(row: str, columns: int) -> list[str]:
    width = columns if row.isascii() else columns // 2  # no character takes more than two cells
    return [row[at : at + width] for at in range(0, max(len(row), 1), width)] if cells(row) > columns else [row]


def _begun(line: str, width: int) -> str:
    """The beginning of the line in so many cells."""
    length = width
    while cells(line) > width and length > 1:
        line, length = f"{cut(line, length - 1)}…", length * 3 // 4
    return line


def rating_lines(rating: Rating) -> list[str]:
    """How the agent rates the instructions, and what that suggests. The rating decides nothing."""
    lines = [f"The agent rates the instructions {rating.points} of 10."]
    if FEW_POINTS <= rating.points < ENOUGH_POINTS:
        lines[0] += " You may want to look after every session (m, or --oversight colleague)."
    if rating.missing:
        lines += ["It misses:", *(f"  - {one_line(line)}" for line in rating.missing)]
    return lines


def with_option(command: str, option: str) -> str:
    """The command that continues, with one more option. What comes after -- is for the agent."""
    return command.replace(" --task ", f" {option} --task ", 1)


def check_lines(results: Sequence[CheckResult]) -> list[str]:
    """Each criterion with its result."""
    return [check_line(result_facts(result)) for result in results]


def fitted(text: str, columns: int) -> str:
    """The gate's text, without its frame if the window is too narrow. What is indented by four is for copying."""
    if columns < len(TITLE.split("\n")[0]):
        text = text.replace(TITLE, "⏸️  MARATHON PAUSED")
    return "\n".join(
        wrapped(line, columns, _indent(line)) if len(line) > columns and line[:4].strip() else line
        for line in text.split("\n")
    )


def _indent(line: str) -> str:
    """Where a line goes on that is too long: below its own words, so that none of them passes for a new line."""
    words = line.lstrip(" -⚠️✓✗○·")
    return " " * (len(line) - len(words))
