"""pi-marathon install: the extension and the skills, for every pi session."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon._bundled import bundled
from marathon.agents.pi.find import EXTENSION, PROMPTS, agent_folder
from marathon.disk.install import copy_all, files_below


@click.command("install")
@click.option("--project", is_flag=True, help="Into this project's .pi instead of your own folder.")
def command(project: bool) -> None:
    """Copy pi's extension (/marathon-… commands) and the skills (/scribe, /loop) to where pi finds them.

    Not needed for --task: the runner brings its extension along. It can be repeated; your own versions are kept.
    """
    home = Path.cwd() / ".pi" if project else agent_folder(os.environ)
    files = [
        (EXTENSION, home / "extensions" / EXTENSION.name),
        *files_below(bundled("skills"), home / "skills"),
        *files_below(PROMPTS, home / "prompts"),
    ]
    done = copy_all(files, datetime.now(UTC))
    for line in done:
        click.echo(f"Wrote {line}")
    click.echo(f"{'Installed' if done else 'Everything is there already'}: {home}. In pi: /marathon-status, /scribe")
