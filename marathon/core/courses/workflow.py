"""Workflows: which definitions are sound, and where a task stands in them. A position is a stack, innermost last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from marathon.core.shape import Check, Unshaped, build
from marathon.core.text import clean

MOST_PHASES = 500
_RESERVED_IDS = {"done"}
_RESERVED_FILES = {"STATE.json", "instructions.md", "human.md"}


def _like(pattern: str, what: str) -> Check:
    def check(value: str) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"it is not {what}")

    return check


def _shows_on_one_line(value: str) -> None:
    if clean(value) != value or "\n" in value or "\t" in value:
        raise ValueError("it holds control characters")


def _is_named(value: str) -> None:
    if not 0 < len(value) <= 100:
        raise ValueError("it has to have 1 to 100 characters")


def _is_written(value: str) -> None:
    if not value:
        raise ValueError("it is empty")


Identifier = Annotated[str, _like(r"[a-z0-9][a-z0-9_-]{0,63}", "a name of small letters, digits, - and _")]
# A plain file name in the task directory; names the runner keeps for itself are refused in Phase below.
FileName = Annotated[str, _like(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,99}", "a plain file name")]
Shown = Annotated[str, _shows_on_one_line]
Name = Annotated[str, _shows_on_one_line, _is_named]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One concrete phase: what a session in it is told, reads and leaves behind."""

    id: Identifier
    name: Name
    emoji: Shown = ""
    brief: Annotated[str, _is_written]
    reads: tuple[FileName, ...] = ()
    output: FileName | None = None
    gate: bool = False
    repeats: bool = False

    def __post_init__(self) -> None:
        if self.id in _RESERVED_IDS:
            raise ValueError(f"the phase id '{self.id}' is reserved")
        if self.output in _RESERVED_FILES:
            raise ValueError(f"the output file '{self.output}' is reserved")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A phase that is another workflow."""

    workflow: Identifier


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """An ordered list of phases and references under a key."""

    key: Identifier
    name: Name
    loopable: bool = True
    phases: Annotated[tuple[Phase | Reference, ...], _is_written]

    def __post_init__(self) -> None:
        ids = [entry.id for entry in self.phases if isinstance(entry, Phase)]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        if twice:
            raise ValueError(f"phase id '{twice[0]}' is there twice")


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
        return build(Workflow, {**raw, "key": key}, strict=True)
    except Unshaped as error:
        raise WorkflowInvalid(str(error)) from error


def validate(
    found: Definitions, refused: Mapping[str, str] | None = None
) -> tuple[dict[str, Workflow], dict[str, str]]:
    """Those that can be used, and the refused with the reason: missing references, cycles, whoever refers to them."""
    bad = dict(refused or {})
    good = dict(found)
    for key in list(good):
        cycle = _cycle_from(key, found)
        if cycle:
            bad[key] = "it refers to itself: " + " > ".join(cycle)
            del good[key]
    while True:
        broken = {
            key: f"it refers to '{other}', which is " + ("refused" if other in bad else "not there")
            for key, workflow in good.items()
            for other in _references(workflow)
            if other not in good
        }
        broken |= {key: "it unfolds into too many phases" for key in good if _size(key, good) > MOST_PHASES}
        if not broken:
            return good, bad
        bad.update(broken)
        good = {key: workflow for key, workflow in good.items() if key not in broken}


def _size(key: str, found: Definitions) -> int:
    """How many concrete phases lie below a workflow; references to a few levels of doubling are quickly a million."""
    counted: dict[str, int] = {}

    def count(name: str) -> int:
        if name not in counted:
            counted[name] = sum(
                count(entry.workflow) if isinstance(entry, Reference) else 1
                for entry in (found[name].phases if name in found else ())
            )
        return counted[name]

    return count(key)


def _references(workflow: Workflow) -> Iterator[str]:
    return (entry.workflow for entry in workflow.phases if isinstance(entry, Reference))


def _cycle_from(start: str, found: Definitions) -> list[str]:
    """The way from start back to start, or an empty list."""
    stack = [[start]]
    seen: set[str] = set()
    while stack:
        way = stack.pop()
        for other in _references(found[way[-1]]) if way[-1] in found else ():
            if other == start:
                return [*way, start]
            if other not in seen:
                seen.add(other)
                stack.append([*way, other])
    return []


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


def parse_position(record: Mapping[str, Any]) -> Position:
    """A position as recorded; an old record with only a phase index is a path of one. Nothing is guessed."""
    raw = record.get("path")
    if raw is None and _is_index(record.get("phaseIndex")) and isinstance(record.get("workflow"), str):
        raw = [[record["workflow"], record["phaseIndex"]]]
    if not isinstance(raw, list | tuple) or not raw:
        raise WorkflowInvalid("the recorded position has no path")
    for segment in raw:
        if not isinstance(segment, list | tuple) or len(segment) != 2:
            raise WorkflowInvalid("the recorded position is malformed")
        if not isinstance(segment[0], str) or not re.match(r"^[a-z0-9]", segment[0]) or not _is_index(segment[1]):
            raise WorkflowInvalid("the recorded position is malformed")
    path = tuple(Segment(*segment) for segment in raw)
    steps: Any = record.get("steps")
    return Position(path, int(steps) if _is_index(steps) else path[0].place)


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
