"""Everything the parts of a running marathon have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from marathon.agents.base import Agent
from marathon.core.courses.workflow import Definitions
from marathon.core.events import Sink
from marathon.core.life import Progress
from marathon.core.records import Record
from marathon.core.wait import Now
from marathon.process.clock import moment
from marathon.process.signals import Signals
from marathon.process.start import Exit
from marathon.process.supervisor import run
from marathon.store.agent_channel import AgentChannel
from marathon.store.task import Task


@dataclass(frozen=True)
class Workshop:
    """Handed in once."""

    task: Task
    shown: Path
    resume: str
    project: Path
    definitions: Definitions
    agent: Agent
    mailbox: AgentChannel
    runner: str
    signals: Signals
    emit: Sink
    record: Callable[[Record], Progress]
    progress: Callable[[], Progress]
    catch_up: Callable[[], None]  # with what can wait until an agent is at work
    clock: Callable[[], datetime]
    stop_now: Callable[[], bool]
    lock_fd: int
    timeout: float
    environ: Mapping[str, str]  # what sessions are started with, beside what is said to each
    attended: bool = False
    keep_events: int = 0
    start: Callable[..., Exit] = run
    now: Callable[[], Now] = moment
