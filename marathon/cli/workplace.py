"""Where the agent of a task works: in the project, or with --worktree in a git worktree on a branch of its own.

The task directory stays where the human has it, in the project. So there is one journal, one human.md and one gate.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

import click

from marathon.cli.options import CommandLine
from marathon.core.carried import INCLUDE, may_be_secret
from marathon.core.names import called, short_name
from marathon.core.records import Record, RunStarted, SessionStarted, WorktreeSet
from marathon.core.text import clean, counted, one_line
from marathon.errors import WrongUsage
from marathon.git.carry import Carried, carry, not_carried
from marathon.git.worktree import (
    GitFailed,
    add_worktree,
    branch_of,
    diffstat,
    has_branch,
    top_of,
    uncommitted,
)
from marathon.show.program import program
from marathon.store.files import make_private_directory
from marathon.store.places import states_folder, worktrees_folder
from marathon.store.task_index import tasks_at_work

IN_PROJECT = WorktreeSet(branch="", folder="")


def last_set(records: Sequence[Record]) -> WorktreeSet:
    """Where the task was told to work last."""
    return next((record for record in reversed(records) if isinstance(record, WorktreeSet)), IN_PROJECT)


def worktree_folder(task: Path) -> Path:
    """The place of a task's worktree. It lies outside of the project, whose tests and searches would find it inside."""
    return worktrees_folder() / f"{task.name}-{hashlib.sha256(os.fsencode(task)).hexdigest()[:8]}"


def worktree_for(asked: str | None, before: WorktreeSet, task: Path, project: Path) -> WorktreeSet:
    """The worktree that was asked for, or that the task has. It is made if it is not there."""
    if asked and before.branch not in ("", asked):
        raise WrongUsage(f"This task works on the branch {before.branch} and keeps it. Leave out --worktree.")
    if os.path.isdir(before.folder):
        _tell(f"The agent works on the branch {before.branch}, in {before.folder}.")
        return before
    top, folder = top_of(project), worktree_folder(task)
    branch = asked or before.branch or _usual_branch(top, folder, task.name)
    known = has_branch(top, branch)
    if asked is None and not known:
        raise WrongUsage(
            f"The worktree of this task, {before.folder}, is gone, and so is its branch {branch}. "
            f"To begin a new one at the last commit: add --worktree   To work in the project: add --here"
        )
    make_private_directory(folder.parent)
    below = add_worktree(project, folder, branch)
    carried = carry(project, folder)
    _tell(f"The agent works on the branch {branch}, in {below}.")
    _tell_of(carried, project, folder)
    return WorktreeSet(branch=branch, folder=str(below), copied=carried.copied)


def _tell_of(carried: Carried, project: Path, folder: Path) -> None:
    """What the worktree has, what in it may be a secret, and what would take long to make anew."""
    if carried.files:
        what = f"{counted(carried.files, 'file')} that {INCLUDE} names: {_few(carried.copied)}"
        _tell(f"It has what is committed, and {what}")
    else:
        others = f"Other files, such as .env or node_modules, are not copied. Name them in {INCLUDE}"
        _tell(f"It has what is committed. {others}")
    if secrets := [name for name in carried.copied if may_be_secret(name)]:
        _tell(f"The agent can read these, which may hold secrets: {_few(secrets)}")
    if carried.left:
        _tell(f"Not copied, because they are links that lead out, or no files: {_few(carried.left)}")
    for name, size in not_carried(project, folder):
        cure = f"To have it in new worktrees: echo {name} >> {INCLUDE}   To make it anew there: --setup CMD"
        _tell(f"{name} ({size / 1e6:,.0f} MB) is not copied. {cure}")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(one_line(name, 100) for name in names[:8]) + more


def _usual_branch(top: Path, folder: Path, task: str) -> str:
    """Of the worktree that a killed start has left, else a name that is free."""
    left = branch_of(folder) if (folder / ".git").exists() else ""
    names = chain((short_name(task), task), (f"{task}-{number}" for number in count(2)))
    return left or next(f"marathon/{name}" for name in names if not has_branch(top, f"marathon/{name}"))


def warn_of_others(folder: Path, task: Path) -> None:
    """Two agents in one working tree may change the same files."""
    for other in tasks_at_work(states_folder()):
        if other.folder == str(folder) and other.task != task:
            name = f"{one_line(other.task.name, 80)} (in {one_line(other.phase, 40)})"
            risk = "The two may change the same files. To work beside it, stop and start again with --worktree"
            _tell(f"pi-marathon: {name} works in {folder} too. {risk}")


def farewell(place: WorktreeSet, project: Path) -> tuple[list[str], bool]:
    """What a finished task left on its branch, and whether it can be merged. Nothing is merged or pushed here."""
    folder, quoted = Path(place.folder), shlex.quote(place.folder)
    try:
        branch, left = branch_of(folder), uncommitted(folder)
        lines = [f"The work is on the branch {place.branch}, in {place.folder}. Nothing was merged or pushed."]
        if branch != place.branch:
            lines.append(f"The agent left it on {branch or 'no branch'}. See: git -C {quoted} log --oneline -5")
        if left:
            lines.append(f"{counted(len(left), 'file is', 'files are')} not committed. See: git -C {quoted} status")
        stat = diffstat(project, place.branch)
        return [*lines, stat or "The branch has no commits of its own yet."], bool(stat)
    except GitFailed as error:
        return [f"The branch {place.branch} cannot be shown. {error}"], False


def what_next(line: CommandLine, shown: Path, branch: str) -> list[str]:
    """What a human may type after the end of a run."""
    there = line.resume_here.partition(" && ")[0] if line.resume_here.startswith("cd ") else ""
    task, name, typed = shlex.quote(str(shown)), shlex.quote(called(shown.parts)), program()
    rows = [("Look at it:", f"{typed} review {name}"), ("Have more done:", f'{typed} --task {task} -h "what else"')]
    rows += (
        [("Take it:", f"git merge {shlex.quote(branch)}"), ("Or propose it:", f"{typed} pr {name}")] if branch else []
    )
    first = [("First:", there)] if there else []
    return ["What to type next:", *(f"  {what:16}{command}" for what, command in (*first, *rows))]


def changes_since(records: Sequence[Record]) -> list[str]:
    """How to see all that this run changed in the project itself."""
    commit = ""
    for record in records:
        if isinstance(record, RunStarted):
            commit = ""
        elif isinstance(record, SessionStarted):
            commit = commit or record.commit
    return [f"The changes: git diff {commit[:10]}"] if commit else []


def _tell(text: str) -> None:
    click.echo(clean(text), err=True)
