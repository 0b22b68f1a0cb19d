"""pi-marathon install: gives every pi session the extension and the skills, or Claude Code the hooks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon._bundled import bundled
from marathon.agents.claude.settings import SettingsUnexpected, with_hooks, without_hooks
from marathon.agents.claude.state import SKILLS
from marathon.agents.pi.find import EXTENSION, INSIDE, LOOPS, PARTS, PROMPTS
from marathon.errors import WrongUsage
from marathon.show.program import program
from marathon.store.install import copy_all, files_below, remove_all, replace_renamed, rewrite
from marathon.store.places import claude_folder, pi_folder

RENAMED = ("repeat", "workflow")  # skills that are called marathon-… now
CLAUDE_HINT = (
    "In Claude Code, type /hooks to see them. "
    'To begin a loop: pi-marathon claude-loop init "GOAL" --criterion "WHAT HAS TO BE TRUE"'
)


@click.command("install")
@click.option("--claude", is_flag=True, help="Install Claude Code's hooks (Stop, SessionStart) and the skills.")
@click.option("--project", is_flag=True, help="Install into this project's .pi (.claude), not into your own folder.")
def command(claude: bool, project: bool) -> None:
    """Copy pi's extensions (/marathon-…, the multiloop_… tools) and the skills (/scribe, /loop) to where pi finds them.

    With --claude: add the hooks to Claude Code's settings.json and copy the skills. The rest of the file stays.
    --task does not need this, because the runner brings its extension along. You can repeat it: your own versions of
    the files are kept.
    """
    home, done = _for_claude(project) if claude else _for_pi(project)
    for line in renewed_skills(home):
        click.echo(line)
    for line in done:
        click.echo(f"Wrote {line}")
    hint = CLAUDE_HINT if claude else "In pi, try /marathon-status or /scribe."
    if project and not claude:
        hint += " pi asks once whether you trust this project."
    click.echo(f"{'Installed in' if done else 'Everything is already in'} {home}. {hint}")


@click.command("uninstall")
@click.option("--claude", is_flag=True, help="Remove Claude Code's hooks and the skills.")
@click.option(
    "--project", is_flag=True, help="Remove them from this project's .pi (.claude), not from your own folder."
)
def uninstall(claude: bool, project: bool) -> None:
    """Take back what `pi-marathon install` added. What you changed in it stays."""
    if claude:
        home = Path.cwd() / ".claude" if project else claude_folder()
        written = _rewrite(home / "settings.json", without_hooks, "remove hooks from")
        done = [f"Wrote {written}"] if written else []
        done += remove_all(_files_for_claude(home))
    else:
        home = Path.cwd() / ".pi" if project else pi_folder()
        done = remove_all(files_for_pi(home))
    for line in done:
        click.echo(line)
    click.echo(f"{'Removed from' if done else 'There is nothing of pi-marathon in'} {home}.")


def renewed_skills(home: Path) -> list[str]:
    """What is said of installed skills that have another name now."""
    return replace_renamed(home / "skills", bundled("skills"), RENAMED, datetime.now(UTC))


def _for_pi(project: bool) -> tuple[Path, list[str]]:
    home = Path.cwd() / ".pi" if project else pi_folder()
    return home, copy_all(files_for_pi(home), datetime.now(UTC))


def files_for_pi(home: Path) -> list[tuple[Path, Path]]:
    """Each file of ours, and where it goes in a folder of pi."""
    return [
        *((extension, home / "extensions" / extension.name) for extension in (EXTENSION, INSIDE, LOOPS)),
        *files_below(PARTS, home / "extensions" / PARTS.name),
        *files_below(bundled("skills"), home / "skills"),
        *files_below(PROMPTS, home / "prompts"),
    ]


def _for_claude(project: bool) -> tuple[Path, list[str]]:
    home = Path.cwd() / ".claude" if project else claude_folder()
    written = _rewrite(home / "settings.json", lambda text: with_hooks(text, program()), "add hooks to")
    return home, [*([written] if written else []), *copy_all(_files_for_claude(home), datetime.now(UTC))]


def _rewrite(settings: Path, change: Callable[[str], str], doing: str) -> str:
    try:
        return rewrite(settings, change, datetime.now(UTC))
    except (SettingsUnexpected, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise WrongUsage(f"Cannot {doing} {settings}: {reason}. Fix it first; nothing was changed.") from error


def _files_for_claude(home: Path) -> list[tuple[Path, Path]]:
    """Each skill of ours, and where it goes in a folder of Claude Code."""
    # Claude Code has its own /loop, which a skill of that name would hide.
    names = {skill: "marathon-loop" if skill.name == "loop" else skill.name for skill in bundled("skills").iterdir()}
    skills = [file for skill, name in sorted(names.items()) for file in files_below(skill, home / "skills" / name)]
    return [*skills, *files_below(SKILLS, home / "skills")]
