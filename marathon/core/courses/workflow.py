"""Workflows: which definitions can be used, and where a task stands in them. A position is a stack, innermost last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, NonNegativeInt, StrictBool, Tag

from marathon.core.text import clean
from marathon.core.validation import Invalid, must, read

DONE = "done"  # the phase of a task that is complete
MOST_PHASES = 500
MOST_LEVELS = 100
_RESERVED_FILES = {"STATE.json", "instructions.md", "human.md"}


def _shows_on_one_line(value: str) -> bool:
    return clean(value) == value and not {"\n", "\t"} & set(value)


Identifier = Annotated[
    str, must(re.compile(r"[a-z0-9][a-z0-9_-]{0,63}").fullmatch, "it is not a name of small letters, digits, - and _")
]
FileName = Annotated[
    str, must(re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,99}").fullmatch, "it is not a plain file name")
]
Shown = Annotated[str, must(_shows_on_one_line, "it holds control characters")]
Name = Annotated[Shown, must(lambda value: 0 < len(value) <= 100, "it has to have 1 to 100 characters")]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One concrete phase: what a session in it is told, reads and leaves behind."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Annotated[Identifier, must(lambda value: value != DONE, "'{}' is reserved")]
    name: Name
    emoji: Shown = ""
    brief: Annotated[str, Field(min_length=1)]
    reads: tuple[FileName, ...] = ()
    output: Annotated[FileName, must(lambda value: value not in _RESERVED_FILES, "'{}' is reserved")] | None = None
    gate: StrictBool = False
    repeats: StrictBool = False


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A phase that is another workflow."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    workflow: Identifier


def _entry_tag(raw: Any) -> str:
    refers = isinstance(raw, Reference) or (isinstance(raw, Mapping) and "workflow" in raw)
    return "<reference>" if refers else "<phase>"


Entry = Annotated[
    Annotated[Phase, Tag("<phase>")] | Annotated[Reference, Tag("<reference>")], Discriminator(_entry_tag)
]


def _have_different_ids(entries: tuple[Phase | Reference, ...]) -> tuple[Phase | Reference, ...]:
    ids = [entry.id for entry in entries if isinstance(entry, Phase)]
    for one in ids:
        if ids.count(one) > 1:
            raise ValueError(f"phase id '{one}' is there twice")
    return entries


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """An ordered list of phases and references under a key."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: Identifier
    name: Name
    loopable: StrictBool = True
    phases: Annotated[tuple[Entry, ...], Field(min_length=1), AfterValidator(_have_different_ids)]


Definitions = Mapping[str, Workflow]


class Segment(NamedTuple):
    """One level of the stack."""

    workflow: str
    place: int


Path = tuple[Segment, ...]


class Position(NamedTuple):
    """Where a task stands, and how many steps it took to get there."""

    path: Path
    steps: int = 0


class WorkflowInvalid(ValueError):
    """A definition, or a position in one, cannot be used; str() says why."""


def parse_workflow(key: str, raw: Mapping[str, Any]) -> Workflow:
    """A workflow from its TOML table."""
    if raw.get("key", key) != key:
        raise WorkflowInvalid(f"key: it has to be '{key}', like its folder")
    try:
        return read(Workflow, {**raw, "key": key})
    except Invalid as error:
        raise WorkflowInvalid(str(error)) from error


def validate(
    found: Definitions, refused: Mapping[str, str] | None = None
) -> tuple[dict[str, Workflow], dict[str, str]]:
    """The workflows that can be used, and the refused ones, each with the reason."""
    refused = refused or {}
    bad = dict(refused)
    for key in found:
        try:
            if len(list(itertools.islice(_unfolded(found, refused, (key,)), MOST_PHASES + 1))) > MOST_PHASES:
                bad[key] = f"it unfolds into more than {MOST_PHASES} phases"
        except WorkflowInvalid as error:
            bad[key] = str(error)
    return {key: workflow for key, workflow in found.items() if key not in bad}, bad


def _unfolded(found: Definitions, refused: Mapping[str, str], path: tuple[str, ...]) -> Iterator[Phase]:
    """Every phase below the last workflow of the path. WorkflowInvalid says why the first one cannot be used."""
    for entry in found[path[-1]].phases:
        if isinstance(entry, Phase):
            yield entry
            continue
        key = entry.workflow
        if key == path[0]:
            raise WorkflowInvalid(f"it refers to itself: {' > '.join((*path, key))}")
        if key in refused or key in path or (key not in found and len(path) > 1):
            raise WorkflowInvalid(f"it refers to '{(*path, key)[1]}', which is refused")
        if key not in found:
            raise WorkflowInvalid(f"it refers to '{key}', which is not there")
        if len(path) == MOST_LEVELS:
            raise WorkflowInvalid(f"its references are more than {MOST_LEVELS} levels deep")
        yield from _unfolded(found, refused, (*path, key))


def enter(definitions: Definitions, key: str) -> Position:
    """A new task's position: the first concrete phase, however deep it lies."""
    return Position(_descend(definitions, (Segment(key, 0),)))


def current(definitions: Definitions, position: Position) -> Phase:
    """The concrete phase at a position."""
    entry = _entry(definitions, position.path)
    if isinstance(entry, Reference):
        raise WorkflowInvalid(
            f"phase {position.path[-1].place + 1} of '{position.path[-1].workflow}' is a workflow now"
        )
    return entry


def advance(definitions: Definitions, position: Position) -> tuple[Position, bool]:
    """The position after this one, and whether the whole workflow is over (then the path stays)."""
    current(definitions, position)
    path = position.path
    while path[-1].place + 1 >= len(_workflow(definitions, path[-1].workflow).phases):
        path = path[:-1]
        if not path:
            return Position(position.path, position.steps + 1), True
    path = (*path[:-1], path[-1]._replace(place=path[-1].place + 1))
    return Position(_descend(definitions, path), position.steps + 1), False


def loop(definitions: Definitions, position: Position) -> Position:
    """The innermost workflow from its first phase again; WorkflowInvalid where it does not allow that."""
    innermost = _workflow(definitions, position.path[-1].workflow)
    if not innermost.loopable:
        raise WorkflowInvalid(f"the workflow '{innermost.key}' does not allow looping (loopable = false)")
    path = (*position.path[:-1], position.path[-1]._replace(place=0))
    return Position(_descend(definitions, path), position.steps + 1)


def places(definitions: Definitions, key: str) -> list[tuple[Path, Phase]]:
    """Every concrete phase below a workflow, in order, with its path."""
    found: list[tuple[Path, Phase]] = []
    position, over = enter(definitions, key), False
    while not over:
        found.append((position.path, current(definitions, position)))
        position, over = advance(definitions, position)
    return found


def locate(definitions: Definitions, key: str, phase_id: str, near: Path) -> Path | None:
    """The phase with this id: the one at or nearest before `near`, else the first after it."""
    all_places = places(definitions, key)
    here = next((number for number, (path, _) in enumerate(all_places) if path == near), len(all_places))
    matches = [number for number, (_, phase) in enumerate(all_places) if phase.id == phase_id]
    before = [number for number in matches if number <= here]
    chosen = before[-1:] or matches[:1]
    return all_places[chosen[0]][0] if chosen else None


def breadcrumb(definitions: Definitions, position: Position) -> str:
    """Release Pipeline > Code Review [2/3] > 🔍 Static Analysis [1/2]"""
    parts = []
    counter = ""
    for segment in position.path:
        workflow = _workflow(definitions, segment.workflow)
        parts.append(workflow.name + counter)
        counter = f" [{segment.place + 1}/{len(workflow.phases)}]"
    phase = current(definitions, position)
    parts.append(f"{phase.emoji} {phase.name}".strip() + counter)
    return " > ".join(parts)


@dataclass(frozen=True)
class _OldSegment:
    workflowKey: Identifier
    phaseIndex: Annotated[NonNegativeInt, Field(strict=True)]


@dataclass(frozen=True)
class _OldRecord:
    workflowKey: Identifier
    currentPath: Annotated[tuple[_OldSegment, ...], Field(min_length=1)]


def recorded_path(record: Mapping[str, Any]) -> Path | None:
    """The path in a state of pi-workflows, whose oldest form has only an index; None where it is no such state.

    A malformed one is refused, not guessed.
    """
    if "workflowKey" not in record or not {"currentPath", "currentPhaseIndex"} & record.keys():
        return None
    index = {"workflowKey": record["workflowKey"], "phaseIndex": record.get("currentPhaseIndex")}
    try:
        old = read(_OldRecord, {"currentPath": [index], **record})
    except Invalid as error:
        raise WorkflowInvalid(str(error)) from error
    return tuple(Segment(segment.workflowKey, segment.phaseIndex) for segment in old.currentPath)


def _workflow(definitions: Definitions, key: str) -> Workflow:
    if key not in definitions:
        raise WorkflowInvalid(f"the workflow '{key}' is not there")
    return definitions[key]


def _entry(definitions: Definitions, path: Path) -> Phase | Reference:
    if not path:
        raise WorkflowInvalid("the position has no path")
    for outer, inner in itertools.pairwise(path):
        entry = _entry_at(definitions, outer)
        if not isinstance(entry, Reference) or entry.workflow != inner.workflow:
            raise WorkflowInvalid(f"phase {outer.place + 1} of '{outer.workflow}' is no longer '{inner.workflow}'")
    return _entry_at(definitions, path[-1])


def _entry_at(definitions: Definitions, segment: Segment) -> Phase | Reference:
    phases = _workflow(definitions, segment.workflow).phases
    if not 0 <= segment.place < len(phases):
        raise WorkflowInvalid(f"the workflow '{segment.workflow}' has no phase {segment.place + 1} any more")
    return phases[segment.place]


def _descend(definitions: Definitions, path: Path) -> Path:
    entry = _entry_at(definitions, path[-1])
    while isinstance(entry, Reference):
        path = (*path, Segment(entry.workflow, 0))
        entry = _entry_at(definitions, path[-1])
    return path
