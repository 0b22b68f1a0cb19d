"""Offers what looks like a command as one, and takes what a human typed at a terminal as agreed to."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import click

from marathon.cli.human import typed_by_a_human
from marathon.core.criteria import bare_commands
from marathon.core.text import one_line
from marathon.process.terminal import interactive
from marathon.runner.verify import found_criteria, remember
from marathon.store.places import trusted_folder
from marathon.store.task import Task
from marathon.store.trusted import Trusted

# Programs that check a project, whether or not they are installed here.
_RUNNERS = (
    *("npm", "npx", "pnpm", "yarn", "bun", "deno", "node", "tsc", "eslint", "pytest", "tox", "nox", "ruff", "mypy"),
    *("uv", "poetry", "cargo", "go", "make", "just", "mvn", "gradle", "dotnet", "bundle", "rake", "composer", "mix"),
)


def offer_commands(text: str, project: Path, *, typed: bool) -> tuple[str, frozenset[str]]:
    """The instructions with every criterion as code that the human wants to be run, and these commands.

    Enter means yes for what was `typed`, and no for what came from elsewhere.
    """
    wanted, lines = set[str](), text.split("\n")
    found = bare_commands(text, _is_program(project)) if interactive() else {}
    for number, (command, as_code) in found.items():
        click.echo(f"A criterion looks like a command:\n  {one_line(command, 1000)}")
        if click.confirm("Run this as a command?", default=typed):
            lines[number] = as_code
            wanted.add(command)
    return "\n".join(lines), frozenset(wanted)


def agree_to_typed(folder: Path, project: Path, wanted: Collection[str] | None = None) -> None:
    """What a human has just typed is not asked again. `wanted`: only these commands were typed or agreed to."""
    if not typed_by_a_human():
        return
    trusted = Trusted(trusted_folder())
    found = found_criteria(Task.look(folder), project, (), trusted)
    commands = [each.command for each in found.criteria if each.command]
    if commands and not found.problem and (wanted is None or set(commands) <= set(wanted)):
        remember(trusted, found, project)


def terminal_after_input() -> None:
    """The text came from a file or a pipe. Who typed the command can still be asked, if there is a terminal."""
    if os.isatty(0) or not os.isatty(1):
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - as long as we live


def _is_program(project: Path) -> Callable[[str], bool]:
    def known(word: str) -> bool:
        return word in _RUNNERS or bool(shutil.which(word)) or ("/" in word and os.access(project / word, os.X_OK))

    return known
