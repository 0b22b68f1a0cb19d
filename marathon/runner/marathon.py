"""The one place where a marathon is put together: for the command line, the demo, bare pi, and the tests."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from marathon.agents.base import Agent
from marathon.agents.table import Team
from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import Phase
from marathon.core.events import Event, Notice, Sink
from marathon.core.life import Life
from marathon.core.records import Oversight, Record, StartedWith
from marathon.core.steps import Now
from marathon.git.writes import WriteGuard
from marathon.process.clock import moment
from marathon.process.input_line import InputLine
from marathon.process.signals import Signals
from marathon.runner import definition, gates, opening, verify
from marathon.runner.commenting import take_comments
from marathon.runner.journal import Journal
from marathon.runner.session import take_back
from marathon.runner.stops import Stops
from marathon.runner.workbench import Workbench
from marathon.store.agent_channel import AgentChannel, sweep
from marathon.store.base import Lease, Store
from marathon.store.events import EventLog
from marathon.store.gate_code import GateCodes
from marathon.store.task import Task
from marathon.store.trusted import Trusted
from marathon.surfaces.base import GateSurface


@dataclass(frozen=True)
class Budget:
    """A budget that was typed on this command line. `added` comes on top of what is allowed or used already."""

    field: str  # of Limits
    value: float
    added: bool = False


@dataclass(frozen=True)
class RunOptions:
    """What a human asked for, read and checked before anything is changed."""

    task: Task
    shown: Path  # the task as the human names it
    limits: Limits = field(default_factory=Limits)
    typed: tuple[Budget, ...] = ()
    feedback: str | None = None
    oversight: Oversight | None = None
    started_with: StartedWith | None = None  # what the task is to remember
    auto_approve: bool = False
    answers_here: bool = False  # gates are answered at this terminal only
    trust: bool = False
    adopt: bool = False  # a task that is not on record here may be taken over as it stands
    keep_events: int = 0
    allow_sleep: bool = False  # the machine may fall asleep while a session runs
    ignored: tuple[str, ...] = ()  # settings of the project that loosen what the user set, each as a sentence
    sandbox: Literal["", "on", "offline"] = ""
    sandbox_write: tuple[Path, ...] = ()  # where an agent may write as well, in the human's words
    resume: str = "pi-marathon"  # the command that continues, from the project's folder
    resume_here: str = ""  # the same, from where the human is
    program: str = "pi-marathon"  # what to type for it here
    home: Path | None = None  # where the human starts it, if the agent works in another folder


@dataclass
class Emitter:
    """Hands every event to who watches, then to the log."""

    show: Sink
    log: EventLog

    def __call__(self, event: Event) -> None:
        self.show(event)  # first, so that what a full disk cannot take is still shown
        self.log(event)


@dataclass
class Marathon:
    """One marathon under way: what its parts share."""

    options: RunOptions
    project: Path
    agent: Agent
    surface: GateSurface
    unpinned: Course
    store: Store
    journal: Journal
    lease: Lease
    channel: AgentChannel
    runner: str
    signals: Signals
    emit: Emitter
    stops: Stops
    line: InputLine  # what the human types for the agent, in sessions and in waits
    trusted: Trusted
    codes: GateCodes
    environ: Mapping[str, str]
    clock: Callable[[], datetime]
    now: Callable[[], Now]
    snapshots: WriteGuard
    workbench: Workbench | None = None  # of a measured loop
    team: Team | None = None  # where phases may choose their agent
    leave_screen: Callable[[], Sink] = lambda: ignore  # returns who still watches without a terminal
    workflows: definition.Source | None = None
    workflows_mark: object = None  # what the workflows' files looked like when they were last read
    told_unchecked: bool = False  # the human knows that no one checks what a phase writes
    rang_for: str = ""  # the gate the human was last called to
    rechecked: tuple[object, ...] = ()  # what the criteria's files looked like when they were last read

    @property
    def task(self) -> Task:
        return self.options.task

    @property
    def shown(self) -> Path:
        return self.options.shown

    @property
    def life(self) -> Life:
        return self.journal.life

    @property
    def course(self) -> Course:
        """By the definition that the task keeps."""
        return self.unpinned.pinned(self.life)

    @property
    def where(self) -> Where:
        return self.course.where(self.life)

    @property
    def resume(self) -> str:
        """The command that continues this marathon."""
        return self.options.resume_here or self.options.resume

    def agent_of(self, phase: Phase) -> Agent:
        return self.team.of(phase, self.life.takes_over) if self.team else self.agent

    def end_programs(self) -> None:
        """A program that is kept for the next session costs memory, and perhaps money, while a human takes hours."""
        (self.team or self.agent).close()

    def record(self, record: Record) -> Life:
        return self.journal.record(record)

    def anew(self) -> Marathon:
        """With the comments that came meanwhile."""
        take_comments(self.journal, self.store, self.task, self.emit)
        return self

    def tell(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        self.emit(Notice(text, level))


def ignore(event: Event) -> None:
    """No one watches."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@contextlib.contextmanager
def open(
    options: RunOptions,
    project: Path,
    agent: Agent,
    surface: GateSurface,
    store: Store,
    course: Course,
    *,
    signals: Signals,
    show: Sink,
    states: Path,
    trusted: Path,
    codes: Path,
    workflows: definition.Source | None = None,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], datetime] = utc_now,
    now: Callable[[], Now] = moment,
    workbench: Workbench | None = None,
    team: Team | None = None,
    leave_screen: Callable[[], Sink] = lambda: ignore,
) -> Iterator[Marathon]:
    """Take the task, bring its journal up to date, and hand over a marathon that is ready to run."""
    runner = f"m-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{secrets.token_hex(3)}"
    log = EventLog()
    emit = Emitter(show, log)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(log.close)
        lease = opening.take(store, options, runner, project, emit)
        cleanup.callback(lease.release)
        cleanup.callback(sweep, states, time.time())
        channel = AgentChannel(states, runner, boxed=bool(options.sandbox))
        cleanup.callback(channel.remove)
        journal = Journal(store, course, options.task, emit)
        cleanup.callback((team or agent).close)
        log.resume(options.task.runs.session_path(journal.life.run, "events", journal.life.iteration, "jsonl"))
        marathon = Marathon(
            options=options,
            project=project,
            agent=agent,
            surface=surface,
            unpinned=course,
            store=store,
            journal=journal,
            lease=lease,
            channel=channel,
            runner=runner,
            signals=signals,
            emit=emit,
            stops=Stops(options.task, store, runner, lambda: journal.life, emit),
            line=InputLine(signals, emit, lambda: take_back(store)),
            trusted=Trusted(trusted),
            codes=GateCodes(codes),
            workflows=workflows,
            environ=environ,
            clock=clock,
            now=now,
            snapshots=WriteGuard(project, options.task.folder),
            workbench=workbench,
            team=team,
            leave_screen=leave_screen,
        )
        if marathon.life.gate:
            marathon.codes.look(marathon.life.gate.token)
        opening.bring_up_to_date(marathon)
        definition.recheck(marathon)
        verify.recheck(marathon)
        if options.trust:
            definition.agree(marathon)
            verify.agree(marathon)
        gates.take_waiting_answer(marathon)  # first, because a go-ahead and its words count before a restart
        opening.restart(marathon)
        opening.allow(marathon)
        yield marathon
