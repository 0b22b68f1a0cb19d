"""pi-marathon without a task: pi under the runner; /marathon-loop DIR inside it chooses the task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marathon.agents.pi.find import EXTENSION, check_login, find_pi
from marathon.cli.run import run_task
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.process.signals import Signals
from marathon.process.start import Command, StartFailed
from marathon.process.supervisor import run
from marathon.process.terminal import interactive
from marathon.runner.opening import new_runner_id
from marathon.store.agent_channel import AgentChannel, states_folder

SIGNALLED = 128


def start_pi(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> int:
    """pi's exit, or the exit code of the marathon that was started in it."""
    if options["agent"] != "pi" or not interactive():
        raise WrongUsage("Nothing to do: give --task DIR, or a command. See: pi-marathon --help")
    pi = find_pi(os.environ)
    check_login(pi, agent_args, os.environ)
    runner = new_runner_id()
    mailbox = AgentChannel(states_folder(os.environ), runner)
    mailbox.write({"runnerId": runner, "taskDir": None, "cwd": str(Path.cwd()), "pid": os.getpid()})
    try:
        exit_code = _run(pi.program, agent_args, runner)
        task = mailbox.read().get("taskDir")
    finally:
        mailbox.remove()
    return exit_code if not isinstance(task, str) else run_task({**options, "task": _near(task)}, agent_args)


def _run(program: str, agent_args: tuple[str, ...], runner: str) -> int:
    argv = (program, "-e", str(EXTENSION), *agent_args)
    command = Command(argv, Path.cwd(), {**os.environ, "MARATHON_RUNNER_ID": runner}, terminal=True)
    with Signals() as signals:
        try:
            ended = run(
                command,
                signals=signals,
                on_output=lambda stream, line, complete: None,
                on_tick=lambda: False,
                on_interrupt=lambda: None,
                on_resume=lambda: None,
                timeout=None,
            )
        except StartFailed as error:
            raise AgentUnavailable(f"Could not start {program!r}: {error.strerror}.") from error
    return ended.code if ended.code is not None else SIGNALLED + (ended.signal or 0)


def _near(task: str) -> str:
    """The path as one would type it here."""
    here = Path.cwd()
    return str(Path(task).relative_to(here)) if Path(task).is_relative_to(here) else task
