"""Finds the project and the task that a human means, from wherever the human is. Completion loads this module."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from marathon.core.names import called, completions, is_whole_name, meant, similar
from marathon.errors import TaskInvalid, WrongUsage
from marathon.store.home import home_of, is_task
from marathon.store.lock import last_holder
from marathon.store.places import index_folder
from marathon.store.task_index import known_tasks

TASKS = Path("docs/tasks")
_OF_A_PROJECT = (TASKS, Path(".git"), Path(".marathon/config.toml"), Path(".marathon/workflows"))

WhenOmitted = Literal["latest", "gate", "running", "active"]
_WHEN = {"gate": "waits for an answer", "running": "runs now", "active": "runs or waits for an answer"}


def project_root(here: Path) -> Path:
    """The nearest folder from here upwards that looks like a project, else this one.

    A home folder is not found from below: dotfiles in git do not make all of it one project.
    """
    home = Path(os.path.realpath(Path.home()))
    for folder in (here, *here.parents):
        if folder != here and folder in (home, *home.parents):
            break
        if any((folder / mark).exists() for mark in _OF_A_PROJECT):
            return folder
    return here


def tasks_below(folder: Path) -> list[Path]:
    """The tasks in a folder, by name. OSError if the folder cannot be listed."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return [folder / name for name in names if is_task(folder / name)]


def tasks_of(project: Path, known: Sequence[Path] | None = None) -> list[Path]:
    """The tasks in docs/tasks, and those elsewhere that were made or started in this project: `known`."""
    if known is None:
        known = [each.task for each in known_tasks(index_folder()) if each.project == project]
    found = dict.fromkeys(tasks_below(project / TASKS) if (project / TASKS).is_dir() else [])
    return list(found | dict.fromkeys(task for task in known if task in found or is_task(task)))


def enter(typed: Path, *, here: bool = False) -> Path:
    """Make the project of a task the current folder, and return the task's path from there.

    `here` keeps the current folder.
    """
    now = Path.cwd()
    root = now if here else project_root(now)
    return _go(_find(typed, now, root), typed, now, now if here else None)


def enter_omitted(when: WhenOmitted) -> Path:
    """The same for a task that was not named: the one around us, or the only one that can be meant."""
    now = Path.cwd()
    root = project_root(now)
    tasks = tasks_of(root)
    inside = [folder for folder in (now, *now.parents) if folder.is_relative_to(root) and is_task(folder)]
    around = next((folder for folder in inside if folder != root or not tasks), None)
    taken = around or _only(when, tasks, root)
    if when != "latest":  # which changes nothing, and shows the task
        say_which(taken)
    return _go(taken, None, now)


def say_which(task: Path) -> None:
    """For a command that acts on a task that was not named."""
    click.echo(f"Task: {called(task.parts)}", err=True)


def is_named(word: str) -> bool:
    """Whether a word is a task's path or its whole name, so that it is hardly meant as a message."""
    now = Path.cwd()
    return is_task(now / word) or is_whole_name(word, [task.name for task in tasks_of(project_root(now))])


def is_task_here(word: str) -> bool:
    """Whether a word means a task of this project, by a path or a part of its name."""
    now = Path.cwd()
    root = project_root(now)
    return is_task(now / word) or is_task(root / word) or bool(meant(word, [task.name for task in tasks_of(root)]))


def offered(incomplete: str) -> list[str]:
    """Names of tasks for the shell's completion."""
    return completions(incomplete, [task.name for task in tasks_of(project_root(Path.cwd()))])


def _find(typed: Path, now: Path, root: Path) -> Path:
    """The path as typed if a task is there, else the task with this name. Two candidates are never guessed between."""
    if is_task(now / typed):
        return typed
    if is_task(root / typed):
        return root / typed
    if len(typed.parts) != 1 or typed.name == "..":
        return typed
    tasks = tasks_of(root)
    names = meant(str(typed), [task.name for task in tasks])
    found = [task for task in tasks if task.name in names]
    if len(found) > 1:
        raise WrongUsage(_several(f"{str(typed)!r} may mean any of these tasks. Name one of them:", found, root))
    if not found and not os.path.lexists(now / typed):
        if near := similar(str(typed), [task.name for task in tasks]):
            raise TaskInvalid(f"There is no task {str(typed)!r}. Did you mean {near}? To see all: pi-marathon list")
        known = [each for each in known_tasks(index_folder()) if is_task(each.task)]
        names = meant(str(typed), [each.task.name for each in known])
        if elsewhere := dict.fromkeys(each.project for each in known if each.task.name in names):
            there = "   ".join(f"cd {shlex.quote(str(project))}" for project in elsewhere)
            raise TaskInvalid(f"{str(typed)!r} is a task of another project. Go there first: {there}")
    return found[0] if found else typed


def _go(found: Path, typed: Path | None, now: Path, stay: Path | None = None) -> Path:
    folder = Path(os.path.realpath(now / found))
    project = stay or _project_of(folder, now)
    if project != now:
        os.chdir(project)
    if found == typed and (found.is_absolute() or project == now):
        return found
    return folder.relative_to(project) if folder.is_relative_to(project) else folder


def _project_of(task: Path, now: Path) -> Path:
    """The folder in which the agent of this task works: where it ran before, if we are in it, else the project's root.

    What stands in a task's files cannot lead out of the project.
    """
    root, before = project_root(now), last_holder(home_of(task) / "lock")
    if before and before.cwd and before.task == str(task):
        ran_in = Path(before.cwd)
        if now.is_relative_to(ran_in) and ran_in.is_relative_to(root):
            return ran_in
    return root


def _only(when: WhenOmitted, tasks: Sequence[Path], root: Path) -> Path:
    from marathon.cli.overview import last_change, overview

    if not tasks:
        raise WrongUsage(f"There are no tasks in {root}. Make one with: pi-marathon new")
    if when == "latest":
        latest = max(tasks, key=last_change)
        if len(tasks) > 1:
            click.echo(f"Task: {called(latest.parts)}, the latest of {len(tasks)}; all: pi-marathon list", err=True)
        return latest
    what = _WHEN[when]
    rows = [
        row
        for row in overview(tasks, root)
        if (when != "running" and row.waits_for_you) or (when != "gate" and row.status.runner)
    ]
    if not rows:
        raise WrongUsage(f"No task of {root} {what}. See: pi-marathon list")
    if len(rows) > 1:
        raise WrongUsage(_several(f"More than one task {what}. Name one of them:", [row.folder for row in rows], root))
    return rows[0].folder


def _several(sentence: str, tasks: Sequence[Path], root: Path) -> str:
    from marathon.cli.overview import overview
    from marathon.show.listing import table

    return "\n".join([sentence, *(f"  {line}" for line in table(overview(tasks, root)))])
