"""pi-marathon list: the tasks of a project."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from marathon.cli.status_query import row_of
from marathon.core.text import clean, duration
from marathon.errors import MarathonError, WrongUsage
from marathon.show.status import Status


@click.command("list")
@click.argument("folder", default="docs/tasks")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def command(folder: str, as_json: bool) -> None:
    """The tasks below FOLDER (docs/tasks), oldest first by name."""
    rows = [_row(path) for path in _task_folders(Path(folder))]
    if as_json:
        click.echo(json.dumps([_facts(row) for row in rows], indent=2))
    elif rows:
        click.echo("\n".join(_line(row) for row in rows))
    else:
        click.echo(f"No tasks in {folder}. Make one with: pi-marathon new")


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


def _row(path: Path) -> Status:
    try:
        return row_of(path)
    except MarathonError as error:
        return Status(task=str(path), condition=f"unreadable: {error}")


def _facts(row: Status) -> dict[str, object]:
    return {
        key: value
        for key, value in row.as_json().items()
        if key in ("task", "condition", "phase", "run", "iteration", "seconds")
    }


def _line(row: Status) -> str:
    where = f"{row.phase} · run {row.run} · iteration {row.iteration} · {duration(row.seconds)}" if row.run else ""
    return clean(f"{row.condition:12} {row.task}  {where}").rstrip()
