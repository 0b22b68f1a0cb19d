"""pi-marathon --task DIR: opens a marathon, runs it and reports how it ended."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from marathon.agents.table import find_agent
from marathon.cli.arguments import task_path
from marathon.cli.options import CommandLine, check_place, run_options
from marathon.cli.status_query import Facts, Known, course_for, here, sessions_in, status_of, summary_of
from marathon.core.courses.phases import Phases
from marathon.core.text import utc
from marathon.errors import MarathonError
from marathon.process.signals import Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.runner.loop import run
from marathon.runner.marathon import Marathon, utc_now
from marathon.runner.marathon import open as open_marathon
from marathon.runner.opening import check_workflow
from marathon.show.report import as_json, as_markdown
from marathon.show.screen import Screen
from marathon.store.file_store import FileStore
from marathon.store.journal import read_journal
from marathon.store.places import states_folder, trusted_folder
from marathon.store.task import Task
from marathon.surfaces.base import GateSurface
from marathon.surfaces.shell import ShellSurface
from marathon.surfaces.terminal import TerminalSurface


def run_task(line: CommandLine, project: Path | None = None) -> int:
    """The exit code of a marathon. Everything is refused before anything is changed."""
    with _told_as_json(line.as_json):
        return _run_task(line, project or here())


@contextlib.contextmanager
def _told_as_json(wanted: bool) -> Iterator[None]:
    """With --json an error is an object too; the sentence on stderr stays."""
    try:
        yield
    except MarathonError as error:
        if wanted:
            print(json.dumps({"exit": error.exit_code, "outcome": "error", "error": str(error)}), flush=True)
        raise


def _run_task(line: CommandLine, project: Path) -> int:
    shown = task_path(line.task or "")
    task = Task.open(shown)
    options = run_options(line, task, shown)
    agent = find_agent(line.agent, line.agent_args, line.mode)
    if not line.here:
        check_place(task, project)
    agent.check()
    records = read_journal(task.journal_path)
    course = course_for(records, project, line.workflow)
    if not records and isinstance(course, Phases):
        check_workflow(course)
    screen = Screen(
        sys.stderr if line.as_json else sys.stdout, live=on_terminal() and not line.as_json, notify=line.notify
    )
    with contextlib.ExitStack() as cleanup:
        signals = cleanup.enter_context(Signals())
        cleanup.callback(screen.close)
        attended = interactive() and not line.as_json
        surface: GateSurface = TerminalSurface(signals, task.own / "draft.md") if attended else ShellSurface(screen)
        store = FileStore(task, utc_now)
        opened = open_marathon(
            options,
            project,
            agent,
            surface,
            store,
            course,
            signals=signals,
            show=screen,
            states=states_folder(),
            trusted=trusted_folder(),
        )
        with opened as marathon:
            try:
                code = run(marathon)
                _report(marathon, code, json_wanted=line.as_json)
            finally:
                _leave_summary(marathon)
    return code


def _report(marathon: Marathon, code: int, *, json_wanted: bool) -> None:
    """summary.md of the run, and with --json one object. A marathon that ended well does not fail for their sake."""
    task, life = marathon.task, marathon.life
    sessions: Facts = ()
    records = []
    with contextlib.suppress(OSError, MarathonError):
        records = read_journal(task.journal_path)
        sessions = sessions_in(records, life.run)
    known = Known(task, marathon.shown, records, marathon.course, life)
    status = status_of(known, marathon.options.resume, sessions=sessions)
    with contextlib.suppress(OSError, MarathonError):
        task.runs.write_report(life.run, as_markdown(status, code, utc(marathon.clock())))
    if json_wanted:
        with contextlib.suppress(OSError):
            print(json.dumps(as_json(status, code), ensure_ascii=True), flush=True)


def _leave_summary(marathon: Marathon) -> None:
    """Only a convenience. A task that was removed, or a full disk, has more important things to report."""
    with contextlib.suppress(OSError, MarathonError):
        marathon.task.runs.write_summary(summary_of(marathon.life))
