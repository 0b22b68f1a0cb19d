"""pi-marathon check: runs the checks of a task, as the runner does before the task counts as done."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from marathon.cli.arguments import DIRECTORY
from marathon.core.completion import account, known_by
from marathon.core.criteria import in_full
from marathon.core.records import CriteriaFound
from marathon.core.text import one_line
from marathon.errors import MarathonError, TaskInvalid
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.runner.checks import Checks, check_environment
from marathon.runner.status_query import read_task
from marathon.runner.verify import found_criteria, remember, verdicts_in
from marathon.show.screen import Screen
from marathon.store.places import trusted_folder
from marathon.store.task import Task
from marathon.store.trusted import Trusted

NOT_MET, WAITS_FOR_HUMAN = 1, 3


class NotAgreed(MarathonError):
    exit_code = WAITS_FOR_HUMAN


@click.command("check")
@DIRECTORY
@click.option("--trust", is_flag=True, help="Agree to the commands as they are now, without being asked.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.pass_context
def check(ctx: click.Context, shown: Path, trust: bool, as_json: bool) -> None:
    """Run the checks of a task, as the runner does before the task counts as done.

    Exit 0: every criterion is met; 1: not; 3: no one agreed to the commands yet. Changes nothing in the task.
    """
    task, project = Task.look(shown), (home := Path.cwd())
    agreed = Trusted(trusted_folder())
    life = read_task(shown, project).life
    if life.worktree and os.path.isdir(life.worktree.folder):
        project = Path(life.worktree.folder)
    found = found_criteria(task, project, life.agreed, agreed, home)
    if found.problem:
        raise TaskInvalid(f"The success criteria of {shown} cannot be read: {found.problem}. Fix the file.")
    if not found.criteria:
        raise TaskInvalid(f"{shown} names no success criteria. Add a list '## Success Criteria' to instructions.md.")
    for name in found.lost:
        click.echo(f"This criterion was removed or changed: {one_line(name)}", err=True)
    if not agreed.has(found.digest) and any(each.command for each in found.criteria):
        if not trust:
            _ask(found, may_ask=interactive() and not as_json)
        remember(agreed, found, project)
    logs = Path(tempfile.mkdtemp(prefix="pi-marathon-check-"))
    screen = Screen(sys.stderr if as_json else sys.stdout, live=on_terminal() and not as_json, notify=False)
    with Signals() as signals:
        checks = Checks(project, logs, check_environment(task, f"check-{os.getpid()}"), signals, screen)
        try:
            results = checks.run(found.criteria, verdicts_in(task)) or []
        except Interrupted as end:
            raise click.exceptions.Exit(128 + end.signum) from end
    screen.close()
    met = sum(result.met for result in results)
    if as_json:
        found_out = [{**asdict(each), "known_by": known_by(each)} for each in results]
        facts = {"met": met == len(results), "results": found_out, "logs": str(logs)}
        click.echo(json.dumps(facts))
    else:
        for result in results:
            if not result.met and result.tail:
                tail = "\n".join(f"  {line}" for line in result.tail.splitlines())
                click.echo(f"\n{one_line(result.name, 120)}:\n{tail}")
        not_met = [f"{len(results) - met} not met"] if met < len(results) else []
        click.echo(f"\n{', '.join([*account(results), *not_met])}. The whole output: {logs}")
    ctx.exit(0 if met == len(results) else NOT_MET)


def _ask(found: CriteriaFound, *, may_ask: bool) -> None:
    """Only what a human agreed to is run."""
    joined = "\n".join(f"  {in_full(each)}" for each in found.criteria if each.command)
    if not may_ask:
        raise NotAgreed(f"No one agreed to these commands yet; nothing was run:\n{joined}\nIf you agree: add --trust.")
    click.echo(f"These commands from the task's files will be run here:\n{joined}")
    if not click.confirm("Run exactly these, now and whenever the task is checked?", default=False):
        raise NotAgreed("Nothing was run.")
