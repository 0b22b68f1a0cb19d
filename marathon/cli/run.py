"""pi-marathon --task DIR: builds the parts of a marathon and runs it."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from marathon.agents.table import find_agent
from marathon.cli.arguments import message_text, seconds_of, task_path
from marathon.core.events import Event, Told
from marathon.core.limits import Limits
from marathon.disk.eventlog import EventLog
from marathon.disk.mailbox import Mailbox, mailbox_of, states_folder, sweep
from marathon.disk.task import Task
from marathon.disk.workflows import load_workflows
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


def run_task(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> int:
    """The exit code of a marathon; everything is refused before anything is changed."""
    shown = task_path(options["task"])
    feedback = None if options["human"] is None else message_text(options["human"])
    limits = limits_of(options)
    agent = find_agent(options["agent"], agent_args, options["mode"])
    agent.check()
    task = Task.open(shown)
    screen = Screen(sys.stdout, live=on_terminal(), notify=options["notify"])
    log = EventLog()

    def emit(event: Event) -> None:
        log(event)
        screen(event)

    runner_id = new_runner_id()
    resume = resume_command(options, agent_args)
    project = Path.cwd()
    states = states_folder(os.environ)
    library = load_workflows(project, os.environ)
    if not task.journal_path.exists():  # a task that has begun keeps its own
        check_workflow(library.workflows, options["workflow"])
    with Signals() as signals:
        lock = lock_task(task, shown, runner_id, resume, emit)
        ledger = None
        mailbox = Mailbox(states, runner_id)
        try:
            ledger = Ledger(task, _clock)
            if not ledger.progress.workflow:
                begin(task, ledger, library.workflows, options["workflow"], _clock)
            finish_interrupted(task, ledger, library.workflows, _clock)
            if feedback is not None:
                restart(task, ledger, library.workflows, feedback, _clock)
            stops = Stops(task, runner_id)
            shop = Workshop(
                task=task,
                shown=shown,
                resume=resume,
                project=project,
                definitions=library.workflows,
                agent=agent,
                mailbox=mailbox,
                runner=runner_id,
                signals=signals,
                emit=emit,
                record=ledger.record,
                progress=ledger.current,
                clock=_clock,
                stop_now=stops.now,
                lock_fd=lock.fd,
                timeout=limits.session_timeout,
                attended=interactive(),
                keep_events=options["keep_events"],
            )
            desk: Desk = TerminalDesk(signals, task.own / "draft.md") if interactive() else NoTerminal()
            gatekeeper = Gatekeeper(shop, ledger, desk, stops, options["auto_approve"])
            earlier = mailbox_of(states, lock.before.runner) if lock.before else None
            return Runner(shop, ledger, gatekeeper, limits, stops).run(earlier)
        except Interrupted as end:
            emit(Told(f"Interrupted; everything is saved. To go on: {resume}"))
            return 128 + end.signum
        except EOFError:
            emit(Told(f"No answer; the gate stays open. To go on: {resume}"))
            return WAITS_FOR_HUMAN
        finally:
            agent.close()
            screen.close()
            log.close()
            if ledger:
                ledger.close()
            mailbox.remove()
            sweep(states, time.time())
            lock.release()


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
    words += [word for name in ("agent", "mode") if options[name] for word in (f"--{name}", options[name])]
    if agent_args:
        words += ["--", *agent_args]
    return shlex.join(words)


def _clock() -> datetime:
    return datetime.now(UTC)
