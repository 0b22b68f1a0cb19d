"""What there is to see at a gate: the documents, the log of the last session, and what changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.comments import Standing
from marathon.core.differences import difference
from marathon.core.gates import POLICIES
from marathon.core.records import Gate
from marathon.core.sections import is_step, outline
from marathon.core.text import clean, counted
from marathon.runner import hand_edits
from marathon.runner.review import document_text, last_look, rounds, standings, text_of
from marathon.show.review import beside_changes, comment_lines
from marathon.show.screen import Screen
from marathon.store.events import follow
from marathon.store.files import mark_of
from marathon.store.task import PLAN, WORK
from marathon.surfaces.base import Sight
from marathon.surfaces.paint import colored

if TYPE_CHECKING:
    from marathon.runner.gate_view import TaskAtGate

_LONGEST_LOG = 4 * 1024 * 1024


def document_at_hand(seen: TaskAtGate, gate: Gate | None) -> str | None:
    """The file this gate is about: its criteria, the phase's output, or what the phase works from."""
    task = seen.task
    if gate and POLICIES[gate.reason].agreement == "criteria":
        return task.asks_in
    names = hand_edits.documents(seen)
    likely = [*names[:1], *(name for name in names if name == PLAN), *names]
    return next(filter(task.output_mark, likely), None)


def sights(seen: TaskAtGate, gate: Gate, found: Sequence[Standing]) -> list[Sight]:
    task, document = seen.task, document_at_hand(seen, gate)
    keys: list[Sight] = []
    if document:
        keys += [
            Sight("v", "read", "document", lambda: document_text(seen, document), "always"),
            Sight(
                "d",
                "changes",
                "diff",
                lambda: "\n".join(_changes(seen, gate)),
                "always" if _may_have_changed(seen, gate) else "never",
            ),
        ]
    reviews_code = POLICIES[gate.reason].review_round and seen.where.phase and seen.where.phase.writes == "project"
    keys.append(Sight("g", "code", "diff", lambda: _code(seen), "always" if reviews_code else "more"))
    if seen.life.steps and seen.life.steps[1]:
        keys.append(Sight("s", "steps", "plain", lambda: _steps(document_text(seen, PLAN))))
    if found:
        label = f"{counted(len(found), 'comment')}, {sum(each.open for each in found) or 'none'} open"
        keys.append(Sight("o", label, "diff", lambda: "\n".join(comment_lines(standings(seen)))))
    if task.output_mark(WORK) and document != WORK:
        keys.append(Sight("n", WORK, "document", lambda: document_text(seen, WORK)))
    log = last_log(seen)
    if mark_of(log):
        keys.append(Sight("t", "log", "log", lambda: _log_text(log)))
    return keys


def last_log(seen: TaskAtGate) -> Path:
    """Where everything the last session said is kept."""
    life = seen.life
    return Path(seen.task.runs.session_path(life.run, "events", life.iteration, "jsonl"))


def _log_text(log: Path) -> str:
    """The log as the screen showed it."""
    out = StringIO()
    screen = Screen(out, live=False, notify=False, color=colored())
    for event in follow(log):
        screen(event)
    screen.close()
    return out.getvalue()[-_LONGEST_LOG:]


def _may_have_changed(seen: TaskAtGate, gate: Gate) -> bool:
    output = seen.where.phase.output if seen.where.phase else None
    return bool(output and last_look(seen, gate, rounds(seen))) or any(hand_edits.edits_so_far(seen, gate))


def _changes(seen: TaskAtGate, gate: Gate) -> Iterator[str]:
    """What the human did not see yet of the output, with comments and answers beside it, and the human's own edits."""
    for name, _, diff in hand_edits.edits_so_far(seen, gate):
        yield f"━━ Your edits of {name} at this gate\n\n{diff}\n"
    output = seen.where.phase.output if seen.where.phase else None
    before = last_look(seen, gate, rounds(seen)) if output else None
    if output and before:
        then, path = before
        diff = difference(text_of(path), document_text(seen, output), f"round {then.label}", output)
        about = [each for each in standings(seen) if each.comment.file == output and each.comment.sent]
        said = beside_changes(diff, about) if diff else "Nothing changed since you saw it."
        yield f"━━ {output} since round {then.label}\n\n{said}\n"
    else:
        yield "There is no copy of a version that you have seen in this run."


def _code(seen: TaskAtGate) -> str:
    columns = shutil.get_terminal_size().columns
    return f"━━ Files of the project since the last gate\n\n{seen.snapshots.changes(columns)}"


def _steps(plan: str) -> str:
    return "\n".join(clean(line) for _, line in outline(plan) if is_step(line))
