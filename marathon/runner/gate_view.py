"""A gate as a human meets it, for every surface. The runner shows its own; others read it from files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from marathon.core.comments import Comment, Kind
from marathon.core.courses.where import Where
from marathon.core.gates import POLICIES, offers
from marathon.core.life import Life, total_of
from marathon.core.records import Gate
from marathon.errors import MarathonError
from marathon.git.writes import WriteGuard
from marathon.runner import meanwhile
from marathon.runner.commenting import add_comment
from marathon.runner.review import asked, document_text, not_sent, standings, summary_line
from marathon.runner.sights import document_at_hand, last_log, sights
from marathon.store.events import has_output
from marathon.store.task import Task
from marathon.surfaces.base import Commenting, GateView


class TaskAtGate(Protocol):
    """What is needed to show a gate: a running Marathon has it, and so has a task that was only read (`Known`)."""

    @property
    def task(self) -> Task: ...
    @property
    def shown(self) -> Path: ...
    @property
    def life(self) -> Life: ...
    @property
    def where(self) -> Where: ...
    @property
    def snapshots(self) -> WriteGuard: ...
    def anew(self) -> TaskAtGate:
        """As it is now, with the comments that came meanwhile."""


def gate_view(seen: TaskAtGate, gate: Gate, *, resume: str, program: str, code: Callable[[], str]) -> GateView:
    life, task, where, policy = seen.life, seen.task, seen.where, POLICIES[gate.reason]
    output = where.phase.output if where.phase else None
    document = task.asks_in if policy.agreement == "criteria" else output
    undone = [each for _, each in life.writes if not each.tree] if gate.put_back else []
    at_hand, log, found = document_at_hand(seen, gate), last_log(seen), standings(seen)
    return GateView(
        gate=gate,
        offers=offers(gate, where, life.oversight),
        task=seen.shown,
        iteration=where.iteration or life.iteration,
        document=seen.shown / document if document and task.output_mark(document) else None,
        at_hand=seen.shown / at_hand if at_hand else None,
        sights=sights(seen, gate, found),
        commenting=_commenting(seen, at_hand) if at_hand else None,
        total=total_of(life),
        summary=summary_line(seen, gate, found),
        comments=[*asked(gate, found), *(each for each in found if not each.comment.sent)],
        breadcrumb=where.breadcrumb,
        resume=resume,
        program=program,
        checks=life.checked.results if life.checked else (),
        rating=life.rating,
        denied=life.denied,
        log=_shown_log(seen, log) if policy.shows_log else None,
        code=None if gate.answers == "here" else code,
        put_back=(lambda: seen.snapshots.put_back(undone)) if undone else None,
        kept=partial(meanwhile.shown, seen),
    )


def _commenting(seen: TaskAtGate, file: str) -> Commenting:
    def add(text: str, kind: Kind, first: int, last: int) -> Comment:
        document = document_text(seen, file)
        return add_comment(seen, text, kind=kind, file=file, first=first, last=last, document=document)

    return Commenting(file, lambda: document_text(seen, file), add, lambda: not_sent(seen))


def _shown_log(seen: TaskAtGate, log: Path) -> Path | None:
    """Everything the last session said, so that the human can find out why the session failed."""
    with contextlib.suppress(MarathonError):
        return seen.shown / seen.task.home.shown(log) if has_output(log) else None
    return None
