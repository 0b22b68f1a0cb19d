"""pi-marathon demo: a complete marathon, or with --loop a measured loop, in a small throw-away project."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from marathon.demo_project import unpack, unpack_loop
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive
from marathon.show.program import NAME, program

PACE_ON_A_TERMINAL = "0.25"
LANE = "anagrams"
LOOP: dict[str, Any] = {
    "mode": "optimize",
    "verify_command": "python3 bench.py",
    "guard_command": "python3 -m unittest discover -q -s tests",
    "metric_name": "steps",
    "protected_paths": ("words.txt",),
    "max_iterations": 7,
    "measured_by": "runner",
    # What the agent never sees: the answer for some of the words must not contain the others.
    "holdout": (
        "python3 -c \"from anagrams import groups; words = open('words.txt').read().split()[:9]; "
        'assert all(set(group) <= set(words) for group in groups(words))"'
    ),
}


@click.command("demo")
@click.option("--into", metavar="DIR", help="Make the project in this folder instead of a temporary one.")
@click.option("--loop", "measured", is_flag=True, help="A measured loop instead: make a small program cheaper.")
@click.pass_context
def command(ctx: click.Context, into: str | None, measured: bool) -> None:
    """Watch a whole marathon with the built-in rehearsal agent: no key, no network."""
    folder = Path(into).resolve() if into else Path(tempfile.mkdtemp(prefix="pi-marathon-demo-"))
    try:
        if measured:
            ctx.exit(_measured_loop(ctx, folder))
        ctx.exit(_marathon(folder))
    except OSError as error:
        raise WrongUsage(
            f"The demo cannot make its project in {folder}: {error.strerror or error}. Choose another with --into."
        ) from error


def _enter(folder: Path, *, ours_first: bool = False) -> str:
    """Make the demo's folder the current one, and return what to type for pi-marathon in it."""
    name = program()
    if name != NAME:
        click.echo(f"{NAME} is not on your PATH. For {NAME} below, type {name}")
    os.chdir(folder)
    # Our own Python is in PATH, so that the demo's commands find one on every machine.
    path = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    os.environ["PATH"] = os.pathsep.join(reversed(path) if ours_first else path)
    os.environ.setdefault("MARATHON_REHEARSAL_PACE", PACE_ON_A_TERMINAL if interactive() else "0")
    return name


def _measured_loop(ctx: click.Context, folder: Path) -> int:
    if not unpack_loop(folder):
        raise WrongUsage("A measured loop keeps and reverts with git, and git does not work here. Try: git --version")
    click.echo(f"The demo's project is {folder}; it stays there.")
    click.echo(
        "A scripted agent now tries to make anagrams.py cheaper. Some of what it tries is worse, wrong or cheats."
    )
    name = _enter(folder, ours_first=True)  # it is started about a hundred times, and some others start slowly
    from marathon.cli.commands import loop
    from marathon.cli.loop_run import run_loop
    from marathon.cli.options import CommandLine

    ctx.invoke(loop.start, goal="Find anagrams in fewer steps", lane=LANE, tag=None, as_json=False, **LOOP)
    agent = (sys.executable, "-P", "-m", "marathon.demo_project.loop_agent")
    # We wrote the commands that measure the demo's loop, so they are trusted.
    there = f"cd {shlex.quote(str(folder))} &&"
    resume = f"{there} {name} loop run {LANE} --agent command -- {shlex.join(agent)}"
    line = CommandLine(task=None, agent="command", agent_args=agent, trust=True, resume_here=resume)
    code = run_loop(LANE, line)
    ctx.invoke(loop.plot, target=LANE, output=None, as_json=False)
    click.echo(f"Look around: {there} {name} loop status {LANE}")
    click.echo(f"  One iteration, with its diff: {name} loop show {LANE} 1")
    return code


def _marathon(folder: Path) -> int:
    task = unpack(folder)
    asked = interactive()
    click.echo(f"The demo's project is {folder}; it stays there. Its task: {task.relative_to(folder)}")
    if asked:
        os.environ["MARATHON_REHEARSAL_HINT"] = "Try f, then: please skip slug"  # the agent's note at the first gate
    else:
        click.echo("There is no terminal, so the demo approves its own reviews (--auto-approve).")
    name = _enter(folder)
    from marathon.cli.options import CommandLine
    from marathon.cli.run import run_task
    from marathon.runner.loop import COMPLETED

    # We wrote the commands that check the demo's task, so they are trusted.
    shown, there = task.relative_to(folder), f"cd {shlex.quote(str(folder))} &&"
    resume = f"{there} {name} --task {shown} --agent rehearsal"
    line = CommandLine(task=shown, agent="rehearsal", auto_approve=not asked, trust=True, resume_here=resume)
    code = run_task(line, shown)
    click.echo(f"Look around: {there} git log --stat && {name} status {shown}")
    if code == COMPLETED:
        click.echo(f"Now yours, in a project of your own: {name} new")
    return code
