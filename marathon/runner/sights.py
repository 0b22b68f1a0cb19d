"""What there is to see at a gate: the documents, the log of the last session, and what changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.differences import difference
from marathon.core.gates import POLICIES
from marathon.core.records import Gate
from marathon.runner import hand_edits
from marathon.show.screen import Screen
from marathon.store.events import follow
from marathon.store.files import beginning_of, mark_of
from marathon.store.task import PLAN, WORK
from marathon.surfaces.base import Sight
from marathon.surfaces.paint import colored

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

_LONGEST_LOG = 4 * 1024 * 1024
_LONGEST_DOCUMENT = 1_000_000  # bytes that are shown


def document_at_hand(marathon: Marathon, gate: Gate) -> str | None:
    """The file this gate is about: its criteria, the phase's output, or what the phase works from."""
    task = marathon.task
    if POLICIES[gate.reason].agreement == "criteria":
        return task.asks_in
    names = hand_edits.documents(marathon)
    likely = [*names[:1], *(name for name in names if name == PLAN), *names]
    return next(filter(task.output_mark, likely), None)


def sights(marathon: Marathon, gate: Gate) -> list[Sight]:
    document = document_at_hand(marathon, gate)
    found = [_view("v", marathon, document)] if document else []
    if marathon.task.output_mark(WORK) and document != WORK:
        found.append(_view("w", marathon, WORK))
    log = last_log(marathon)
    if mark_of(log):
        found.append(Sight("g", "View the log of the last session", "log", lambda: _log_text(log)))
    return [*found, Sight("d", _changes_label(marathon, gate), "diff", lambda: "\n".join(_changes(marathon, gate)))]


def last_log(marathon: Marathon) -> Path:
    """Where everything the last session said is kept."""
    life = marathon.life
    return Path(marathon.task.runs.session_path(life.run, "events", life.iteration, "jsonl"))


def _view(key: str, marathon: Marathon, name: str) -> Sight:
    path = marathon.task.folder / name
    return Sight(key, f"View {name}", "document", lambda: _text(path))


def _text(path: Path) -> str:
    return beginning_of(path, _LONGEST_DOCUMENT).decode("utf-8", "replace")


def _log_text(log: Path) -> str:
    """The log as the screen showed it."""
    out = StringIO()
    screen = Screen(out, live=False, notify=False, color=colored())
    for event in follow(log):
        screen(event)
    screen.close()
    return out.getvalue()[-_LONGEST_LOG:]


def _changes_label(marathon: Marathon, gate: Gate) -> str:
    if _last_round(marathon, gate):
        return "Show what changed since the last round, and in the code since the last gate"
    return "Show what changed in the code since the last gate"


def _last_round(marathon: Marathon, gate: Gate) -> Path | None:
    """What the human saw in the round before, to compare the output with."""
    phase, number = marathon.where.phase, hand_edits.round_at(marathon, gate) - 1
    if phase is None or not phase.output or number < 1 or not marathon.task.output_mark(phase.output):
        return None
    return marathon.task.runs.reviewed(marathon.life.run, phase.id, phase.output, number)


def _changes(marathon: Marathon, gate: Gate) -> Iterator[str]:
    for name, _, diff in hand_edits.edits_so_far(marathon, gate):
        yield f"━━ Your edits of {name} at this gate\n\n{diff}\n"
    before, phase = _last_round(marathon, gate), marathon.where.phase
    if before and phase and phase.output:
        output = marathon.task.folder / phase.output
        diff = difference(_text(before), _text(output), "last round", phase.output)
        yield f"━━ {phase.output} since the last round\n\n{diff or 'Nothing changed since the last round.'}\n"
    yield f"━━ Files of the project since the last gate\n\n{marathon.snapshots.changes(_columns())}"


def _columns() -> int:
    return shutil.get_terminal_size().columns
