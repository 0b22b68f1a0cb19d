"""Commands that only tell: status, list."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import click

from marathon.cli.arguments import DIRECTORY
from marathon.core.budgets import Usage
from marathon.errors import MarathonError, WrongUsage
from marathon.show.status import Status, row, status_lines
from marathon.store.lock import holder_of, last_holder
from marathon.store.places import config_folder
from marathon.store.runs import Runs

_LISTED = ("task", "condition", "phase", "run", "iteration", "seconds")


@click.command("status")
@DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--sessions", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the last sessions."
)
def status(shown: Path, as_json: bool, sessions: int) -> None:
    """Where the task in DIR stands, what it waits for, and the command that continues it."""
    found = _status(shown, Path.cwd())
    found = replace(found, sessions=found.sessions[-sessions:] if sessions else ())
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
        return
    lines = status_lines(found)
    if found.gate and found.answer_with and os.isatty(1) and not os.environ.get("MARATHON_RUNNER_ID"):
        from marathon.store.gate_code import GateCodes
        from marathon.store.places import codes_folder

        code = GateCodes(codes_folder()).code(str(found.gate["token"]))
        lines.append(f"{'Code:':11}{code} (to answer without a terminal, or while an agent works: --code {code})")
    click.echo("\n".join(lines))


@click.command("list")
@click.argument("folder", default="docs/tasks")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def list_(folder: str, as_json: bool) -> None:
    """The tasks below FOLDER (docs/tasks), oldest first by name."""
    rows = [_listed(path) for path in _task_folders(Path(folder))]
    if as_json:
        click.echo(json.dumps([{name: getattr(each, name) for name in _LISTED} for each in rows], indent=2))
    else:
        click.echo("\n".join(map(row, rows)) or f"No tasks in {folder}. Make one with: pi-marathon new")


def _status(shown: Path, project: Path) -> Status:
    known = _at_rest(shown)
    before = last_holder(shown / ".marathon" / "lock") if known else None
    # The commands in a summary are for the folder and the path that the runner was given.
    if known and before and (known.task, before.cwd) == (str(shown), str(project)) and not _changed(shown, project):
        return known
    from marathon.cli.status_query import status_of_task  # this reads the journal, for which it loads far more

    return status_of_task(shown, project)


def _listed(folder: Path) -> Status:
    known = _at_rest(folder)
    if known:
        return replace(known, task=str(folder))
    from marathon.cli.status_query import status_of_task

    try:
        return status_of_task(folder, Path.cwd())
    except MarathonError as error:
        return Status(task=str(folder), condition=f"unreadable: {error}")


def _at_rest(folder: Path) -> Status | None:
    """What the last runner left, if nothing has happened to the task since."""
    own = folder / ".marathon"
    facts = Runs(own).summary()
    if facts is None or facts.get("condition") == "waiting" or holder_of(own / "lock"):
        return None
    try:
        return Status(**{**facts, "usage": Usage(**facts["usage"])})
    except (TypeError, KeyError):  # another version wrote it
        return None


def _changed(shown: Path, project: Path) -> bool:
    """Whether a workflow was added, edited or removed since the summary was written."""
    written = (shown / ".marathon" / "summary.json").stat().st_mtime
    places = [place for place in (project / ".marathon", config_folder()) if place.is_dir()]
    paths = [path for place in places for path in (place, *place.glob("workflows/**/*"))]
    return any(path.lstat().st_mtime > written for path in paths)


def _task_folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WrongUsage(
            f"{folder} cannot be listed: {error.strerror}. Give the folder that holds the tasks."
        ) from error
    known = ("instructions.md", "STATE.json")
    return [folder / name for name in names if any(os.path.lexists(folder / name / file) for file in known)]
