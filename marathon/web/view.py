"""What the pages of a task need to know, read anew for every request."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from marathon.core.comments import Standing
from marathon.core.records import Gate
from marathon.core.rounds import Round, rounds_of
from marathon.runner.review import standings
from marathon.runner.sights import document_at_hand
from marathon.runner.status_query import Known, read_task, resume_command, status_of
from marathon.show.status import Status
from marathon.store.home import INSTRUCTIONS
from marathon.store.lock import holder_of
from marathon.store.task import HUMAN, PLAN, WORK, Task

_DOCUMENTS = (".md", ".txt", ".toml")
_FIRST_NAMES = (INSTRUCTIONS, "research.md", PLAN, WORK, "result.md", HUMAN)


@dataclass(frozen=True)
class View:
    """A task with everything that its page needs."""

    id: str
    known: Known
    status: Status
    standings: Sequence[Standing]
    rounds: Sequence[Round]

    @property
    def path(self) -> str:
        return f"task/{self.id}"

    @property
    def over(self) -> bool:
        return bool(self.known.life.finished or self.known.life.cancelled)

    @property
    def gate(self) -> Gate | None:
        """The gate that is open and was not answered yet."""
        return self.known.life.gate if self.status.gate else None


def look(name: str, folder: Path, project: Path) -> View:
    known = read_task(folder, project)
    holder = holder_of(known.task.lock_path)
    resume = "" if holder else resume_command(known.task, folder, project)
    status = status_of(known, resume, runner=str(holder) if holder else "", session_too=False)
    rounds = rounds_of(known.records)
    return View(name, known, status, standings(known), rounds)


def fingerprint(folder: Path, *, documents_too: bool = False) -> str:
    """Changes whenever something happens to a task: a record, a message, a comment, a runner that comes or goes."""
    task = Task(folder)
    sizes = []
    with contextlib.suppress(OSError):
        names = [each for each in os.scandir(folder) if documents_too and each.name.endswith(_DOCUMENTS)]
        sizes.append(hash(tuple(sorted((each.name, each.stat().st_mtime_ns) for each in names))) % 10**9)
    for path in (task.journal_path, folder / HUMAN):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    with contextlib.suppress(OSError):
        sizes.append(hash(tuple(sorted(path.name for path in task.inbox.folder.glob("*.json")))) % 10**6)
    return "-".join(map(str, [*sizes, int(holder_of(task.lock_path) is not None)]))


def documents(view: View) -> list[str]:
    names = view.known.task.artifacts()
    found = [name for name in names if name.endswith(_DOCUMENTS) and not name.startswith(".")]
    first = {name: number for number, name in enumerate(_FIRST_NAMES)}
    return sorted(found, key=lambda name: (first.get(name, len(first)), name))


def chosen_document(view: View, asked: str) -> str:
    """The one that was asked for, else what the gate is about, else what the phase works on."""
    names, phase = documents(view), view.known.where.phase
    at_gate = document_at_hand(view.known, view.gate) if view.gate else None
    likely = (asked, at_gate, phase.output if phase else None, PLAN, INSTRUCTIONS)
    return next((name for name in likely if name and name in names), INSTRUCTIONS)


def quoted(name: str) -> str:
    return quote(name, safe="", errors="replace")


def number_in(value: str | None) -> int:
    """0 for what is no number."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 16 else 0


def pair_in(asked: str) -> tuple[int, int]:
    first, _, second = asked.partition("-")
    return number_in(first.strip()), number_in(second.strip())


def lines_in(asked: str) -> tuple[int, int]:
    """12-14 or 12 as lines. (0, 0) for anything else."""
    first, last = pair_in(asked)
    return (first, max(first, last)) if first else (0, 0)
