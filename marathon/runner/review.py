"""What is known of a review: the comments with their answers, and the rounds. For gates, commands and the page."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.comments import Comment, Reply, Standing, anchor, answers_in, lines_of
from marathon.core.records import Gate
from marathon.core.rounds import Round, rounds_of
from marathon.core.state import StateInvalid
from marathon.core.text import age, counted, money
from marathon.errors import MarathonError
from marathon.runner import hand_edits
from marathon.store.files import beginning_of
from marathon.store.journal import read_journal
from marathon.store.task import WORK

if TYPE_CHECKING:
    from marathon.runner.gate_view import TaskAtGate

CODE_SECONDS = 0.1  # a gate is not delayed for more
LONGEST_DOCUMENT = 1_000_000  # bytes that are shown, compared and commented on


def document_text(seen: TaskAtGate, name: str) -> str:
    """A document of the task; empty if it is not there, or lies elsewhere."""
    path = Path(os.path.realpath(seen.task.folder / name))
    inside = path.is_relative_to(seen.task.folder)  # any process may have sent the name
    return text_of(path) if name and inside and seen.task.output_mark(name) else ""


def text_of(path: Path) -> str:
    return beginning_of(path, LONGEST_DOCUMENT).decode("utf-8", "replace")


def standings(seen: TaskAtGate, *, withdrawn_too: bool = False) -> list[Standing]:
    """Every comment that counts, oldest first, with its lines now and its answer."""
    comments = [each for each in seen.life.comments if withdrawn_too or not each.withdrawn]
    if not comments:
        return []
    new = {each.id for each in comments if not each.sent}  # written before it was sent, nothing answers a comment
    answers = {name: Reply(text) for name, text in seen.life.comment_answers}
    answers |= {name: reply for name, reply in answers_now(seen).items() if name not in new}
    texts = {name: document_text(seen, name) for name in {each.file for each in comments}}
    return [Standing(each, anchor(each, texts[each.file]), answers.get(each.id)) for each in comments]


def answers_now(seen: TaskAtGate) -> dict[str, Reply]:
    """What the agent's documents and STATE.json say. What an earlier gate found is in the life."""
    found: dict[str, Reply] = {}
    with contextlib.suppress(StateInvalid):
        state = seen.task.read_state()
        found = answers_in("", (state.model_extra or {}).get("answers") if state else None)
    for name in reversed([*hand_edits.documents(seen), WORK]):  # the output counts first
        with contextlib.suppress(MarathonError, OSError):
            found |= answers_in(document_text(seen, name))
    return found


def not_sent(seen: TaskAtGate) -> list[Comment]:
    """The comments that no session has been given."""
    return [each for each in seen.life.comments if not each.sent and not each.withdrawn]


def rounds(seen: TaskAtGate) -> list[Round]:
    return rounds_of(read_journal(seen.task.journal_path))


def last_look(seen: TaskAtGate, gate: Gate, found: Sequence[Round]) -> tuple[Round, Path] | None:
    """The version of the output that the human saw last before this gate, with its file."""
    phase = seen.where.phase
    if phase is None or not phase.output:
        return None
    for each in reversed(found):
        own = each.by == "agent" or each.file == phase.output
        if (each.run, each.phase) == (seen.life.run, phase.id) and each.gate != gate.token and each.looked_at and own:
            path = seen.task.runs.round_file(each)
            return (each, path) if path else None
    return None


def summary_line(seen: TaskAtGate, gate: Gate, found: Sequence[Standing]) -> str:
    """round 2 · 4m · $0.31 · +31 −12 since round 1 · 3 of 3 comments answered · 9 steps · code: 4 files +120 −8"""
    known = rounds(seen)
    parts = []
    for each in known:
        if each.gate == gate.token and each.by == "agent":
            parts = [f"round {each.number}", age(each.seconds), money(each.cost) if each.cost else ""]
    output = seen.where.phase.output if seen.where.phase else None
    if output and (before := last_look(seen, gate, known)):
        parts.append(f"{_changed(text_of(before[1]), document_text(seen, output))} since round {before[0].label}")
    if given := asked(gate, found):
        parts.append(f"{sum(not each.open for each in given)} of {counted(len(given), 'comment')} answered")
    ticked, boxes = seen.life.steps or (0, 0)
    parts.append((f"{ticked}/" if ticked else "") + counted(boxes, "step") if boxes else "")
    code = seen.snapshots.summary(CODE_SECONDS)
    return " · ".join(filter(None, [*parts, f"code: {code}" if code else ""]))


def asked(gate: Gate, found: Sequence[Standing]) -> list[Standing]:
    """The comments that a session was given and that no earlier gate saw answered."""
    return [each for each in found if each.comment.id in gate.answered or (each.open and each.comment.sent)]


def _changed(then: str, now: str) -> str:
    """Counted without a diff, which may take seconds for a long document. A line that only moved has not changed."""
    if lines_of(then) == lines_of(now):
        return "nothing changed"
    before, after = Counter(lines_of(then)), Counter(lines_of(now))
    return "lines moved" if before == after else f"+{(after - before).total()} −{(before - after).total()}"
