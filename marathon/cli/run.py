"""pi-marathon --task DIR: opens a marathon, runs it and reports how it ended."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from marathon.agents.base import Agent
from marathon.agents.table import find_agent
from marathon.cli.find import enter
from marathon.cli.options import CommandLine, check_place, run_options, workflow_of
from marathon.cli.restart import Choice, ask, give_feedback, refuse
from marathon.cli.settings import project_settings
from marathon.cli.status_query import Known, course_for, status_of
from marathon.core.courses.base import Course
from marathon.core.courses.measured import MeasuredLoop
from marathon.core.courses.phases import Phases
from marathon.core.gates import WAITS_FOR_HUMAN
from marathon.core.life import fold
from marathon.core.records import Record
from marathon.core.restart import left_behind
from marathon.core.text import clean, utc
from marathon.errors import MarathonError, NotAdopted, WrongUsage
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.runner.definition import Source
from marathon.runner.loop import run
from marathon.runner.marathon import Marathon, RunOptions, utc_now
from marathon.runner.marathon import open as open_marathon
from marathon.runner.opening import check_workflow
from marathon.runner.workbench import Workbench
from marathon.show.report import as_json, as_markdown
from marathon.show.screen import Screen
from marathon.show.status import Status
from marathon.store.definitions import load_workflows, workflows_mark
from marathon.store.file_store import FileStore
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of
from marathon.store.places import codes_folder, index_folder, states_folder, trusted_folder
from marathon.store.task import Task
from marathon.store.task_index import remember_task
from marathon.surfaces.base import GateSurface
from marathon.surfaces.shell import ShellSurface
from marathon.surfaces.terminal import TerminalSurface


def run_task(line: CommandLine, shown: Path) -> int:
    """The exit code of a marathon. Everything is refused before anything is changed."""
    try:
        started_in, shown = Path.cwd(), enter(shown, here=line.here)
        project = Path.cwd()
        if project != started_in:
            print(f"The agent works in the project, {project}. To work where you are: add --here", file=sys.stderr)
        return _run_task(replace(line, task=shown), shown, project)
    except MarathonError as error:
        if isinstance(error, NotAdopted) and interactive() and not line.as_json:
            return _ask_to_adopt(line, shown, error)
        if line.as_json:  # an object for programs, beside the sentence on stderr
            print(json.dumps({"exit": error.exit_code, "outcome": "error", "error": str(error)}), flush=True)
        raise


def _ask_to_adopt(line: CommandLine, shown: Path, unknown: NotAdopted) -> int:
    click.echo(clean(str(unknown)))
    if click.confirm("Continue with the task as it stands?"):
        return run_task(replace(line, adopt=True), shown)
    click.echo("Nothing was changed.")
    return unknown.exit_code


def _run_task(line: CommandLine, shown: Path, project: Path) -> int:
    task = Task.open(shown)
    options = run_options(line, task, shown)
    agent = find_agent(line.agent, line.agent_args, line.mode)
    records = read_journal(task.journal_path)
    course = course_for(records, project, workflow_of(line, task, records))
    if isinstance(course, MeasuredLoop):
        name = "/".join(task.folder.parts[-3:-1])
        raise WrongUsage(f"{shown} belongs to a measured loop. Type: pi-marathon loop run {name}")
    if not line.here:
        check_place(task, project)
    agent.check()
    if not records and isinstance(course, Phases):
        check_workflow(course)
    if options.feedback is not None and not line.yes and not holder_of(task.lock_path):
        question = left_behind(fold(records, course), course)
        match _restart(question, options.feedback, shown, may_ask=interactive() and not line.as_json):
            case "nothing":
                print("Nothing was changed.", flush=True)
                return WAITS_FOR_HUMAN
            case "feedback":
                give_feedback(task, options.feedback)
                options = replace(options, feedback=None)
    remember_task(index_folder(), task.folder, project)
    return conduct(line, options, project, agent, course)


def conduct(
    line: CommandLine,
    options: RunOptions,
    project: Path,
    agent: Agent,
    course: Course,
    workbench: Workbench | None = None,
    begin: Callable[[Marathon], None] = lambda marathon: None,
) -> int:
    """Open a marathon, run it to its end, and leave the reports. `begin` comes before the first step."""
    task, asked = options.task, not line.as_json
    screen = Screen(sys.stdout if asked else sys.stderr, live=on_terminal() and asked, notify=line.notify)
    with contextlib.ExitStack() as cleanup:
        signals = cleanup.enter_context(Signals())
        cleanup.callback(screen.close)
        at_terminal = interactive() and asked
        surface: GateSurface = TerminalSurface(signals, task.own / "draft.md") if at_terminal else ShellSurface(screen)
        opened = open_marathon(
            options,
            project,
            agent,
            surface,
            FileStore(task, utc_now, adopt=line.adopt),
            course,
            signals=signals,
            show=screen,
            states=states_folder(),
            trusted=trusted_folder(),
            codes=codes_folder(),
            workflows=Source(
                load=lambda: load_workflows(project),
                mark=lambda: workflows_mark(project),
                chosen_by_project=line.workflow_by_file and "workflow" in project_settings(str(project)),
            ),
            workbench=workbench,
        )
        with opened as marathon:
            try:
                begin(marathon)
                code = run(marathon)
                status = _status(marathon)
                with contextlib.suppress(OSError, MarathonError):
                    report = as_markdown(status, code, utc(marathon.clock()))
                    task.runs.write_report(status.run, report)
                if line.as_json:
                    with contextlib.suppress(OSError):
                        print(json.dumps(as_json(status, code)), flush=True)
            finally:
                # For `status` and `list`. A removed task or a full disk has more important things to report.
                with contextlib.suppress(OSError, MarathonError):
                    task.runs.write_summary(_status(marathon).as_json())
    return code


def _restart(question: str, feedback: str, shown: Path, *, may_ask: bool) -> Choice:
    """What -h is to do to a task whose work is not finished."""
    if not question:
        return "restart"
    if not may_ask:
        refuse(question, shown)
    with Signals() as signals:
        try:
            return ask(question, feedback, signals)
        except EOFError:
            return "nothing"
        except Interrupted as end:
            raise SystemExit(128 + end.signum) from end


def _status(marathon: Marathon) -> Status:
    records: list[Record] = []
    with contextlib.suppress(OSError, MarathonError):
        records = read_journal(marathon.task.journal_path)
    known = Known(marathon.task, marathon.shown, records, marathon.course, marathon.life)
    return status_of(known, marathon.options.resume)
