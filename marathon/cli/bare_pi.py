"""pi-marathon without a task starts pi. /marathon-loop DIR inside it chooses the task."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from marathon._bundled import bundled
from marathon.agents.pi.find import EXTENSIONS, PROMPTS, check_start, find_pi
from marathon.cli.options import CommandLine
from marathon.cli.run import run_task
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.process.signals import Signals
from marathon.process.start import Command, StartFailed
from marathon.process.supervisor import run
from marathon.process.terminal import interactive
from marathon.runner.marathon import new_runner_id
from marathon.runner.session_inputs import path_with_us
from marathon.store.agent_channel import AgentChannel
from marathon.store.places import states_folder

SIGNALLED = 128


def start_pi(line: CommandLine) -> int:
    """pi's exit code, or the exit code of the marathon that was started in it."""
    if line.agent != "pi" or not interactive():
        raise WrongUsage("Nothing to do: give --task DIR, or a command. See: pi-marathon --help")
    print("Starting pi…", flush=True)
    pi = find_pi(os.environ)
    # Someone who is not logged in yet types /login in it.
    commands = check_start(pi, line.agent_args, os.environ, needs_model=False)
    runner, project = new_runner_id(), Path.cwd()
    channel = AgentChannel(states_folder(), runner)
    channel.write({"runnerId": runner, "taskDir": None, "cwd": str(project), "pid": os.getpid()})
    try:
        argv = (pi.program, *EXTENSIONS, *what_it_lacks(commands), *line.agent_args)
        exit_code = _run(argv, project, runner)
        task = channel.read().get("taskDir")
    finally:
        channel.remove()
    if not isinstance(task, str):
        return exit_code
    # The path as one would type it here.
    shown = Path(task).relative_to(project) if Path(task).is_relative_to(project) else Path(task)
    return run_task(replace(line, task=shown), shown)


def what_it_lacks(commands: Collection[str]) -> Iterator[str]:
    """Arguments for our skills and prompts, except those that are installed. pi would warn about a second one."""
    for skill in sorted(bundled("skills").iterdir()):
        if f"skill:{skill.name}" not in commands:
            yield from ("--skill", str(skill))
    for prompt in sorted(PROMPTS.glob("*.md")):
        if prompt.stem not in commands:
            yield from ("--prompt-template", str(prompt))


def _run(argv: tuple[str, ...], project: Path, runner: str) -> int:
    path = path_with_us(os.environ.get("PATH", os.defpath))
    command = Command(argv, project, {**os.environ, "PATH": path, "MARATHON_RUNNER_ID": runner}, terminal=True)
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
            raise AgentUnavailable(f"Could not start {argv[0]!r}: {error.strerror}.") from error
    return ended.code if ended.code is not None else SIGNALLED + (ended.signal or 0)
