"""The command line as one typed value, and the options of a runner made from it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from marathon.agents.table import DEFAULT
from marathon.cli.arguments import BUDGETS, Amount, message_text
from marathon.core.budgets import Limits, parse_breakers
from marathon.core.courses.workflow import Phase
from marathon.core.records import Begun, LimitSet, Oversight, OversightSet, Record, StartedWith
from marathon.core.state import WORKFLOW, StateInvalid
from marathon.core.text import clean, one_line
from marathon.core.validation import Invalid, read
from marathon.errors import WrongUsage
from marathon.process.terminal import on_terminal
from marathon.runner.marathon import Budget, RunOptions
from marathon.show.program import program
from marathon.store.lock import last_holder
from marathon.store.task import Task

NO_LIMIT, USUAL_SESSIONS = Amount(0), Amount(100)
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """pi-marathon --task DIR and its options, as click has read them."""

    task: Path | None
    human: str | None = None
    agent: str = DEFAULT
    mode: Literal["tui", "stream"] | None = None
    settings: tuple[str, ...] = ()  # PHASE.NAME=VALUE
    workflow: str = "rpi"
    workflow_by_file: bool = False  # it was neither typed nor set in the environment
    oversight: Oversight | None = None
    auto_approve: bool = False
    answers_here: bool = False
    trust: bool = False
    here: bool = False
    worktree: str | None = None  # the branch; empty for the usual one
    setup: str | None = None
    hours: str = ""  # in which sessions start; empty: any
    allow_sleep: bool = False
    adopt: bool = False
    detach: bool = False
    sandbox: Literal["on", "offline", "off"] | None = None
    sandbox_write: tuple[str, ...] = ()
    yes: bool = False
    max_iterations: Amount = USUAL_SESSIONS
    max_time: Amount = NO_LIMIT
    max_cost: Amount = NO_LIMIT
    max_tokens: Amount = NO_LIMIT
    reflect_every: int = 0
    breakers: tuple[str, ...] = ()
    session_timeout: float = 7200
    retries: int = 3
    retry_wait: float = 2
    outage: float = 6 * 3600
    keep_events: int = 200
    as_json: bool = False
    summary: Path | None = None  # where the summary goes too
    notify: bool = True
    agent_args: tuple[str, ...] = ()
    typed: frozenset[str] = frozenset()  # the names of the options that stand on this command line
    by_environment: frozenset[str] = frozenset()  # the names of those that are set there
    usual: Mapping[str, float] = field(default_factory=dict)  # what a budget would be without the command line
    by_project: frozenset[str] = frozenset()  # the names of the limits that the project's file has tightened
    ignored: tuple[str, ...] = ()  # what that file says and may not, for the human
    resume_here: str = ""
    started_with: StartedWith | None = None  # what the task is to remember of it
    goes_on_with_agent: bool = False  # the agent is the one that the task remembers

    @property
    def resume(self) -> str:
        """What to type to continue. The task remembers the rest."""
        return f"{program()} --task {shlex.quote(str(self.task))}"


def as_started(line: CommandLine, records: Sequence[Record]) -> CommandLine:
    """The command line with what its task remembers. A flag comes first, then that, then environment and files.

    Nothing else joins the two. What adds to a list, such as --set, is joined by name.
    """
    kept = _last(records, StartedWith) or StartedWith()
    if "agent" in line.typed and line.agent != kept.agent:  # these were for the agent before
        kept = replace(kept, agent=None, agent_args=None, mode=None, settings=None)
    before = kept.chosen()
    known = {name: value for name, value in before.items() if name not in line.typed}
    joined: dict[str, Any] = {
        name: _joined(before.get(name, ()), getattr(line, name)) for name in _LISTS if name in line.typed
    }
    started = replace(line, **known, **joined)
    names = {"agent", "agent_args", *known, *line.typed, *line.by_environment} & _REMEMBERED
    budgets = {record.name for record in records if isinstance(record, LimitSet) and not record.added}
    new = {name for name in line.by_environment & BUDGETS.keys() if BUDGETS[name] not in budgets}
    return replace(
        started,
        typed=line.typed | new,  # like one that was typed, it belongs to the task from now on
        mode=None if started.mode == "tui" and "mode" in known and not on_terminal() else started.mode,
        oversight=_new_oversight(line, records),
        goes_on_with_agent="agent" in known,
        started_with=StartedWith(**{name: getattr(started, name) for name in names}),
    )


_REMEMBERED = {each.name for each in fields(StartedWith)} & {each.name for each in fields(CommandLine)}
_LISTS = ("settings", "breakers")


def _joined(before: Sequence[str], typed: Sequence[str]) -> tuple[str, ...]:
    """Of two with the same name the later one counts, and PHASE= forgets what was set for a phase."""
    found: dict[str, str] = {}
    for word in (*before, *typed):
        name, _, value = word.partition("=")
        if "." in name or value:
            found[name] = word
        else:
            found = {each: kept for each, kept in found.items() if not each.startswith(f"{name}.")}
    return tuple(found.values())


def _new_oversight(line: CommandLine, records: Sequence[Record]) -> Oversight | None:
    """How often the human is asked from now on. None: as before."""
    set_before = _last(records, OversightSet)
    known = set_before.oversight if set_before else None if "oversight" in line.typed else "tool"
    by_human = "oversight" in line.typed or set_before is None
    return line.oversight if by_human and line.oversight != known else None


def _last(records: Sequence[Record], kind: type[_Kind]) -> _Kind | None:
    return next((record for record in reversed(records) if isinstance(record, kind)), None)


def run_options(line: CommandLine, task: Task, shown: Path) -> RunOptions:
    amounts = {name: getattr(line, name) for name in BUDGETS if name in line.typed}
    return RunOptions(
        task=task,
        shown=shown,
        limits=_limits(line),
        typed=tuple(Budget(BUDGETS[name], amount.value, amount.added) for name, amount in amounts.items()),
        feedback=None if line.human is None else message_text(line.human),
        oversight=line.oversight,
        started_with=line.started_with,
        auto_approve=line.auto_approve,
        answers_here=line.answers_here,
        trust=line.trust,
        adopt=line.adopt,
        keep_events=line.keep_events,
        allow_sleep=line.allow_sleep,
        ignored=line.ignored,
        sandbox=line.sandbox if line.sandbox and line.sandbox != "off" else "",
        sandbox_write=tuple(map(Path, line.sandbox_write)),
        resume=line.resume,
        resume_here=line.resume_here,
        program=program(),
    )


def phase_settings(typed: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What --set chooses, by phase."""
    found: dict[str, dict[str, Any]] = {}
    for setting in typed:
        match = re.fullmatch(r"([^.=]+)\.(agent|model|thinking|args|tools)=(.*)", setting)
        if match is None:
            raise WrongUsage(f"--set {setting!r}: write PHASE.NAME=VALUE, with agent, model, thinking, args or tools.")
        phase, name, value = match.groups()
        try:
            given = shlex.split(value) if name == "args" else value.split(",") if name == "tools" else value
            read_phase = read(Phase, {"id": phase, "name": phase, "brief": phase, name: given})
        except (Invalid, ValueError) as error:
            raise WrongUsage(f"--set {setting!r}: {error}.") from error
        found.setdefault(phase, {})[name] = getattr(read_phase, name)
    return found


def check_place(task: Task, project: Path) -> None:
    """An agent works in the folder where its marathon is started. Starting it in another one is rarely meant.

    A project that was moved or copied has its task in the same place.
    """
    before = last_holder(task.lock_path)
    if before is None or not before.task or before.cwd == str(project) or not os.path.isdir(before.cwd):
        return
    if os.path.relpath(task.folder, project) != os.path.relpath(before.task, before.cwd):
        there = one_line(f"cd {shlex.quote(before.cwd)} && {before.resume}", 4000)
        raise WrongUsage(
            f"So far this task ran in {clean(before.cwd)}; here its agent would work in {project}. "
            f"To continue there: {there}   To work here: add --here"
        )


def workflow_of(line: CommandLine, task: Task, records: Sequence[Record]) -> str:
    """The workflow of a task: the one it was started with or made for, else the one that was asked for."""
    kept = next((record.workflow for record in records if isinstance(record, Begun)), "") or _made_for(task)
    if kept and "workflow" in line.typed and line.workflow != kept:
        how = "started with" if records else "made for"
        raise WrongUsage(
            f"This task was {how} the workflow {kept!r} and keeps it. Leave out --workflow. "
            f"For another task: pi-marathon new --workflow {shlex.quote(line.workflow)}"
        )
    return kept or line.workflow


def _made_for(task: Task) -> str:
    """What `new --workflow` left in STATE.json."""
    try:
        state = task.read_state()
    except StateInvalid:  # said when the task is opened
        return ""
    named = (state.model_extra or {}).get(WORKFLOW) if state else None
    return named if isinstance(named, str) else ""


def _limits(line: CommandLine) -> Limits:
    try:
        breakers = parse_breakers(line.breakers)
    except ValueError as error:
        raise WrongUsage(f"--breaker: {error}.") from error
    # A sum (+10) is added to what is usual or was used, once the journal can tell: see runner/opening.py.
    budgets: dict[str, Any] = {}
    for name, limit in BUDGETS.items():
        amount: Amount = getattr(line, name)
        budgets[limit] = line.usual.get(name, 0) if amount.added else amount.value
    return Limits(
        **budgets,
        session_timeout=line.session_timeout,
        retries=line.retries,
        retry_wait=line.retry_wait,
        outage=line.outage,
        hours=line.hours,
        reflect_every=line.reflect_every,
        breakers=breakers,
        by_project=frozenset(limit for name, limit in BUDGETS.items() if name in line.by_project),
        agents=tuple(name.strip() for name in line.agent.split(",")),
    )
