"""pi-marathon demo: a complete marathon in a small throw-away project."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

import click

from marathon.cli.program import NAME, program
from marathon.demo_project import unpack
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive

PACE_ON_A_TERMINAL = "0.25"


@click.command("demo")
@click.option("--into", metavar="DIR", help="Make the project in this folder instead of a temporary one.")
@click.pass_context
def command(ctx: click.Context, into: str | None) -> None:
    """Watch a whole marathon with the built-in rehearsal agent: no key, no network."""
    folder = Path(into).resolve() if into else Path(tempfile.mkdtemp(prefix="pi-marathon-demo-"))
    try:
        task = unpack(folder)
    except OSError as error:
        raise WrongUsage(
            f"The demo cannot make its project in {folder}: {error.strerror or error}. Choose another with --into."
        ) from error
    asked, name = interactive(), program()
    click.echo(f"The demo's project is {folder}; it stays there. Its task: {task.relative_to(folder)}")
    if not asked:
        click.echo("There is no terminal, so the demo approves its own reviews (--auto-approve).")
    if name != NAME:
        click.echo(f"{NAME} is not on your PATH. For {NAME} below, type {name}")
    os.chdir(folder)
    # Our own Python comes last in PATH, so that the demo's check finds one on every machine.
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    os.environ.setdefault("MARATHON_REHEARSAL_PACE", PACE_ON_A_TERMINAL if asked else "0")
    from marathon.cli.options import CommandLine
    from marathon.cli.run import run_task

    # We wrote the commands that check the demo's task, so they are trusted.
    shown, there = task.relative_to(folder), f"cd {shlex.quote(str(folder))} &&"
    resume = f"{there} {name} --task {shown} --agent rehearsal"
    line = CommandLine(task=shown, agent="rehearsal", auto_approve=not asked, trust=True, resume_here=resume)
    code = run_task(line, shown)
    click.echo(f"Look around: {there} git log --stat && {name} status {shown}")
    ctx.exit(code)
