"""Commands that only tell: status, list."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from marathon.cli.arguments import task_path
from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.status_query import here, row_of, status_of_task
from marathon.core.text import clean, duration
from marathon.errors import WrongUsage
from marathon.show.status import Status, status_lines

_LISTED = ("task", "condition", "phase", "run", "iteration", "seconds")


@click.command("status")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--sessions", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the last sessions."
)
def status(directory: str, as_json: bool, sessions: int) -> None:
    """Where the task in DIR stands, what it waits for, and the command that continues it."""
    found = status_of_task(task_path(directory), here(), sessions)
    click.echo(json.dumps(found.as_json(), indent=2) if as_json else "\n".join(status_lines(found)))


@click.command("list")
@click.argument("folder", default="docs/tasks")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def list_(folder: str, as_json: bool) -> None:
    """The tasks below FOLDER (docs/tasks), oldest first by name."""
    rows = [row_of(path, here()) for path in _task_folders(Path(folder))]
    if as_json:
        facts = [{name: row.as_json()[name] for name in _LISTED} for row in rows]
        click.echo(json.dumps(facts, indent=2))
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


def _line(row: Status) -> str:
    where = f"{row.phase} · run {row.run} · iteration {row.iteration} · {duration(row.seconds)}" if row.run else ""
    return clean(f"{row.condition:12} {row.task}  {where}").rstrip()
