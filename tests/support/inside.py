"""A marathon in this process: the real runner on real files; its life, agent, human and time are handed in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from marathon.agents.base import Agent
from marathon.core.budgets import Limits
from marathon.core.courses.workflow import Definitions
from marathon.core.events import Event
from marathon.core.life import Progress
from marathon.core.records import Record
from marathon.core.wait import Now
from marathon.process.signals import Interrupted, Signals
from marathon.runner.gates import Gatekeeper
from marathon.runner.journal import Ledger
from marathon.runner.loop import Runner
from marathon.runner.marathon import Workshop
from marathon.runner.opening import begin, finish_interrupted, lock_task, new_runner_id, restart
from marathon.runner.stops import Stops
from marathon.runner.verify import Verifier
from marathon.store.agent_channel import AgentChannel
from marathon.store.events import EventLog
from marathon.store.task import Task
from marathon.store.trusted import Trusted
from marathon.surfaces.terminal import GateSurface
from tests.support.mortal import Killed, Life, living


class MortalLedger(Ledger):
    """Dies before it writes a record, too, and is then known for the record it owes."""

    def __init__(self, task: Task, clock: Callable[[], datetime], life: Life) -> None:
        super().__init__(task, clock)
        self._life = life
        self.owes: Record | None = None

    def record(self, record: Record) -> Progress:
        self.owes = record
        self._life.change()
        self._life.reach(f"before {record.type}")
        self.owes = None
        progress = super().record(record)
        self._life.reach(f"after {record.type}")
        return progress


@dataclass(frozen=True)
class Place:
    """What stays the same from one start of the runner to the next."""

    project: Path
    task: Path
    states: Path
    definitions: Definitions
    workflow: str
    clock: Callable[[], datetime]
    now: Callable[[], Now]


@dataclass(frozen=True)
class Start:
    """What one start of the runner is given."""

    agent: Agent
    desk: GateSurface
    life: Life
    emit: Callable[[Event], None]
    feedback: str | None = None
    auto_approve: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Ran:
    """How it ended: an exit code, or None if it was killed; the record it was killed at, if it was at one."""

    code: int | None
    progress: Progress | None
    owed: Record | None


def run(place: Place, start: Start) -> Ran:
    """As `pi-marathon --task` does it."""
    runner_id, log = new_runner_id(), EventLog()
    mailbox = AgentChannel(place.states, runner_id)
    ledger: MortalLedger | None = None
    lock = None

    def emit(event: Event) -> None:
        log(event)
        start.emit(event)

    try:
        with living(start.life), Signals() as signals:
            task = Task.open(place.task)
            lock = lock_task(task, place.task, runner_id, "pi-marathon", emit)
            ledger = MortalLedger(task, place.clock, start.life)
            log.resume(task.runs.session_path(ledger.progress.run, "events", ledger.progress.iteration, "jsonl"))
            if not ledger.progress.workflow:
                begin(task, ledger, place.definitions, place.workflow, place.clock)
            finish_interrupted(task, ledger, place.definitions, place.clock)
            if start.feedback is not None:
                restart(task, ledger, place.definitions, start.feedback, place.clock)
            stops = Stops(task, runner_id)
            shop = Workshop(
                task=task,
                shown=place.task,
                resume="pi-marathon",
                project=place.project,
                definitions=place.definitions,
                agent=start.agent,
                mailbox=mailbox,
                runner=runner_id,
                signals=signals,
                emit=emit,
                record=ledger.record,
                progress=ledger.current,
                catch_up=ledger.catch_up,
                clock=place.clock,
                stop_now=stops.now,
                lock_fd=lock.fd,
                timeout=0,
                environ=dict(os.environ),
                now=place.now,
            )
            verifier = Verifier(shop, ledger, Trusted(place.task.parent / "agreed"), "tool")
            gatekeeper = Gatekeeper(shop, ledger, start.desk, stops, verifier.agree, start.auto_approve)
            try:
                code = Runner(shop, ledger, gatekeeper, verifier, start.limits, stops).run()
            except Interrupted as signal:
                code = 128 + signal.signum
            mailbox.remove()
            ledger.close()
            return Ran(code, ledger.progress, None)
    except Killed:
        return Ran(None, None, ledger.owes if ledger else None)
    finally:
        log.close()
        if lock:
            lock.release()
        close_all_below(place.task)


def close_all_below(folder: Path) -> None:
    """As the kernel does it for the dead: one killed while it made its lock had no chance to close it."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder)):
                os.close(int(fd))
