"""Finds workflow definitions. The project's win over the user's, and the user's over the built-in ones, by key."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from marathon.core.courses.workflow import Usable, Workflow, WorkflowInvalid, parse_workflow, validate
from marathon.store.places import config_folder

BUILT_IN = Path(__file__).parent.parent / "workflows"
MAX_BYTES = 1024 * 1024


class Library(NamedTuple):
    """The usable workflows, the refused ones with the reason, and where each key came from."""

    workflows: Usable
    refused: dict[str, str]
    sources: dict[str, str]


def load_workflows(project: Path) -> Library:
    found: dict[str, Workflow] = {}
    refused: dict[str, str] = {}
    sources: dict[str, str] = {}
    places = {
        "built-in": BUILT_IN,
        "user": config_folder() / "workflows",
        "project": project / ".marathon" / "workflows",
    }
    for source, folder in places.items():
        for file in sorted(folder.glob("*/workflow.toml")):
            key = file.parent.name
            sources[key] = source
            found.pop(key, None)
            refused.pop(key, None)
            try:
                found[key] = parse_workflow(key, _read(file, folder))
            except WorkflowInvalid as error:
                refused[key] = f"{file}: {error}"
    good, bad = validate(found, refused)
    return Library(Usable(good, bad), bad, sources)


def _read(file: Path, folder: Path) -> dict[str, Any]:
    """The definition, with each brief that a phase keeps in a file of the workflow's own folder (brief_file)."""
    if not _lies_in(file, folder):
        raise WorkflowInvalid("it is a link out of the workflows folder")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise WorkflowInvalid("it is too large")
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WorkflowInvalid(str(error).splitlines()[0][:200]) from error
    for phase in raw["phases"] if isinstance(raw.get("phases"), list) else ():
        if isinstance(phase, dict) and isinstance(phase.get("brief_file"), str):
            phase["brief"] = _brief(phase.pop("brief_file"), file.parent)
    return raw


def _brief(name: str, folder: Path) -> str:
    if "\0" in name or not _lies_in(folder / name, folder):
        raise WorkflowInvalid(f"brief_file {name!r} lies outside of the workflow's folder")
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise WorkflowInvalid(f"brief_file {name!r} cannot be read") from error


def _lies_in(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, with all links followed."""
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
