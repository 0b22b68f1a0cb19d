"""pi-marathon --task DIR: opens a marathon, runs it and reports how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from marathon.agents.table import Team, installed_instead
from marathon.cli.commands.install import renewed_skills
from marathon.cli.find import enter
from marathon.cli.options import CommandLine, as_started, check_place, phase_settings, run_options, workflow_of
from marathon.cli.overview import in_index
from marathon.cli.restart import Choice, ask, refuse
from marathon.cli.settings import notifications, project_settings
from marathon.cli.workplace import (
    IN_PROJECT,
    changes_since,
    farewell,
    last_set,
    warn_of_others,
    what_next,
    worktree_for,
)
from marathon.core.courses.base import Course
from marathon.core.courses.measured import MeasuredLoop
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import Phase
from marathon.core.events import Event, HumanNeeded, RunnerEnded, Sink
from marathon.core.gates import WAITS_FOR_HUMAN
from marathon.core.life import fold
from marathon.core.names import called, task_name
from marathon.core.records import Record
from marathon.core.restart import left_behind
from marathon.core.text import clean, one_line, utc
from marathon.errors import AgentUnavailable, MarathonError, NotAdopted, WrongUsage
from marathon.process.sandbox import problem, what_is_left
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.process.tree import look
from marathon.runner.background import detach
from marathon.runner.definition import Source
from marathon.runner.loop import COMPLETED, run
from marathon.runner.marathon import Marathon, RunOptions, utc_now
from marathon.runner.marathon import open as open_marathon
from marathon.runner.notify import Notifier, Ways
from marathon.runner.opening import check_workflow
from marathon.runner.status_query import Known, course_for, status_of
from marathon.runner.workbench import Workbench
from marathon.show.report import as_json, as_markdown
from marathon.show.screen import KEPT, LEAVE, STEERED, UNFOLD, Screen
from marathon.show.status import Status
from marathon.store.definitions import load_workflows, workflows_mark
from marathon.store.file_store import FileStore
from marathon.store.files import sweep_unfinished
from marathon.store.journal import read_journal
from marathon.store.lock import Held, holder_of
from marathon.store.places import (
    background_folder,
    claude_folder,
    codes_folder,
    index_folder,
    pi_folder,
    states_folder,
    trusted_folder,
    written_by_many,
)
from marathon.store.task import Task
from marathon.store.task_index import forget_task, remember_task
from marathon.surfaces.background import BackgroundSurface
from marathon.surfaces.base import GateSurface
from marathon.surfaces.shell import ShellSurface
from marathon.surfaces.terminal import TerminalSurface

_BY_SIGNAL = 128  # exit codes from here on
_WITHOUT_MODEL = ("command", "rehearsal")  # others are started once beforehand, which takes seconds


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
    if click.confirm(clean(unknown.question)):
        return run_task(replace(line, adopt=True), shown)
    if unknown.may_begin_anew and click.confirm("Begin anew? The record so far is kept aside."):
        kept = Task.look(shown).home.set_aside(f"{utc_now():%Y%m%d-%H%M%S}")
        click.echo(f"Kept as {kept}.")
        return run_task(line, shown)
    click.echo("Nothing was changed.")
    return unknown.exit_code


def _run_task(line: CommandLine, shown: Path, project: Path) -> int:
    task = Task.open(shown)
    if said := task.home.settle(shown, adopt=line.adopt):
        click.echo(clean(said), err=line.as_json)
    line = as_started(line, read_journal(task.journal_path))
    if line.detach:
        line = without_terminal(line)
    options = run_options(line, task, shown)
    team = Team(line.agent, line.agent_args, line.mode, phase_settings(line.settings))
    team.first  # noqa: B018 - an unknown agent is refused before anything else
    records = read_journal(task.journal_path)
    course = course_for(records, project, workflow_of(line, task, records))
    if isinstance(course, MeasuredLoop):
        raise WrongUsage(
            f"{shown} belongs to a measured loop. Type: pi-marathon loop run {task_name(task.folder.parts)}"
        )
    if not line.here:
        check_place(task, project)
    if not records and isinstance(course, Phases):
        check_workflow(course)
    # Said before an agent is looked for. The lease decides, and ends what a dead runner has left.
    if (holder := holder_of(task.lock_path)) and look(holder.pid):
        raise Held(shown, holder)
    if on_terminal() and not line.as_json and team.names[0] not in _WITHOUT_MODEL:
        print(f"Starting {team.names[0]}…", flush=True)
    phases = course.pinned(fold(records, course)).phases_of(course.workflow) if isinstance(course, Phases) else ()
    before = last_set(records)
    in_worktree = line.worktree is not None or bool(before.branch and not line.here)
    check_agents(team, line, phases, in_worktree=in_worktree)
    for agent, home in (("pi", pi_folder), ("claude", claude_folder)):
        if agent in team.names:
            for renewed in renewed_skills(home()):
                print(clean(renewed), file=sys.stderr)
    if options.feedback is not None and not line.yes and not holder_of(task.lock_path):
        question = left_behind(fold(records, course), course)
        match _restart(question, options.feedback, shown, may_ask=interactive() and not line.as_json):
            case "nothing":
                print("Nothing was changed.", flush=True)
                return WAITS_FOR_HUMAN
            case "tell":
                task.inbox.put("steer", text=options.feedback, later=True)
                options = replace(options, feedback=None)
    remember_task(index_folder(), task.folder, project)
    place = IN_PROJECT
    if in_worktree:
        place = worktree_for(line.worktree, before, task.folder, project)
    folder = Path(place.folder) if place.branch else project

    def begin(marathon: Marathon) -> None:
        if place is not before and (place.branch or before.branch):  # a new one, or one made anew
            marathon.record(replace(place, n=0, at=""))

    warn_of_others(folder, task.folder)
    code = conduct(line, replace(options, home=project), folder, team, course, begin=begin)
    if code == COMPLETED and not line.as_json and not line.detach:
        if place.branch:
            lies, merges = farewell(place, project)
        else:
            lies, merges = changes_since(read_journal(task.journal_path)), False
        with contextlib.suppress(OSError):  # who reads it may be gone, and the work is done
            click.echo("\n".join(map(clean, [*lies, *what_next(line, shown, place.branch if merges else "")])))
    return code


def check_agents(team: Team, line: CommandLine, phases: Iterable[Phase] = (), *, in_worktree: bool = False) -> None:
    """Refuse an agent that cannot work here, naming others that can."""
    phases = list(phases)
    if line.sandbox not in (None, "off"):
        _check_sandbox(line, [*team.names, *(phase.agent for phase in phases if phase.agent)])
    try:
        for doubt in team.check(phases, in_worktree=in_worktree):
            click.echo(doubt, err=True)
    except AgentUnavailable as error:
        name = team.names[0]
        started = f"This task was started with {name}." if line.goes_on_with_agent else ""
        raise AgentUnavailable(" ".join(filter(None, (str(error), started, installed_instead(name))))) from error


def _check_sandbox(line: CommandLine, names: Sequence[str]) -> None:
    started = "" if "sandbox" in line.typed else " This task was started with it. To go on without: --sandbox=off"
    if why := problem():
        raise AgentUnavailable(f"--sandbox: {why}{started}")
    asks = [name for name in names if name not in _WITHOUT_MODEL]
    if line.sandbox == "offline" and asks:
        raise WrongUsage(
            f"--sandbox=offline: {asks[0]} asks a model, and has no network then, not even this machine's own. "
            f"Use --sandbox, or an agent that asks none ({', '.join(_WITHOUT_MODEL)}).{started}"
        )
    unknown = next((name for name in names if name in ("acp", "command")), None)
    if unknown and not line.sandbox_write:
        click.echo(
            f"--sandbox: the program of --agent {unknown} may write the project and the task only. If it keeps its "
            "login or its sessions elsewhere: --sandbox-write PATH",
            err=True,
        )
    if left := what_is_left(line.mode == "tui" or (line.mode is None and on_terminal())):
        click.echo(f"--sandbox: {left} With --mode stream it has none.", err=True)


def without_terminal(line: CommandLine) -> CommandLine:
    """The command line of a marathon that starts in the background."""
    needs_one = {"--mode tui": line.mode == "tui" and "mode" in line.typed, "--answers-here": line.answers_here}
    needs_one["--json"] = line.as_json
    for option, given in needs_one.items():
        if given:
            raise WrongUsage(f"{option} needs a terminal or a reader, which --detach leaves. Leave out one of them.")
    return replace(line, mode="stream")


def conduct(
    line: CommandLine,
    options: RunOptions,
    project: Path,
    team: Team,
    course: Course,
    workbench: Workbench | None = None,
    begin: Callable[[Marathon], None] = lambda marathon: None,
    play: Callable[[Marathon], int] = run,
) -> int:
    """Open a marathon, run it to its end, and leave the reports. `begin` comes before the first step."""
    task, asked, home = options.task, not line.as_json, options.home or project
    hints = (*(STEERED if team.first.can_be_steered else KEPT), *(() if options.answers_here else (LEAVE,)), UNFOLD)
    out, live = sys.stdout if asked else sys.stderr, on_terminal() and asked
    screen = Screen(out, live=live, notify=line.notify, hints=hints)
    with contextlib.ExitStack() as cleanup:
        signals = cleanup.enter_context(Signals())
        cleanup.callback(screen.close)
        sweep_unfinished((*written_by_many(), task.inbox.folder), time.time())
        notifier = Notifier(notifications() if line.notify else Ways())
        at_terminal = interactive() and asked and not line.detach

        def show(event: Event) -> None:
            screen(event)
            notifier(event)

        def leave_screen() -> Sink:
            screen.close()
            return notifier

        surface: GateSurface = ShellSurface(screen, tells_code=not _prints_into(task.output_log))
        if at_terminal:
            surface = TerminalSurface(signals, task.own / "draft.md")
        opened = open_marathon(
            options,
            project,
            team.first,
            surface,
            FileStore(task, utc_now, adopt=line.adopt),
            course,
            signals=signals,
            show=show,
            leave_screen=leave_screen,
            states=states_folder(),
            trusted=trusted_folder(),
            codes=codes_folder(),
            workflows=Source(
                load=lambda: load_workflows(home),
                mark=lambda: workflows_mark(home),
                chosen_by_project=line.workflow_by_file and "workflow" in project_settings(str(home)),
            ),
            workbench=workbench,
            team=team,
        )
        code = 1
        with opened as marathon:
            notifier.tell = marathon.tell
            ended = RunnerEnded(1, "Something went wrong inside.")
            forget_task(background_folder(), task.folder)  # a human has it at a terminal now, or detaches again
            try:
                begin(marathon)
                if line.detach:
                    detach(marathon)
                code = play(marathon)
                ended = RunnerEnded(code)
                status = _status(marathon)
                try:
                    report = as_markdown(status, code, utc(marathon.clock()))
                    task.runs.write_report(status.run, report)
                    if line.summary:
                        task.runs.write_report_to(line.summary, report)
                except (OSError, MarathonError) as error:
                    if line.summary:
                        marathon.tell(f"The summary was not written. {error}", "warning")
                if line.as_json:
                    with contextlib.suppress(OSError):
                        loop = workbench.facts() if workbench else {}
                        print(json.dumps({**as_json(status, code), **loop}), flush=True)
            except MarathonError as error:
                ended = RunnerEnded(error.exit_code, str(error))
                raise
            finally:
                if ended.error and isinstance(marathon.surface, BackgroundSurface):
                    name, why = called(marathon.shown.parts), one_line(ended.error, 300)
                    marathon.emit(HumanNeeded(f"{name} has stopped: {why}"))
                if ended.code < _BY_SIGNAL:  # a shutdown sends signals, and after it the service goes on
                    forget_task(background_folder(), task.folder)
                with contextlib.suppress(MarathonError):
                    marathon.emit(ended)
                # For `status` and `list`. A removed task or a full disk has more important things to report.
                with contextlib.suppress(OSError, MarathonError):
                    by_signal = code in (128 + signal.SIGHUP, 128 + signal.SIGTERM)  # as at a shutdown
                    status = _status(marathon)
                    task.runs.write_summary(status.as_json(), "" if by_signal else marathon.runner)
                    if workbench is None:
                        remember_task(index_folder(), task.folder, home, in_index(status, task.runs.journal_size()))
    return code


def _prints_into(log: Path) -> bool:
    """A log among our own files is to hold no code. Who keeps it tells the human."""
    try:
        return os.path.samestat(os.fstat(1), os.stat(log))
    except OSError:
        return False


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
    known = Known(marathon.task, marathon.shown, marathon.project, records, marathon.course, marathon.life)
    return status_of(known, marathon.options.resume)
