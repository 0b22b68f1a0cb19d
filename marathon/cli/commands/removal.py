"""Commands that take tasks away: clean, archive, rm. Each lists first what goes, and asks."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from marathon.cli.arguments import TASK
from marathon.cli.commands.gate import confirmed
from marathon.cli.find import TASKS, enter, project_root, tasks_of
from marathon.cli.overview import status_at
from marathon.cli.workplace import worktree_folder
from marathon.core.records import Gate
from marathon.core.text import clean as cleaned
from marathon.core.text import counted, one_line, size
from marathon.errors import MarathonError, TaskBusy, WrongUsage
from marathon.git.worktree import GitFailed, branch_of, git, remove_worktree, uncommitted
from marathon.store.files import disk_errors, refuse_link, sync_directory, unused_name
from marathon.store.gate_code import GateCodes
from marathon.store.home import Home, bytes_below
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of
from marathon.store.places import codes_folder, index_folder
from marathon.store.task import Task
from marathon.store.task_index import forget_task, known_tasks

FINISHED = ("completed", "cancelled")

TYPED = click.argument("typed", metavar="TASK", type=TASK)
YES = click.option("--yes", is_flag=True, help="Do not ask.")
DISCARD = click.option("--discard", is_flag=True, help="Also remove what is not committed in its worktree.")


@click.command("clean")
@click.option("--all", "everywhere", is_flag=True, help="Of every project on this machine.")
@click.option("--list", "only_list", is_flag=True, help="Only list what would go.")
@YES
@DISCARD
def clean(everywhere: bool, only_list: bool, yes: bool, discard: bool) -> None:
    """Remove what the runner kept and the worktrees of finished tasks. Their documents stay."""
    here = project_root(Path.cwd())
    projects = dict.fromkeys([here, *(each.project for each in known_tasks(index_folder()) if everywhere)])
    leaving = []
    for project in projects:
        for folder in tasks_of(project):
            real = os.path.realpath(folder) == str(folder)  # no link leads us out of the project
            if real and status_at(folder, project).condition in FINISHED:
                parts = _Leaving(Task(folder), project, discard)
                _refuse_running(parts.task, "clean")
                try:
                    parts.add_outside()
                except WrongUsage as error:  # its worktree holds work
                    click.echo(f"Skipped: {cleaned(str(error))}", err=True)
                    continue
                leaving += [parts] if parts.paths else []
    if not leaving:
        click.echo("Nothing to clean: no finished task has runner data or a worktree.")
        return
    if only_list:
        click.echo(_list(leaving))
    elif _agreed("clean", leaving, "Remove this?", f"pi-marathon clean{' --all' if everywhere else ''} --yes", yes):
        for parts in leaving:
            parts.remove()
        click.echo(f"Cleaned {counted(len(leaving), 'task')}.")


@click.command("archive")
@TYPED
@YES
@DISCARD
def archive(typed: Path, yes: bool, discard: bool) -> None:
    """Move the directory of a finished TASK to docs/tasks/archive. Its worktree goes."""
    shown, task = _real(typed, "archive")
    parts = _Leaving(task, Path.cwd(), discard)
    condition = status_at(parts.task.folder, parts.project).condition
    if condition not in FINISHED:
        end = f"pi-marathon cancel {shlex.quote(str(shown))}"
        raise WrongUsage(f"{shown} is not finished ({condition}); nothing was changed. To end it first: {end}")
    place = parts.project / TASKS / "archive"
    refuse_link(place)
    target = unused_name(place / parts.task.folder.name)
    parts.add_worktree()
    move = f"Move {shown} to {target.relative_to(parts.project)}?"
    if _agreed("archive", [parts], move, f"pi-marathon archive {shlex.quote(str(shown))} --yes", yes):
        parts.remove()
        with disk_errors("move", parts.task.folder):
            place.mkdir(parents=True, exist_ok=True)
            os.rename(parts.task.folder, target)
            sync_directory(place)
        parts.task.home.move_to(target)
        forget_task(index_folder(), parts.task.folder)
        click.echo(f"Moved to {target.relative_to(parts.project)}.")


@click.command("rm")
@TYPED
@YES
@DISCARD
def rm(typed: Path, yes: bool, discard: bool) -> None:
    """Remove TASK with all its files, its record, and its worktree. Of a folder that is gone, the record."""
    if not os.path.lexists(typed) and (home := Home(Path.cwd() / typed)).exists():
        return _rm_record(home, yes)
    shown, task = _real(typed, "rm")
    parts = _Leaving(task, Path.cwd(), discard)
    parts.add("the task with all its files", parts.task.folder)
    parts.add_outside()
    if _agreed("rm", [parts], f"Remove {shown} for good?", f"pi-marathon rm {shlex.quote(str(shown))} --yes", yes):
        parts.remove()
        forget_task(index_folder(), parts.task.folder)
        click.echo(f"Removed {shown}.")


def _rm_record(home: Home, yes: bool) -> None:
    """What is left of a task whose folder is gone."""
    if holder := holder_of(home.lock):
        raise TaskBusy(f"{home.task.name} is running ({holder}); nothing was changed.")
    click.echo(f"This goes:\n  {home.folder}  (the record of {cleaned(str(home.task))}, {size(home.bytes())})")
    if yes or confirmed("Remove it for good?", f"pi-marathon rm {shlex.quote(str(home.task))} --yes"):
        home.forget()
        forget_task(index_folder(), home.task)
        click.echo("Removed.")


def _real(typed: Path, command: str) -> tuple[Path, Task]:
    """The task itself, at rest. What a link leads to goes only under its own name."""
    link = typed.is_symlink()
    shown = enter(typed)
    task = Task.look(shown)
    if typed != task.folder and (link or not task.folder.is_relative_to(Path.cwd())):
        raise WrongUsage(f"{typed} leads elsewhere. If you mean the task there, name it: {task.folder}")
    _refuse_running(task, command)
    return shown, task


def _refuse_running(task: Task, command: str) -> None:
    if holder := holder_of(task.lock_path):
        name = task.folder.name
        raise TaskBusy(f"{name} is running ({holder}); nothing was changed. Stop it first: pi-marathon stop {name}")


@dataclass
class _Leaving:
    """What goes with one task."""

    task: Task
    project: Path
    discard: bool
    paths: list[Path] = field(default_factory=list)
    worktree: Path | None = None
    goes: list[str] = field(default_factory=list)  # the same for the human to read
    stays: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)  # of gates, whose codes go

    def add(self, what: str, path: Path) -> None:
        if os.path.lexists(path):
            self.paths.append(path)
            self.goes.append(f"  {path}  ({what}, {size(bytes_below(path))})")

    def add_outside(self) -> None:
        """What is kept outside of the project for a task whose journal goes, and what may be a human's work."""
        undone = sorted(self.task.own.glob("runs/*/writes/*.patch*"))
        self.goes += [f"  {patch}  (the only copy of changes that were undone)" for patch in undone]
        self.add("what the runner kept", self.task.own)
        with contextlib.suppress(MarathonError):  # a damaged journal is no reason to keep a task
            gates = [record for record in read_journal(self.task.journal_path) if isinstance(record, Gate)]
            self.tokens = [gate.token for gate in gates if gate.token]
        self.add_worktree()

    def add_worktree(self) -> None:
        folder = worktree_folder(self.task.folder)
        if not folder.is_dir():
            return
        try:
            branch, lost = branch_of(folder), uncommitted(folder)
            if not branch and not git(folder, "for-each-ref", "--count=1", "--contains", "HEAD", "refs/heads"):
                lost.append(f"commits that are on no branch, up to {git(folder, 'rev-parse', '--short', 'HEAD')}")
        except MarathonError as error:
            branch, lost = "", [str(error)]
        if lost and not self.discard:
            raise WrongUsage(
                f"{self.task.folder.name} has work in its worktree that is not committed; nothing was removed. "
                f"See it: git -C {shlex.quote(str(folder))} status   To remove it too: add --discard"
            )
        self.worktree = folder
        self.add("its worktree", folder)
        self.goes += [f"  not committed: {one_line(line, 120)}" for line in lost]
        if branch:
            self.stays.append(f"The branch {branch} stays. Once it is merged: git branch -d {shlex.quote(branch)}")

    def remove(self) -> None:
        if self.worktree:
            with contextlib.suppress(GitFailed):
                remove_worktree(self.worktree)
            shutil.rmtree(self.worktree, ignore_errors=True)  # of a repository that is gone
        for path in self.paths:
            if path != self.worktree:
                with disk_errors("remove", path):
                    away = unused_name(path.with_name(f".removed-{path.name}"))
                    os.rename(path, away)  # so that a crash leaves a whole task or none
                    away.unlink() if away.is_symlink() else shutil.rmtree(away)
        if self.task.own in self.paths:
            self.task.home.hide()
        for token in self.tokens:
            GateCodes(codes_folder()).forget(token)


def _agreed(command: str, leaving: Sequence[_Leaving], question: str, with_yes: str, yes: bool) -> bool:
    """Lists what goes, and asks. A runner may have started while the human thought about it."""
    if any(parts.goes for parts in leaving):
        click.echo(_list(leaving))
    if not (yes or confirmed(question, with_yes)):
        return False
    for parts in leaving:
        _refuse_running(parts.task, command)
    return True


def _list(leaving: Sequence[_Leaving]) -> str:
    goes = [line for parts in leaving for line in parts.goes]
    return "\n".join(map(cleaned, ["This goes:", *goes, *(line for parts in leaving for line in parts.stays)]))
