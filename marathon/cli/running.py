"""Finds a marathon that runs on this machine, in whatever project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from marathon.cli.find import enter, project_root, tasks_of
from marathon.core.names import meant, task_name
from marathon.errors import WrongUsage
from marathon.show.program import program
from marathon.store.agent_channel import channel_of
from marathon.store.home import home_of, is_task
from marathon.store.lock import Holder, holder_of
from marathon.store.places import index_folder, states_folder
from marathon.store.task import Task
from marathon.store.task_index import known_tasks


class Running(NamedTuple):
    """A task with its runner, and the task's path from the folder in which the runner works."""

    shown: Path
    project: Path
    holder: Holder


def running() -> list[Running]:
    """Every marathon that runs now: in this project, among the known tasks, and by the runners' state files."""
    here = project_root(Path.cwd())
    folders = dict.fromkeys([*tasks_of(here), *(known.task for known in known_tasks(index_folder())), *_by_state()])
    return [found for folder in folders if (found := _look(folder))]


def enter_running(typed: Path | None, *, anywhere: bool = True) -> Running:
    """The marathon that is meant. Its project becomes the current folder. Without a name it may be `anywhere`."""
    found = _meant(typed) if typed else running()
    if not typed:
        here = [each for each in found if each.project == project_root(Path.cwd())]
        found = found if anywhere and not here else here
    if len(found) > 1:
        listed = "\n".join(f"  {each.project / each.shown}" for each in found)
        raise WrongUsage(f"More than one marathon runs. Name one of them:\n{listed}")
    if not found and typed:
        task = Task.look(shown := enter(typed))
        from marathon.runner.status_query import resume_command  # this loads far more

        resume = resume_command(task, shown, Path.cwd())
        raise WrongUsage(f"No marathon runs on {shown}. To start it: {resume}")
    if not found:
        where = "on this machine" if anywhere else "in this project"
        raise WrongUsage(f"No marathon runs {where}. To start one: {program()} --task TASK")
    os.chdir(found[0].project)
    return found[0]


def _look(folder: Path) -> Running | None:
    holder = holder_of(home_of(folder) / "lock")
    if holder is None:
        return None
    project = Path(holder.cwd) if os.path.isdir(holder.cwd) else project_root(folder)
    return Running(folder.relative_to(project) if folder.is_relative_to(project) else folder, project, holder)


def _meant(typed: Path) -> list[Running]:
    """By its path, or by a part of its name."""
    now = Path.cwd()
    for folder in (now / typed, project_root(now) / typed):
        if is_task(folder) and (found := _look(Path(os.path.realpath(folder)))):
            return [found]
    every = running()
    names = meant(str(typed), [task_name(each.shown.parts) for each in every])
    return [each for each in every if task_name(each.shown.parts) in names]


def _by_state() -> Iterator[Path]:
    for path in states_folder().glob("*.json"):
        channel = channel_of(path.parent, path.stem)
        if channel and os.path.isdir(task := channel.read().get("taskDir") or ""):
            yield Path(task)
