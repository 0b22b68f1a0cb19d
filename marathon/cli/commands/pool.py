"""pi-marathon run: one task runs here. Several are ordinary runners without a terminal.

Of several, a task that waits for the human gives its place to the next one. It comes back when it is answered from
another shell.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from marathon.cli.arguments import TASK, RunnerCommandForAgent, with_values
from marathon.cli.find import enter, project_root, tasks_of
from marathon.cli.human import typed_by_a_human
from marathon.cli.main import cli, run_line
from marathon.cli.overview import overview, status_at
from marathon.core.criteria import digest, in_full, in_lines
from marathon.core.names import short_name
from marathon.core.records import Answer, CriteriaFound, Gate
from marathon.core.text import clean, duration, one_line, utc
from marathon.errors import WrongUsage
from marathon.process.signals import ENDING, Signals
from marathon.process.terminal import interactive
from marathon.runner.marathon import utc_now
from marathon.runner.status_query import read_task
from marathon.runner.verdicts import open_gate, send
from marathon.runner.verify import found_criteria, remember
from marathon.show.listing import OVER, Row, aligned, money, table
from marathon.show.program import program
from marathon.show.status import Status
from marathon.store.files import PRIVATE_FILE, make_private_directory, opened
from marathon.store.gate_code import GateCodes
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of
from marathon.store.places import codes_folder, trusted_folder
from marathon.store.task import Task
from marathon.store.trusted import Trusted

# The options that are for one task, here. All others are given to each of several.
_FOR_ONE = ("human", "detach", "as_json", "answers_here", "yes", "summary", "here")
_TELLING = (1, 7, 2, 6, 5, 4, 3, 0)  # which exit code of several is told: the first of these; a killed runner: 1
_EVERY = 0.2  # seconds between two looks


@dataclass
class Entry:
    """One task of the pool."""

    task: Task
    shown: Path
    project: Path
    runner: subprocess.Popen[bytes] | None = None
    code: int | None = None
    messages: Sequence[str] = ()  # those in its inbox that were looked at since its runner ended

    @property
    def name(self) -> str:
        return short_name(self.task.folder.name)

    @property
    def log(self) -> Path:
        """Outside of the project, because an agent need not read what the human is told."""
        return self.task.output_log

    def row(self) -> Row:
        return Row(self.task.folder, self.project, status_at(self.task.folder, self.project), 0)


class RunCommand(RunnerCommandForAgent):
    """Keeps the options as they were typed, for each of several runners."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before = with_values(args[: args.index("--")] if "--" in args else args, self.params)
        typed = self.make_parser(ctx).parse_args(before)[0]
        shared = [each for each in cli.params if isinstance(each, click.Option) and each.name not in _FOR_ONE]
        ctx.meta["for each"] = [
            word for each in shared if each.name in typed for word in _typed(each, typed[each.name])
        ]
        return super().parse_args(ctx, args)


def _typed(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [(option.opts if value else option.secondary_opts)[0]]
    return [f"{option.opts[0]}={each}" for each in (value if option.multiple else [value])]


@click.command(
    "run",
    cls=RunCommand,
    context_settings=cli.context_settings,
    params=[each for each in cli.params if each.name not in ("task", "version")],
    epilog="All options: pi-marathon --help --all   "
    "Exit code of several: the first of 1, 7, 2, 6, 5, 4, 3 that a task ended with, else 0; 130 after Ctrl+C.",
)
@click.argument("tasks", nargs=-1, type=TASK, metavar="[TASK]...")
@click.option("--parallel", type=click.IntRange(min=1), default=1, metavar="N", help="Of several, N at a time.")
@click.option("--after-reboot", is_flag=True, hidden=True, help="Resume what ran in the background.")
@click.pass_context
def run(ctx: click.Context, /, tasks: Sequence[Path], parallel: int, after_reboot: bool, **options: Any) -> None:
    """Run TASK here, as --task does; -d in the background. Without TASK it asks for one.

    Several tasks run without a terminal, --parallel of them at a time. One that waits for you gives its place to the
    next, and comes back when you answer it from another shell. The command ends when every task is completed or waits
    for you. Ctrl+C stops all of them; nothing is lost.
    """
    if after_reboot:
        from marathon.cli.commands.service import resume_all

        resume_all()
    elif len(tasks) > 1:
        for each in (each for each in cli.params if each.name in _FOR_ONE):
            if ctx.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE:
                raise WrongUsage(f"{each.opts[-1]} is for one task. Leave it out, or name one task.")
        if options["worktree"]:
            raise WrongUsage("Several tasks cannot share a branch. Give each its own: --worktree")
        ctx.exit(_run_all(tasks, parallel, ctx.meta, trust=options["trust"], apart=options["worktree"] is not None))
    else:
        run_line(ctx, {**options, "task": tasks[0] if tasks else _asked_for()})


def _asked_for() -> Path:
    """The task that a human chooses of those that can go on."""
    here = project_root(Path.cwd())
    rows = [row for row in overview(tasks_of(here), here) if row.status.condition not in OVER and not row.status.runner]
    if not rows:
        raise WrongUsage(f"No task of {here} can be run. Make one with: pi-marathon new")
    listed = "\n".join(f"  {line}" for line in table(rows))
    if not interactive():
        raise WrongUsage(f"Name the task to run:\n{listed}")
    click.echo(listed)
    if len(rows) == 1:
        click.confirm("Run it?", default=True, abort=True)
        return rows[0].folder
    return Path(click.prompt("Run which one? (a part of its name)"))


def _run_all(tasks: Sequence[Path], parallel: int, meta: dict[str, Any], *, trust: bool, apart: bool) -> int:
    entries = _entries(tasks)
    if parallel > 1 and not apart:
        _warn_of_sharing(entries)
    if not trust and typed_by_a_human():
        _agree_once(entries)
    words = [*meta["for each"], *(["--", *meta["agent_args"]] if "agent_args" in meta else [])]
    with Signals(ENDING) as signals:
        pool = Pool(entries, parallel, words, signals)
        ended_by = pool.run()
    rows = [entry.row() for entry in entries]
    click.echo("\n" + "\n".join(_table(rows, pool.codes)))
    if not all(row.status.condition == "completed" for row in rows):
        again = "After your answers, " if any(row.waits_for_you for row in rows) else "To "
        click.echo(f"{again}continue with:\n  {program()} {shlex.join(sys.argv[1:])}")
    codes = [0 if row.status.condition == "completed" else entry.code for entry, row in zip(entries, rows, strict=True)]
    worst = min((code if code in _TELLING else 1 for code in codes), key=_TELLING.index)
    return 128 + ended_by if ended_by else worst


def _entries(tasks: Sequence[Path]) -> list[Entry]:
    """Every task with its project. One that cannot be run is refused before any of them starts."""
    start, found = Path.cwd(), {}
    for typed in tasks:
        shown = enter(typed)
        entry = Entry(Task.open(shown), shown, Path.cwd())
        found[entry.task.folder] = entry
        os.chdir(start)
    return list(found.values())


def _agree_once(entries: Sequence[Entry]) -> None:
    """Ask for the commands of all tasks before anything starts, the same ones once. A no leaves it to the gates."""
    trusted, asked = Trusted(trusted_folder()), dict[str, list[tuple[Entry, CriteriaFound]]]()
    for entry in entries:
        life = read_task(entry.task.folder, entry.project).life
        found = found_criteria(entry.task, entry.project, life.agreed, trusted)
        if not (found.agreed or found.problem or found.lost or life.finished or life.cancelled):
            asked.setdefault(digest(found.criteria, str(entry.project), found.setup), []).append((entry, found))
    for same in asked.values():
        found, names = same[0][1], _and(entry.name for entry, _ in same)
        if found.setup:
            click.echo(f"This command will prepare a new worktree of {names}:\n{clean(f'  {in_lines(found.setup)}')}")
        if commands := [clean(f"  {in_full(each)}") for each in found.criteria if each.command]:
            click.echo("\n".join([f"These commands will check whether {names} is done:", *commands]))
        if click.confirm("Run exactly these?"):
            for entry, found in same:
                remember(trusted, found, entry.project)


def _and(names: Iterable[str]) -> str:
    *first, last = (one_line(name, 60) for name in names)
    return f"each of {', '.join(first)} and {last}" if first else last


def _warn_of_sharing(entries: Sequence[Entry]) -> None:
    shared = Counter(entry.project for entry in entries if not entry.row().status.branch)
    for project in (each for each, count in shared.items() if count > 1):
        risk = f"Several of these tasks work in {project} and may change the same files."
        click.echo(f"pi-marathon: {risk} To give each a branch of its own: --worktree", err=True)


@dataclass
class Pool:
    """The runners at work, the tasks that wait for a place, and those that have stopped."""

    entries: Sequence[Entry]
    places: int
    words: Sequence[str]  # for every runner
    signals: Signals
    since: str = field(default_factory=lambda: utc(utc_now()))
    codes: GateCodes = field(default_factory=lambda: GateCodes(codes_folder()))  # of gates whose runner has ended

    def run(self) -> int:
        """Returns 0 when nothing is left to do, or the number of the signal that ended it."""
        ended_by, queue = 0, deque(self.entries)
        try:
            while self._at_work() or (queue and not ended_by):
                while queue and len(self._at_work()) < self.places and not ended_by:
                    self._start(queue.popleft())
                select.select([self.signals.fd], [], [], _EVERY)
                for number in self.signals.take():
                    click.echo("Stopping. What is done is saved.")
                    self._stop(gently=number == signal.SIGINT and not ended_by)
                    ended_by = number
                queue += [entry for entry in self.entries if self._is_back(entry)]
        finally:  # also where no one reads what we say any more
            self._stop(gently=False)
        return ended_by

    def _at_work(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.runner]

    def _stop(self, *, gently: bool) -> None:
        """As `stop --now` does it, so that the task is at rest because a human said so. Else as a shutdown does."""
        for entry in self._at_work():
            holder = holder_of(entry.task.lock_path) if gently else None
            if holder:
                entry.task.inbox.put("stop", to=holder.runner, now=True)
            elif entry.runner:
                entry.runner.terminate()

    def _start(self, entry: Entry) -> None:
        make_private_directory(entry.task.own)
        ours = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]  # python with its options, up to the program
        with opened(entry.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, PRIVATE_FILE) as log:
            entry.runner = subprocess.Popen(
                [*ours, "--task", str(entry.shown), *self.words],
                cwd=entry.project,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl+C is for us; we pass it on
            )
        _tell(entry, f"started, pid {entry.runner.pid}")

    def _is_back(self, entry: Entry) -> bool:
        """Whether the gate at which a task has stopped is answered. Tells of a runner that has ended."""
        if entry.runner and entry.runner.poll() is not None:
            entry.code, entry.runner, entry.messages = entry.runner.returncode, None, []
            # Also one that came to its gate before another's yes was recorded.
            taken = [each for each in self.entries if not each.runner and each.code and self._takes_the_same_yes(each)]
            if entry not in taken:
                _tell(entry, _ending(entry, [each.row() for each in self.entries], self.codes))
        elif entry.code and (messages := [each.id for each in entry.task.inbox.messages()]) != entry.messages:
            entry.messages = messages
            if entry.row().status.condition == "ready":
                _tell(entry, "you answered")
                entry.code = None
                return True
        return False

    def _takes_the_same_yes(self, entry: Entry) -> bool:
        """Whether the human agreed to the same for another task of this pool, so that this one need not ask."""
        status = entry.row().status
        agreement = _agreement(status)
        if not agreement or not any(_agreed(each.task, agreement, self.since) for each in self.entries):
            return False
        known, gate = open_gate(entry.task.folder, entry.project, str((status.gate or {})["token"]))
        send(known, gate, Answer(choice="continue"), self.codes.printed(gate.token), agreement)
        return True


def _agreed(task: Task, agreement: str, since: str) -> bool:
    """Whether a human said yes to this at a gate of this task, as its runner recorded it."""
    gate: Gate | None = None
    for record in read_journal(task.journal_path):
        gate = record if isinstance(record, Gate) else gate
        yes = isinstance(record, Answer) and record.choice == "continue" and record.by != "auto" and record.at >= since
        if yes and gate and gate.agreement == agreement:
            return True
    return False


def _agreement(status: Status) -> str:
    """What a task waits for that others may ask for as well."""
    return str((status.gate or {}).get("agreement", ""))


def _tell(entry: Entry, text: str) -> None:
    click.echo(clean(f"{time.strftime('%H:%M:%S')}  {one_line(entry.name, 60)}: {text}"))
    sys.stdout.flush()


def _ending(entry: Entry, rows: Sequence[Row], codes: GateCodes) -> str:
    row = entry.row()
    if row.waits_for_you:
        together = _for_all([each for each in rows if _agreement(each.status) == _agreement(row.status)], codes)
        needs = _needs(row, codes)
        see = f"See and answer: {_see(row)}" + (f" ({needs})" if needs else "")
        return f"{one_line(row.state, 200).rstrip('.')}. {see}{together and f'. {together}'}"
    completed = row.status.condition == "completed"
    return "completed" if completed else f"ended with exit code {entry.code} ({row.state}). Its output: {entry.log}"


def _see(row: Row) -> str:
    """The command that shows what to read and the commands that answer."""
    return f"{program()} status {shlex.quote(short_name(row.name))}"


def _needs(row: Row, codes: GateCodes) -> str:
    """What an answer needs. The runner that opened the gate has ended, and its log tells no code."""
    token = (row.status.gate or {}).get("token")
    return f"the gate's code: {codes.printed(str(token))}" if token else ""


def _for_all(rows: Sequence[Row], codes: GateCodes) -> str:
    """One answer for tasks that wait for the same agreement."""
    agreement = _agreement(rows[0].status)
    if len(rows) < 2 or not agreement:
        return ""
    code = codes.printed(agreement)
    names = shlex.join(short_name(row.name) for row in rows)
    return f"To agree for all {len(rows)} at once: {program()} approve {names} --code {code}"


def _table(rows: Sequence[Row], codes: GateCodes) -> list[str]:
    cells, types = [], []
    for row in rows:
        status = row.status
        cells.append([short_name(row.name), row.state, money(status), duration(status.seconds)])
        merge = f"git merge {status.branch}" if status.branch else ""
        next_command = {"gate": _see(row), "completed": merge}.get(status.condition, status.resume)
        if needs := _needs(row, codes):
            next_command += f"   # {needs}"
        types += [f"  {next_command}"] if next_command else []
    for agreement in dict.fromkeys(filter(None, (_agreement(row.status) for row in rows))):
        together = _for_all([row for row in rows if _agreement(row.status) == agreement], codes)
        types += [f"  {together}"] if together else []
    lines = aligned(("Task", "State", "Cost", "Time"), cells)
    return [clean(line) for line in (*lines, *(["What to type:"] if types else []), *types)]
