"""Knows what the workflow's files say now and whether a human agreed to it. The decision follows from the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from marathon.core.courses.phases import Phases
from marathon.core.courses.pinning import find_again, find_first
from marathon.core.records import DefinitionFound
from marathon.store.definitions import Library

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon


@dataclass(frozen=True)
class Source:
    """Where a project's workflows come from."""

    load: Callable[[], Library]
    mark: Callable[[], object]  # changes whenever one of their files does
    chosen_by_project: bool = False  # a file of the project chose the workflow of a new task


def recheck(marathon: Marathon) -> None:
    """Note what the workflow's files say now, where that is new. The agent may have changed them."""
    life, source = marathon.life, marathon.workflows
    if source is None or life.finished or life.cancelled or not isinstance(marathon.course, Phases):
        return
    mark = source.mark()
    if mark == marathon.workflows_mark:
        return
    marathon.workflows_mark = mark
    found, known = _find(marathon, source, marathon.course.workflow_of(life)), life.definition
    if found and (known is None or (known.digest, known.agreed) != (found.digest, found.agreed)):
        marathon.record(found)


def agree(marathon: Marathon) -> None:
    """The human has seen exactly this definition and said yes, or said beforehand to trust it (--trust)."""
    found = marathon.life.definition
    if found and not found.agreed:
        remember(marathon, found)
        marathon.record(replace(found, n=0, at="", agreed=True))


def remember(marathon: Marathon, found: DefinitionFound) -> None:
    """For the next task. A change during a run takes a yes of its own."""
    marathon.trusted.remember(_code(marathon, found), {"project": str(marathon.project), "workflow": found.workflow})


def _find(marathon: Marathon, source: Source, key: str) -> DefinitionFound | None:
    library, pinned = source.load(), marathon.life.pinned
    if key not in library.workflows:
        if pinned:
            why = library.refused.get(key, "its file is not there")
            marathon.tell(f"The workflow {key} cannot be read: {why}. This task keeps the one it has.", "warning")
        return None
    if pinned:
        return find_again(library.workflows, key, library.sources, pinned)
    found = find_first(
        library.workflows,
        key,
        library.sources,
        library.without_project,
        chosen_by_project=source.chosen_by_project,
    )
    return replace(found, agreed=found.agreed or marathon.trusted.has(_code(marathon, found)))


def _code(marathon: Marathon, found: DefinitionFound) -> str:
    """An agreement counts for one project only."""
    from hashlib import sha256

    return sha256(f"{found.digest}\n{marathon.project}".encode("utf-8", "surrogateescape")).hexdigest()
