"""pi-marathon --task DIR: builds the parts of a marathon and runs it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from marathon.agents.base import Agent
from marathon.agents.table import DEFAULT, find_agent
from marathon.cli.arguments import message_text, seconds_of, task_path
from marathon.cli.look import summary_of
from marathon.core.events import Event, Sink, Told
from marathon.core.limits import Limits
from marathon.core.workflow import Definitions
from marathon.disk.eventlog import EventLog
from marathon.disk.mailbox import Mailbox, states_folder, sweep
from marathon.disk.task import Task
from marathon.disk.workflows import load_workflows
from marathon.errors import MarathonError
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.review.desk import Desk, NoTerminal, TerminalDesk
from marathon.runner.gatekeeper import WAITS_FOR_HUMAN, Gatekeeper
from marathon.runner.ledger import Ledger
from marathon.runner.loop import Runner
from marathon.runner.opening import begin, check_workflow, finish_interrupted, lock_task, new_runner_id, restart
from marathon.runner.session import Workshop
from marathon.runner.stops import Stops
from marathon.show.screen import Screen


@dataclass(frozen=True)
class Order:
    """What was asked for, read and checked; nothing has been changed yet."""

    shown: Path
    task: Task
    feedback: str | None
    limits: Limits
    agent: Agent
    workflow: str
    definitions: Definitions
    auto_approve: bool
    notify: bool
    keep_events: int
    resume: str


def run_task(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> int:
    """The exit code of a marathon; everything is refused before anything is changed."""
    order = _order(options, agent_args)
    screen = Screen(sys.stdout, live=on_terminal(), notify=order.notify)
    log = EventLog()

    def emit(event: Event) -> None:
        log(event)
        screen(event)

    with contextlib.ExitStack() as cleanup:
        signals = cleanup.enter_context(Signals())
        cleanup.callback(log.close)
        cleanup.callback(screen.close)
        try:
            return _marathon(order, signals, emit, cleanup)
        except Interrupted as end:
            emit(Told(f"Interrupted; everything is saved. To go on: {order.resume}"))
            return 128 + end.signum
        except EOFError:
            emit(Told(f"No answer; the gate stays open. To go on: {order.resume}"))
            # A closed window is told by a signal and by the end of input; the signal is what it was.
            return 128 + signal.SIGHUP if signals.pending(signal.SIGHUP) else WAITS_FOR_HUMAN


def _order(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> Order:
    shown = task_path(options["task"])
    feedback = None if options["human"] is None else message_text(options["human"])
    limits = limits_of(options)
    agent = find_agent(options["agent"], agent_args, options["mode"])
    agent.check()
    task = Task.open(shown)
    definitions = load_workflows(Path.cwd(), os.environ).workflows
    if not task.journal_path.exists():  # a task that has begun keeps its own
        check_workflow(definitions, options["workflow"])
    return Order(
        shown=shown,
        task=task,
        feedback=feedback,
        limits=limits,
        agent=agent,
        workflow=options["workflow"],
        definitions=definitions,
        auto_approve=options["auto_approve"],
        notify=options["notify"],
        keep_events=options["keep_events"],
        resume=resume_command(options, agent_args),
    )


def _marathon(order: Order, signals: Signals, emit: Sink, cleanup: contextlib.ExitStack) -> int:
    """Take the task, bring its journal up to date, and run."""
    task, runner_id, states = order.task, new_runner_id(), states_folder(os.environ)
    lock = lock_task(task, order.shown, runner_id, order.resume, emit)
    cleanup.callback(lock.release)
    cleanup.callback(lambda: sweep(states, time.time()))
    mailbox = Mailbox(states, runner_id)
    cleanup.callback(mailbox.remove)
    ledger = Ledger(task, _clock)
    cleanup.callback(ledger.close)
    cleanup.callback(_leave_summary, task, ledger)
    cleanup.callback(order.agent.close)
    if not ledger.progress.workflow:
        begin(task, ledger, order.definitions, order.workflow, _clock)
    completed = finish_interrupted(task, ledger, order.definitions, _clock)
    if order.feedback is not None and not (completed and completed.text == order.feedback):
        restart(task, ledger, order.definitions, order.feedback, _clock)
    stops = Stops(task, runner_id, emit)
    shop = Workshop(
        task=task,
        shown=order.shown,
        resume=order.resume,
        project=Path.cwd(),
        definitions=order.definitions,
        agent=order.agent,
        mailbox=mailbox,
        runner=runner_id,
        signals=signals,
        emit=emit,
        record=ledger.record,
        progress=ledger.current,
        clock=_clock,
        stop_now=stops.now,
        lock_fd=lock.fd,
        timeout=order.limits.session_timeout,
        attended=interactive(),
        keep_events=order.keep_events,
    )
    desk: Desk = TerminalDesk(signals, task.own / "draft.md") if interactive() else NoTerminal()
    gatekeeper = Gatekeeper(shop, ledger, desk, stops, order.auto_approve)
    return Runner(shop, ledger, gatekeeper, order.limits, stops).run()


def limits_of(options: Mapping[str, Any]) -> Limits:
    return Limits(
        max_iterations=options["max_iterations"],
        max_seconds=seconds_of(options["max_time"], "--max-time"),
        session_timeout=seconds_of(options["session_timeout"], "--session-timeout"),
        retries=options["retries"],
        retry_wait=seconds_of(options["retry_wait"], "--retry-wait"),
    )


def resume_command(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> str:
    """What to type to go on: the same agent on the same task, without the feedback."""
    words = ["pi-marathon", "--task", options["task"]]
    typed = {"agent": options["agent"] if options["agent"] != DEFAULT else None, "mode": options["mode"]}
    words += [word for name, value in typed.items() if value for word in (f"--{name}", value)]
    if agent_args:
        words += ["--", *agent_args]
    return shlex.join(words)


def _leave_summary(task: Task, ledger: Ledger) -> None:
    """Only a convenience: a task that was removed, or a full disk, has better things to complain about."""
    with contextlib.suppress(OSError, MarathonError):
        task.write_summary(summary_of(ledger.progress))


def _clock() -> datetime:
    return datetime.now(UTC)
