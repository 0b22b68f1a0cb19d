"""pi-marathon check: what is true of a task's success criteria now."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from marathon.cli.arguments import task_path
from marathon.cli.directory import TASK_DIRECTORY
from marathon.cli.in_session import refuse_inside_a_session
from marathon.core.criteria import in_full
from marathon.core.events import Sink
from marathon.core.life import fold
from marathon.core.records import CheckResult, CriteriaFound
from marathon.core.text import one_line
from marathon.errors import MarathonError, TaskInvalid
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.runner.checks import Checks
from marathon.runner.verify import check_environment, found_criteria, remember, verdicts_in
from marathon.show.screen import Screen
from marathon.store.journal import read_journal
from marathon.store.task import Task
from marathon.store.trusted import Trusted, trusted_folder

NOT_MET, WAITS_FOR_HUMAN = 1, 3


class NotAgreed(MarathonError):
    exit_code = WAITS_FOR_HUMAN


@click.command("check")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--trust", is_flag=True, help="Agree to the commands as they are now, without being asked.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.pass_context
def command(ctx: click.Context, directory: str, trust: bool, as_json: bool) -> None:
    """Run the checks of a task as the runner does before it believes that it is done.

    Exit 0: every criterion is met; 1: not; 3: nobody agreed to the commands yet. Changes nothing in the task.
    """
    shown = task_path(directory)
    task, project = Task.look(shown), Path.cwd()
    refuse_inside_a_session(task, "check")
    agreed = Trusted(trusted_folder(os.environ))
    found = found_criteria(task, project, fold(read_journal(task.journal_path)).agreed, agreed)
    if found.problem:
        raise TaskInvalid(f"The success criteria of {shown} cannot be read: {found.problem}. Mend the file.")
    if not found.criteria:
        raise TaskInvalid(f"{shown} names no success criteria. Add a list '## Success Criteria' to instructions.md.")
    for name in found.lost:
        click.echo(f"It was a criterion before and is not there, or not the same, any more: {one_line(name)}", err=True)
    _make_sure(found, agreed, project, trust=trust, may_ask=interactive() and not as_json)
    screen = Screen(sys.stderr if as_json else sys.stdout, live=on_terminal() and not as_json, notify=False)
    logs = Path(tempfile.mkdtemp(prefix="pi-marathon-check-"))
    results = _run(task, project, found, logs, screen)
    screen.close()
    _tell(results, logs, as_json=as_json)
    ctx.exit(0 if all(result.met for result in results) else NOT_MET)


def _make_sure(found: CriteriaFound, agreed: Trusted, project: Path, *, trust: bool, may_ask: bool) -> None:
    """Only what a human agreed to is run."""
    commands = [each for each in found.criteria if each.command]
    if not commands or agreed.has(found.digest):
        return
    if not trust:
        listed = "\n".join(f"  {in_full(each)}" for each in commands)
        if not may_ask:
            raise NotAgreed(f"Nobody agreed to these commands yet; nothing was run:\n{listed}\nIf you do: add --trust.")
        click.echo(f"These commands out of the task's files will be run here:\n{listed}")
        if not click.confirm("Run exactly these, now and whenever the task is checked?", default=False):
            raise NotAgreed("Nothing was run.")
    remember(agreed, found, project)


def _run(task: Task, project: Path, found: CriteriaFound, logs: Path, emit: Sink) -> list[CheckResult]:
    with Signals() as signals:
        checks = Checks(project, logs, check_environment(task, f"check-{os.getpid()}"), signals, emit)
        try:
            return checks.run(found.criteria, verdicts_in(task)) or []
        except Interrupted as end:
            raise click.exceptions.Exit(128 + end.signum) from end


def _tell(results: list[CheckResult], logs: Path, *, as_json: bool) -> None:
    met = sum(result.met for result in results)
    if as_json:
        facts: dict[str, Any] = {"met": met == len(results), "results": [asdict(each) for each in results]}
        click.echo(json.dumps({**facts, "logs": str(logs)}))
        return
    for result in results:
        if not result.met and result.tail:
            click.echo(
                f"\n{one_line(result.name, 120)}:\n" + "\n".join(f"  {line}" for line in result.tail.splitlines())
            )
    click.echo(f"\n{met} of {len(results)} criteria are met. The whole output: {logs}")
