"""pi-marathon run A B C: keeps several marathons at work, each an ordinary runner without a terminal.

A task that stops at a gate gives its place to the next one. It comes back when its gate is answered from another shell.
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

from marathon.cli.arguments import TASK
from marathon.cli.find import enter
from marathon.cli.human import typed_by_a_human
from marathon.cli.main import cli
from marathon.cli.overview import status_at
from marathon.core.criteria import digest, in_full
from marathon.core.names import short_name
from marathon.core.records import Answer, CriteriaFound, Gate
from marathon.core.text import clean, duration, one_line, utc
from marathon.process.signals import ENDING, Signals
from marathon.runner.marathon import utc_now
from marathon.runner.status_query import read_task
from marathon.runner.verdicts import open_gate, send
from marathon.runner.verify import found_criteria, remember
from marathon.show.listing import Row, aligned, money
from marathon.show.program import program
from marathon.show.status import Status
from marathon.store.files import PRIVATE_FILE, make_private_directory, opened
from marathon.store.gate_code import GateCodes
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of
from marathon.store.places import codes_folder, trusted_folder
from marathon.store.task import Task
from marathon.store.trusted import Trusted

# The options of --task that are for every runner of the pool.
_FOR_EACH = (
    *("agent", "mode", "workflow", "oversight", "auto_approve", "trust", "adopt", "max_iterations", "max_time"),
    *("max_cost", "max_tokens", "reflect_every", "breakers", "session_timeout", "retries", "retry_wait"),
    *("outage", "keep_events", "notify", "settings", "sandbox", "sandbox_write"),
)
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


class RunCommand(click.Command):
    """Keeps the options as they were typed, and everything after a bare `--`, for the runners."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        args, rest = args[:at], args[at:]
        typed = self.make_parser(ctx).parse_args(list(args))[0]
        shared = [each for each in self.params if isinstance(each, click.Option) and each.name in _FOR_EACH]
        words = [word for each in shared if each.name in typed for word in _as_typed(each, typed[each.name])]
        ctx.meta["for each"], ctx.meta["agent"] = words, rest
        return super().parse_args(ctx, args)


def _as_typed(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [(option.opts if value else option.secondary_opts)[0]]
    return [f"{option.opts[0]}={each}" for each in (value if option.multiple else [value])]


@click.command(
    "run",
    cls=RunCommand,
    params=[each for each in cli.params if each.name in _FOR_EACH],
    epilog="Exit code: the first of 1, 7, 2, 6, 5, 4, 3 that a task ended with, else 0; 130 after Ctrl+C.",
)
@click.argument("tasks", nargs=-1, required=True, type=TASK, metavar="TASK...")
@click.option("--parallel", type=click.IntRange(min=1), default=1, show_default=True, help="How many at a time.")
@click.option("--worktree", is_flag=True, help="Each task in a git worktree on its own branch, marathon/TASK.")
@click.pass_context
def run(ctx: click.Context, /, tasks: Sequence[Path], parallel: int, worktree: bool, **options: Any) -> None:
    """Run several tasks without a terminal, --parallel of them at a time.

    A task that stops at a gate gives its place to the next one. When you answer the gate from another shell, it comes
    back. The command ends when every task is completed or waits for you. Ctrl+C stops all of them; nothing is lost.
    """
    entries = _entries(tasks)
    if parallel > 1 and not worktree:
        _warn_of_sharing(entries)
    if not options["trust"] and typed_by_a_human():
        _agree_once(entries)
    words = [*ctx.meta["for each"], *(["--worktree"] if worktree else []), *ctx.meta["agent"]]
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
    ctx.exit(128 + ended_by if ended_by else worst)


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
            asked.setdefault(digest(found.criteria, str(entry.project)), []).append((entry, found))
    for same in asked.values():
        commands = [clean(f"  {in_full(each)}") for each in same[0][1].criteria if each.command]
        click.echo(f"These commands will check whether {_and(entry.name for entry, _ in same)} is done:")
        click.echo("\n".join(commands))
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
                _tell(entry, "its gate is answered")
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
