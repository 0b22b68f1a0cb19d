"""Commands that only tell: status, list."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import click

from marathon.cli.arguments import optional_task
from marathon.cli.find import TASKS, project_root, tasks_below, tasks_of
from marathon.cli.overview import at_rest, everywhere, overview, with_reboot
from marathon.core.text import clean, size
from marathon.errors import WrongUsage
from marathon.show.listing import after_reboot, in_background, in_order, table, window
from marathon.show.status import Status, status_lines
from marathon.store.home import Home, home_of, homes
from marathon.store.lock import last_holder
from marathon.store.places import config_folder


@click.command("status")
@optional_task("latest")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--sessions", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the last sessions."
)
def status(shown: Path, as_json: bool, sessions: int) -> None:
    """Where TASK (the latest one) stands, what it waits for, and the command that continues it."""
    found = _status(shown, Path.cwd())
    found = replace(found, sessions=found.sessions[-sessions:] if sessions else ())
    home = Home(shown)
    if as_json:
        record = {"folder": str(home.folder), "bytes": home.bytes()}
        click.echo(json.dumps({**found.as_json(), "project": str(Path.cwd()), "record": record}, indent=2))
        return
    lines = status_lines(found, window())
    if home.exists():
        lines.append(f"{'Record:':11}{home.folder} ({size(home.bytes())})")
    click.echo("\n".join(lines))


@click.command("list")
@click.argument("folder", required=False)
@click.option("--all", "all_projects", is_flag=True, help="The tasks and measured loops of every project.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def list_(folder: str | None, all_projects: bool, as_json: bool) -> None:
    """The tasks of this project, or those in FOLDER: first those that wait for you, then the latest."""
    if folder is not None and all_projects:
        raise WrongUsage("Give a folder or --all, not both.")
    project = project_root(Path.cwd())
    if folder is not None:
        rows, where = overview(_in_folder(Path(folder)), project), folder
    elif all_projects:
        rows, where = everywhere(project), "any project that is known here"
    else:
        os.chdir(project)
        rows, where = overview(map(_from_here, tasks_of(project)), project), str(TASKS)
    if as_json:
        click.echo(json.dumps([row.as_json() for row in in_order(rows)], indent=2))
    elif rows:
        click.echo(
            "\n".join([*table(rows, projects=all_projects), *in_background(rows), *after_reboot(rows, Path.cwd())])
        )
    else:
        click.echo(f"No tasks in {where}. Make one with: pi-marathon new")
    if all_projects and not as_json and (gone := [home for home in homes() if not os.path.lexists(home.task)]):
        click.echo("Records of folders that are gone. If one was moved, start it there; else: pi-marathon rm DIR")
        click.echo("\n".join(f"  {clean(str(home.task))} ({size(home.bytes())})" for home in gone))


def _status(shown: Path, project: Path) -> Status:
    known = at_rest(shown)
    before = last_holder(home_of(shown) / "lock") if known else None
    # The commands in a summary are for the folder and the path that the runner was given.
    if known and before and (known.task, before.cwd) == (str(shown), str(project)) and not _changed(shown, project):
        return known
    from marathon.runner.status_query import status_of_task  # this reads the journal, for which it loads far more

    return with_reboot(shown, status_of_task(shown, project))


def _changed(shown: Path, project: Path) -> bool:
    """Whether a workflow was added, edited or removed since the summary was written."""
    written = (home_of(shown) / "summary.json").stat().st_mtime
    places = [place for place in (project / ".marathon", config_folder()) if place.is_dir()]
    paths = [path for place in places for path in (place, *place.glob("workflows/**/*"))]
    return any(path.lstat().st_mtime > written for path in paths)


def _in_folder(folder: Path) -> list[Path]:
    try:
        return tasks_below(folder)
    except OSError as error:
        raise WrongUsage(
            f"{folder} cannot be listed: {error.strerror}. Give the folder that holds the tasks."
        ) from error


def _from_here(task: Path) -> Path:
    """The path as one would type it in the project's folder."""
    here = Path.cwd()
    return task.relative_to(here) if task.is_relative_to(here) else task
