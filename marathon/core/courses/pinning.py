"""A task keeps the workflow it began with. Another one takes a human's yes, and so does one with which a project
replaces a workflow of the user, or asks for fewer reviews."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping

from marathon.core.courses.workflow import Definitions, Phase, Reference, Workflow, places
from marathon.core.records import DefinitionFound
from marathon.core.text import clean

USUAL = "rpi"
PROJECT, BUILT_IN = "project", "built-in"
MOST_LINES = 80


def resolved(definitions: Definitions, key: str) -> dict[str, Workflow]:
    """A workflow with everything it refers to."""
    found: dict[str, Workflow] = {}
    missing = [key]
    while missing:
        workflow = definitions[missing.pop()]
        found[workflow.key] = workflow
        references = [entry.workflow for entry in workflow.phases if isinstance(entry, Reference)]
        missing += [each for each in references if each not in found]
    return found


def find_first(
    definitions: Definitions, key: str, sources: Mapping[str, str], others: Definitions, *, chosen_by_project: bool
) -> DefinitionFound:
    """The definition of a new task. `others` is what would be used if the project brought no workflows."""
    found = _found(definitions, key, sources)
    by_project = [each for each in found.definitions if sources[each] == PROJECT]
    replaced = [each for each in by_project if each in others and others[each] != found.definitions[each]]
    reviews, usual = _reviews(definitions, key), _reviews(others, USUAL)
    lines = []
    for each in replaced:
        change = _difference({each: others[each]}, {each: found.definitions[each]})
        lines += [f"This project replaces the workflow {each}:", *change]
    given = [(each, phase) for each in by_project for phase in found.definitions[each].phases]
    for each, phase in given:
        if isinstance(phase, Phase) and phase.args:
            lines += [f"This project's workflow {each} gives arguments to the agent:", f"  {_phase(phase)}"]
    if len(reviews) < len(usual) and (by_project or chosen_by_project):
        lines += [f"This project's workflow {key} has {_counted(reviews)}. The usual one has {_counted(usual)}."]
        lines += [f"  {line}" for each in found.definitions.values() for line in _described(each, briefs=False)]
    return _shown(found, lines)


def find_again(
    definitions: Definitions, key: str, sources: Mapping[str, str], pinned: DefinitionFound
) -> DefinitionFound | None:
    """The definition of a task that keeps another one, with the difference. None if only our own files changed."""
    found = _found(definitions, key, sources)
    if found.definitions == pinned.definitions:
        return found
    if {*found.sources.values(), *pinned.sources.values()} == {BUILT_IN}:
        return None  # a newer version of this program
    return _shown(found, [f"The workflow {key} was changed:", *_difference(pinned.definitions, found.definitions)])


def _found(definitions: Definitions, key: str, sources: Mapping[str, str]) -> DefinitionFound:
    whole = resolved(definitions, key)
    text = json.dumps([key, whole], default=vars, sort_keys=True)
    code = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return DefinitionFound(
        workflow=key, definitions=whole, sources={each: sources[each] for each in whole}, digest=code
    )


def _shown(found: DefinitionFound, lines: list[str]) -> DefinitionFound:
    from dataclasses import replace

    if len(lines) > MOST_LINES:
        left = len(lines) - MOST_LINES
        lines = [*lines[:MOST_LINES], f"  … and {left} more lines. See: pi-marathon workflow show {found.workflow}"]
    return replace(found, agreed=not lines, shown=clean("\n".join(lines)))


def _reviews(definitions: Definitions, key: str) -> list[str]:
    return [phase.id for _, phase in places(definitions, key) if phase.gate] if key in definitions else []


def _counted(reviews: list[str]) -> str:
    many = "1 review" if len(reviews) == 1 else f"{len(reviews) or 'no'} reviews"
    return f"{many} ({', '.join(reviews)})" if reviews else many


def _difference(before: Definitions, after: Definitions) -> list[str]:
    """The lines that went and came, with a line around them."""
    old, new = ([line for each in found.values() for line in _described(each)] for found in (before, after))
    changes = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    return [f"  {line}" for line in changes if not line.startswith("@@")]


def _described(workflow: Workflow, *, briefs: bool = True) -> Iterator[str]:
    yield f"{workflow.key}: {workflow.name}" + ("" if workflow.loopable else " (not loopable)")
    for number, entry in enumerate(workflow.phases, start=1):
        if isinstance(entry, Phase):
            yield f"  {number}. {_phase(entry)}"
            if briefs:
                yield from (f"     | {line}" for line in entry.brief.strip().splitlines())
        else:
            yield f"  {number}. the workflow {entry.workflow}"


def _phase(phase: Phase) -> str:
    facts = [f"reads {', '.join(phase.reads)}"] if phase.reads else []
    facts += [f"writes {phase.output}"] if phase.output else []
    facts += [f"complete when all of {phase.checklist} is ticked"] if phase.checklist else []
    facts += ["repeats"] if phase.repeats else []
    facts += [f"may loop {phase.may_loop} times"] if phase.may_loop else []
    facts += [f"may write {'only its output' if phase.writes == 'none' else 'the task'}"] * (phase.writes != "project")
    by = {"agent": phase.agent, "model": phase.model, "thinking": phase.thinking}
    by |= {"arguments": " ".join(phase.args), "tools": " ".join(phase.tools)}
    facts += [f"{name} {value}" for name, value in by.items() if value]
    return f"{phase.id}: {', '.join([*facts, 'you review it' if phase.gate else 'no review'])}"
