"""Finds workflow definitions. The project's win over the user's, and the user's over the built-in ones, by key."""

from __future__ import annotations

import contextlib
import errno
import os
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from marathon.core.courses.workflow import Phase, Usable, Workflow, WorkflowInvalid, parse_workflow, validate
from marathon.store.files import read_regular
from marathon.store.places import config_folder

BUILT_IN = Path(__file__).parent.parent / "workflows"
SHARED = "_shared"
MAX_BYTES = 1024 * 1024


class Library(NamedTuple):
    """The usable workflows, the refused ones with the reason, and where each key came from."""

    workflows: Usable
    refused: dict[str, str]
    sources: dict[str, str]
    without_project: dict[str, Workflow] = {}  # noqa: RUF012 - a tuple's default; what the project's files replace


def load_workflows(project: Path) -> Library:
    found: dict[str, Workflow] = {}
    refused: dict[str, str] = {}
    sources: dict[str, str] = {}
    without_project: dict[str, Workflow] = {}
    places = {"built-in": BUILT_IN, **_changeable(project)}
    for source, folder in places.items():
        if source == "project":
            without_project, _ = validate(found, refused)
        for file in sorted(folder.glob("*/workflow.toml")):
            key = file.parent.name
            sources[key] = source
            found.pop(key, None)
            refused.pop(key, None)
            try:
                found[key] = parse_workflow(key, _read(file, folder))
                if source == "project":
                    _refuse_programs(found.pop(key), found)
            except WorkflowInvalid as error:
                refused[key] = f"{file}: {error}"
    good, bad = validate(found, refused)
    return Library(Usable(good, bad), bad, sources, without_project)


def _refuse_programs(workflow: Workflow, found: dict[str, Workflow]) -> None:
    """A project's file never names a program to run."""
    for phase in workflow.phases:
        if isinstance(phase, Phase) and phase.agent == "command":
            raise WorkflowInvalid(f"phase {phase.id}: a project may not choose the agent 'command', which is a program")
    found[workflow.key] = workflow


def workflows_mark(project: Path) -> object:
    """Changes whenever a workflow of the user or the project is written, added or removed."""
    paths = [path for folder in _changeable(project).values() for path in sorted(folder.rglob("*"))]
    found = []
    for path in paths:
        with contextlib.suppress(OSError):  # gone just now
            facts = path.lstat()
            found.append((str(path), facts.st_ino, facts.st_size, facts.st_ctime_ns))
    return found


def _changeable(project: Path) -> dict[str, Path]:
    return {"user": config_folder() / "workflows", "project": project / ".marathon" / "workflows"}


def _read(file: Path, folder: Path) -> dict[str, Any]:
    """The definition, with each brief that a phase keeps in a file of the workflow's own folder (brief_file)."""
    if not _lies_in(file, folder):
        raise WorkflowInvalid("it is a link out of the workflows folder")
    try:
        raw = tomllib.loads(_text(file))
    except (OSError, ValueError, RecursionError) as error:
        raise WorkflowInvalid(str(error).splitlines()[0][:200]) from error
    for phase in raw["phases"] if isinstance(raw.get("phases"), list) else ():
        if isinstance(phase, dict) and isinstance(phase.get("brief_file"), str):
            phase["brief"] = _brief(phase.pop("brief_file"), file.parent)
    return raw


def _brief(name: str, folder: Path) -> str:
    """Of the workflow's own folder, or of the folder _shared beside it (`_shared/review.md`)."""
    if name.startswith(f"{SHARED}/"):
        folder, name = folder.parent / SHARED, name.removeprefix(f"{SHARED}/")
        if not _lies_in(folder, folder.parent):
            raise WorkflowInvalid(f"{SHARED} is a link out of the workflows folder")
    if "\0" in name or not _lies_in(folder / name, folder):
        raise WorkflowInvalid(f"brief_file {name!r} lies outside of the workflow's folder")
    try:
        return _text(folder / name)
    except WorkflowInvalid as error:
        raise WorkflowInvalid(f"brief_file {name!r}: {error}") from error
    except (OSError, ValueError) as error:
        raise WorkflowInvalid(f"brief_file {name!r} cannot be read") from error


def _text(file: Path) -> str:
    data = read_regular(os.path.realpath(file), MAX_BYTES)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "it is not there", str(file))
    if len(data) > MAX_BYTES:
        raise WorkflowInvalid("it is too large")
    return data.decode()


def _lies_in(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, with all links followed."""
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
