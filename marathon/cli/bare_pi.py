"""pi-marathon without a task starts pi with our skills. /marathon-loop DIR inside it runs a marathon."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from marathon._bundled import bundled
from marathon.agents.pi.find import EXTENSIONS, PROMPTS, check_start, find_pi
from marathon.cli.commands.install import renewed_skills
from marathon.cli.options import CommandLine
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.process.signals import Signals
from marathon.process.start import Command, StartFailed
from marathon.process.supervisor import run
from marathon.process.terminal import interactive
from marathon.runner.session_inputs import path_with_us
from marathon.store.places import pi_folder

SIGNALLED = 128


def start_pi(line: CommandLine) -> int:
    """pi's exit code. A marathon that is started in it runs by itself, with the options of this command line."""
    if line.agent != "pi" or not interactive():
        raise WrongUsage("Nothing to do: give --task DIR, or a command. See: pi-marathon --help")
    print("\n".join(["Starting pi…", *renewed_skills(pi_folder())]), flush=True)
    pi = find_pi(os.environ)
    # Someone who is not logged in yet types /login in it.
    commands = check_start(pi, line.agent_args, os.environ, needs_model=False)
    return _run((pi.program, *EXTENSIONS, *what_it_lacks(commands), *line.agent_args))


def what_it_lacks(commands: Collection[str]) -> Iterator[str]:
    """Arguments for our skills and prompts, except those that are installed. pi would warn about a second one."""
    for skill in sorted(bundled("skills").iterdir()):
        if f"skill:{skill.name}" not in commands:
            yield from ("--skill", str(skill))
    for prompt in sorted(PROMPTS.glob("*.md")):
        if prompt.stem not in commands:
            yield from ("--prompt-template", str(prompt))


def _run(argv: tuple[str, ...]) -> int:
    path = path_with_us(os.environ.get("PATH", os.defpath))
    env = {**os.environ, "PATH": path, "MARATHON_BARE": json.dumps(sys.argv[1:])}
    command = Command(argv, Path.cwd(), env, terminal=True, session=False)
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
