"""Workflows: which definitions can be used, and where a task stands in them. A position is a stack, innermost last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, NonNegativeInt, StrictBool, Tag

from marathon.core.validation import SHOWN_ON_ONE_LINE, Invalid, must, read

DONE = "done"  # the phase of a task that is complete
MOST_PHASES = 500
MOST_LEVELS = 100
# {{name}} stands for {name} itself. Other braces are plain text.
_VARIABLE = re.compile(r"\{\{([A-Za-z_]+)\}\}|\{([A-Za-z_]+)\}")
VARIABLES = ("task", "run", "phase", "previous", "next", "output", "reads")
_RESERVED_FILES = {"STATE.json", "instructions.md", "human.md"}


Identifier = Annotated[
    str, must(re.compile(r"[a-z0-9][a-z0-9_-]{0,63}").fullmatch, "it is not a name of small letters, digits, - and _")
]
FileName = Annotated[
    str, must(re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,99}").fullmatch, "it is not a plain file name")
]
AgentsFile = Annotated[FileName, must(lambda value: value not in _RESERVED_FILES, "'{}' is reserved")]
ToolName = Annotated[str, must(re.compile(r"!?[A-Za-z0-9_.:-]{1,100}").fullmatch, "it is not the name of a tool")]
Shown = Annotated[str, SHOWN_ON_ONE_LINE]
Name = Annotated[Shown, must(lambda value: 0 < len(value) <= 100, "it has to have 1 to 100 characters")]


def _of_one_kind(tools: tuple[str, ...]) -> bool:
    """Only these tools, or with ! all but these."""
    return len({name.startswith("!") for name in tools}) < 2


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One phase: what its sessions are told, what they read, and what they write."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Annotated[Identifier, must(lambda value: value != DONE, "'{}' is reserved")]
    name: Name
    emoji: Shown = ""
    brief: Annotated[str, Field(min_length=1)]
    reads: tuple[FileName, ...] = ()
    output: AgentsFile | None = None
    checklist: AgentsFile | None = None  # working memory; the phase is complete when every box in it is ticked
    gate: StrictBool = False
    repeats: StrictBool = False
    may_loop: Annotated[int, Field(strict=True, ge=0, le=100)] = 0  # how often the agent may start the workflow again
    writes: Literal["none", "task", "project"] = "project"  # none: only its output and STATE.json
    agent: Identifier | None = None  # None: the one that was chosen at the start
    model: Name | None = None
    thinking: Identifier | None = None
    args: tuple[Shown, ...] = ()  # more arguments for the agent
    tools: Annotated[tuple[ToolName, ...], must(_of_one_kind, "either all of them or none begin with !")] = ()


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An entry that stands for another workflow."""

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
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise ValueError(f"phase id '{twice}' is there twice")
    return entries


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """An ordered list of phases and references."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: Identifier
    name: Name
    loopable: StrictBool = True
    show: Literal["everywhere", "workflows"] = "everywhere"  # workflows: only inside of others
    phases: Annotated[tuple[Entry, ...], Field(min_length=1), AfterValidator(_have_different_ids)]


Definitions = Mapping[str, Workflow]


class Usable(dict[str, Workflow]):
    """The definitions that can be used, with the reasons why others cannot."""

    def __init__(self, usable: Definitions, refused: Mapping[str, str]) -> None:
        super().__init__(usable)
        self.refused = refused


def refused_because(definitions: Definitions, key: str) -> str:
    """Why a definition that is there cannot be used; empty if there is none of this name."""
    return definitions.refused.get(key, "") if isinstance(definitions, Usable) else ""


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
    """A definition or a position cannot be used. The text says why."""


def parse_workflow(key: str, raw: Mapping[str, Any]) -> Workflow:
    """A workflow from its TOML table."""
    if raw.get("key", key) != key:
        raise WorkflowInvalid(f"key: it has to be '{key}', like its folder")
    try:
        workflow = read(Workflow, {**raw, "key": key})
    except Invalid as error:
        raise WorkflowInvalid(str(error)) from error
    for phase in workflow.phases:
        names = [match[2] for match in _VARIABLE.finditer(phase.brief) if match[2]] if isinstance(phase, Phase) else []
        if unknown := next((name for name in names if name not in VARIABLES), None):
            known = ", ".join(VARIABLES)
            raise WorkflowInvalid(
                f"brief: there is no variable {{{unknown}}}, only {known}. As text: {{{{{unknown}}}}}"
            )
    return workflow


def filled_in(brief: str, values: Mapping[str, str]) -> str:
    """A brief with its variables. A name that is not known stays as it is, for briefs of older journals."""
    return _VARIABLE.sub(lambda match: f"{{{match[1]}}}" if match[1] else values.get(match[2], match[0]), brief)


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
    """The position of a new task, at the first phase, which may be some levels deep."""
    return Position(_descend(definitions, (Segment(key, 0),)))


def current(definitions: Definitions, position: Position) -> Phase:
    """The phase at a position."""
    if not position.path:
        raise WorkflowInvalid("the position has no path")
    for outer, inner in itertools.pairwise(position.path):
        entry = _entry_at(definitions, outer)
        if not isinstance(entry, Reference) or entry.workflow != inner.workflow:
            raise WorkflowInvalid(f"phase {outer.place + 1} of '{outer.workflow}' is no longer '{inner.workflow}'")
    last = position.path[-1]
    phase = _entry_at(definitions, last)
    if isinstance(phase, Reference):
        raise WorkflowInvalid(f"phase {last.place + 1} of '{last.workflow}' is a workflow now")
    return phase


def advance(definitions: Definitions, position: Position) -> tuple[Position, bool]:
    """The next position, and whether the whole workflow is over. The path stays the same when it is over."""
    current(definitions, position)
    path = position.path
    while path[-1].place + 1 >= len(_workflow(definitions, path[-1].workflow).phases):
        path = path[:-1]
        if not path:
            return Position(position.path, position.steps + 1), True
    path = (*path[:-1], path[-1]._replace(place=path[-1].place + 1))
    return Position(_descend(definitions, path), position.steps + 1), False


def loop(definitions: Definitions, position: Position) -> Position:
    """The first phase of the innermost workflow again. WorkflowInvalid says that the workflow does not allow this."""
    innermost = _workflow(definitions, position.path[-1].workflow)
    if not innermost.loopable:
        raise WorkflowInvalid(f"the workflow '{innermost.key}' does not allow looping (loopable = false)")
    path = (*position.path[:-1], position.path[-1]._replace(place=0))
    return Position(_descend(definitions, path), position.steps + 1)


def places(definitions: Definitions, key: str) -> list[tuple[Path, Phase]]:
    """Every phase of a workflow and of those it refers to, in order, with its path."""
    found: list[tuple[Path, Phase]] = []
    position, over = enter(definitions, key), False
    while not over:
        found.append((position.path, current(definitions, position)))
        position, over = advance(definitions, position)
    return found


def locate(definitions: Definitions, key: str, phase_id: str, near: Path) -> Path | None:
    """The path of the phase with this id. The last one up to `near` is preferred, then the first one after it."""
    all_places = places(definitions, key)
    paths = [path for path, _ in all_places]
    matches = [path for path, phase in all_places if phase.id == phase_id]
    before = [path for path in matches if near not in paths or paths.index(path) <= paths.index(near)]
    return next(iter(before[-1:] or matches), None)


def breadcrumb(definitions: Definitions, position: Position) -> str:
    """Such as `Release Pipeline > Code Review [2/3] > 🔍 Static Analysis [1/2]`."""
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
    """The path in a state of pi-workflows, or None if it is another kind of state.

    The oldest form has only an index. A malformed path is refused, not guessed.
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
        why = refused_because(definitions, key)
        raise WorkflowInvalid(f"the workflow '{key}' is {f'refused: {why}' if why else 'not there'}")
    return definitions[key]


def _entry_at(definitions: Definitions, segment: Segment) -> Phase | Reference:
    phases = _workflow(definitions, segment.workflow).phases
    if not 0 <= segment.place < len(phases):
        raise WorkflowInvalid(f"the workflow '{segment.workflow}' has no phase {segment.place + 1} any more")
    return phases[segment.place]


def _descend(definitions: Definitions, path: Path) -> Path:
    while isinstance(entry := _entry_at(definitions, path[-1]), Reference):
        path = (*path, Segment(entry.workflow, 0))
    return path
