"""pi-marathon install: the extension and the skills for every pi session, or the hooks for Claude Code."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon._bundled import bundled
from marathon.agents.claude.settings import SettingsUnexpected, with_hooks
from marathon.agents.pi.find import EXTENSION, PROMPTS, agent_folder
from marathon.errors import WrongUsage
from marathon.store.install import copy_all, files_below, rewrite


@click.command("install")
@click.option(
    "--claude", is_flag=True, help="Claude Code's hooks (Stop, SessionStart) and the skills, instead of pi's."
)
@click.option("--project", is_flag=True, help="Into this project's .pi (.claude) instead of your own folder.")
def command(claude: bool, project: bool) -> None:
    """Copy pi's extension (/marathon-… commands) and the skills (/scribe, /loop) to where pi finds them.

    With --claude: write the hooks into Claude Code's settings.json, beside whatever is there, and copy the skills.
    Not needed for --task: the runner brings its extension along. It can be repeated; your own versions are kept.
    """
    home, done = _for_claude(project) if claude else _for_pi(project)
    for line in done:
        click.echo(f"Wrote {line}")
    hint = "In Claude Code: /hooks shows them" if claude else "In pi: /marathon-status, /scribe"
    click.echo(f"{'Installed' if done else 'Everything is there already'}: {home}. {hint}")


def _for_pi(project: bool) -> tuple[Path, list[str]]:
    home = Path.cwd() / ".pi" if project else agent_folder(os.environ)
    files = [
        (EXTENSION, home / "extensions" / EXTENSION.name),
        *files_below(bundled("skills"), home / "skills"),
        *files_below(PROMPTS, home / "prompts"),
    ]
    return home, copy_all(files, datetime.now(UTC))


def _for_claude(project: bool) -> tuple[Path, list[str]]:
    home = Path.cwd() / ".claude" if project else _claude_folder()
    settings, now = home / "settings.json", datetime.now(UTC)
    try:
        written = rewrite(settings, lambda text: with_hooks(text, _program()), now)
    except SettingsUnexpected as error:
        raise WrongUsage(f"{settings} cannot be added to: {error}. Mend it first; nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise WrongUsage(f"{settings} is not UTF-8 text. Mend it first; nothing was changed.") from error
    skills = [
        pair
        for skill in sorted(bundled("skills").iterdir())
        for pair in files_below(skill, home / "skills" / _name_in_claude(skill.name))
    ]
    return home, [*([written] if written else []), *copy_all(skills, now)]


def _name_in_claude(skill: str) -> str:
    """Claude Code has a /loop of its own, which a skill of that name would hide."""
    return "marathon-loop" if skill == "loop" else skill


def _claude_folder() -> Path:
    """Where Claude Code keeps its own: CLAUDE_CONFIG_DIR, else ~/.claude."""
    chosen = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(chosen) if chosen else Path(os.environ.get("HOME") or "~").expanduser() / ".claude"


def _program() -> str:
    """This program as any shell finds it, quoted."""
    if shutil.which("pi-marathon"):
        return "pi-marathon"
    checkout = Path(__file__).resolve().parents[3] / "bin" / "pi-marathon"
    for path in (checkout, Path(sys.executable).parent / "pi-marathon"):
        if os.access(path, os.X_OK):
            return shlex.quote(str(path))
    return f"{shlex.quote(sys.executable)} -P -m marathon"
