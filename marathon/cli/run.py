"""pi-marathon --task DIR: builds the parts of a marathon and runs it."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from marathon.cli.options import Order, read_order
from marathon.cli.status_query import Facts, sessions_in, status_of, summary_of
from marathon.core.budgets import BUDGETS, with_amounts
from marathon.core.events import Event, Notice, Sink
from marathon.core.life import Progress
from marathon.core.names import utc
from marathon.core.records import LimitSet
from marathon.errors import MarathonError
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive, on_terminal
from marathon.runner.gates import WAITS_FOR_HUMAN, Gatekeeper
from marathon.runner.journal import Ledger
from marathon.runner.loop import Runner
from marathon.runner.marathon import Workshop
from marathon.runner.opening import begin, finish_interrupted, lock_task, new_runner_id, restart
from marathon.runner.stops import Stops
from marathon.runner.verify import Verifier
from marathon.show.report import as_json, as_markdown
from marathon.show.screen import Screen
from marathon.store.agent_channel import AgentChannel, states_folder, sweep
from marathon.store.events import EventLog
from marathon.store.journal import read_journal
from marathon.store.task import Task
from marathon.store.trusted import Trusted, trusted_folder
from marathon.surfaces.terminal import GateSurface, ShellSurface, TerminalSurface


def run_task(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> int:
    """The exit code of a marathon; everything is refused before anything is changed."""
    with _told_as_json(options["as_json"]):
        return _run_order(read_order(options, agent_args))


@contextlib.contextmanager
def _told_as_json(wanted: bool) -> Iterator[None]:
    """With --json an error is an object too; the sentence on stderr stays."""
    try:
        yield
    except MarathonError as error:
        if wanted:
            print(json.dumps({"exit": error.exit_code, "outcome": "error", "error": str(error)}), flush=True)
        raise


def _run_order(order: Order) -> int:
    out = sys.stderr if order.as_json else sys.stdout
    screen = Screen(out, live=on_terminal() and not order.as_json, notify=order.notify)
    log = EventLog()

    def emit(event: Event) -> None:
        screen(event)  # first: what a full disk cannot take is still shown
        log(event)

    with contextlib.ExitStack() as cleanup:
        signals = cleanup.enter_context(Signals())
        cleanup.callback(log.close)
        cleanup.callback(screen.close)
        return _marathon(order, signals, emit, log, cleanup)


def _marathon(order: Order, signals: Signals, emit: Sink, log: EventLog, cleanup: contextlib.ExitStack) -> int:
    """Take the task, bring its journal up to date, and run."""
    task, runner_id, states = order.task, new_runner_id(), states_folder(os.environ)
    lock = lock_task(task, order.shown, runner_id, order.resume, emit)
    cleanup.callback(lock.release)
    cleanup.callback(lambda: sweep(states, time.time()))
    mailbox = AgentChannel(states, runner_id)
    cleanup.callback(mailbox.remove)
    ledger = Ledger(task, _clock)
    cleanup.callback(ledger.close)
    cleanup.callback(_leave_summary, task, ledger)
    cleanup.callback(order.agent.close)
    log.resume(task.runs.session_path(ledger.progress.run, "events", ledger.progress.iteration, "jsonl"))
    if not ledger.progress.workflow:
        begin(task, ledger, order.definitions, order.workflow, _clock)
    finish_interrupted(task, ledger, order.definitions, _clock)
    _warn_of_useless_budgets(order, ledger.progress, emit)
    stops = Stops(task, runner_id, emit)
    asked = interactive() and not order.as_json
    shop = Workshop(
        task=task,
        shown=order.shown,
        resume=order.resume_here,
        project=Path.cwd(),
        definitions=order.definitions,
        agent=order.agent,
        mailbox=mailbox,
        runner=runner_id,
        signals=signals,
        emit=emit,
        record=ledger.record,
        progress=ledger.current,
        catch_up=ledger.catch_up,
        clock=_clock,
        stop_now=stops.now,
        lock_fd=lock.fd,
        timeout=order.limits.session_timeout,
        environ=dict(os.environ),
        attended=asked,
        keep_events=order.keep_events,
    )
    desk: GateSurface = TerminalSurface(signals, task.own / "draft.md") if asked else ShellSurface(emit)
    verifier = Verifier(shop, ledger, Trusted(trusted_folder(os.environ)), order.shape)
    verifier.look()
    if order.trust:
        verifier.agree()
    gatekeeper = Gatekeeper(shop, ledger, desk, stops, verifier.agree, order.auto_approve)
    gatekeeper.take_waiting_verdict()  # first: a go-ahead settles what was used before more is added, and words count
    if order.feedback is not None:
        archived = restart(task, ledger, order.definitions, order.feedback, _clock)
        if archived:
            emit(Notice(f"Kept from the run before: {', '.join(name for _, name in archived)}"))
    _allow(ledger, order)
    gc.freeze()  # what is here now stays: no need to look through it again and again
    code = _run(Runner(shop, ledger, gatekeeper, verifier, order.limits, stops), order, emit)
    _report(order, ledger, code)
    return code


def _run(runner: Runner, order: Order, emit: Sink) -> int:
    """The exit code, also of a marathon that was cut off."""
    try:
        return runner.run()
    except Interrupted as end:
        emit(Notice(f"Interrupted; everything is saved. To go on: {order.resume_here}"))
        return 128 + end.signum
    except EOFError:
        emit(Notice(f"No answer; the gate stays open. To go on: {order.resume_here}"))
        # A closed window is told by a signal and by the end of input; the signal is what it was.
        return 128 + signal.SIGHUP if runner.shop.signals.pending(signal.SIGHUP) else WAITS_FOR_HUMAN


def _report(order: Order, ledger: Ledger, code: int) -> None:
    """summary.md of the run, and with --json one object; a marathon that ended well does not fail for their sake."""
    progress = ledger.progress
    sessions: Facts = ()
    with contextlib.suppress(OSError, MarathonError):
        sessions = sessions_in(read_journal(order.task.journal_path), progress.run)
    status = status_of(order.task, order.shown, progress, order.resume, sessions=sessions)
    with contextlib.suppress(OSError, MarathonError):
        order.task.runs.write_report(progress.run, as_markdown(status, code, utc(_clock())))
    if order.as_json:
        with contextlib.suppress(OSError):
            print(json.dumps(as_json(status, code), ensure_ascii=True), flush=True)


def _allow(ledger: Ledger, order: Order) -> None:
    """Budgets that were typed are this task's from now on; a sum comes on top of what is allowed or used already."""
    for name, amount in order.typed:
        progress = ledger.progress
        limits = with_amounts(order.limits, progress.limits, progress.added)
        used = next(budget.used(progress.used) for budget in BUDGETS if budget.field == name)
        if amount.added:
            ledger.record(LimitSet(name=name, value=max(getattr(limits, name), used) + amount.value, added=True))
        elif dict(progress.limits).get(name) != amount.value or dict(progress.added).get(name) is not None:
            ledger.record(LimitSet(name=name, value=amount.value))


def _warn_of_useless_budgets(order: Order, progress: Progress, emit: Sink) -> None:
    limits = with_amounts(order.limits, progress.limits, progress.added)
    if (limits.max_cost or limits.max_tokens) and not order.agent.tells_usage:
        useless = "--max-cost and --max-tokens have no effect"
        emit(Notice(f"The agent {order.agent.name} does not tell what it uses: {useless}.", "warning"))


def _leave_summary(task: Task, ledger: Ledger) -> None:
    """Only a convenience: a task that was removed, or a full disk, has better things to complain about."""
    with contextlib.suppress(OSError, MarathonError):
        task.runs.write_summary(summary_of(ledger.progress))


def _clock() -> datetime:
    return datetime.now(UTC)
