"""pi-marathon workflow list|show|check: the definitions there are."""

from __future__ import annotations

import os
from pathlib import Path

import click

from marathon.core.courses.workflow import Phase, Workflow
from marathon.errors import WrongUsage
from marathon.store.definitions import Library, load_workflows


@click.group("workflow")
def command() -> None:
    """Workflows: the project's .marathon/workflows/KEY/workflow.toml, the user's, and the built-in ones."""


@command.command("list")
def list_() -> None:
    """Every workflow, where it comes from, and those that were refused."""
    library = _library()
    for key, workflow in sorted(library.workflows.items()):
        click.echo(f"{key:20} {workflow.name:30} {library.sources[key]}")
    for key, reason in sorted(library.refused.items()):
        click.echo(f"{key:20} refused: {reason}")


@command.command("show")
@click.argument("key", shell_complete=lambda ctx, param, incomplete: _keys(incomplete))
def show(key: str) -> None:
    """The phases of one workflow, references opened."""
    library = _library()
    if key in library.refused:
        raise WrongUsage(f"The workflow {key!r} is refused: {library.refused[key]}")
    if key not in library.workflows:
        raise WrongUsage(f"There is no workflow {key!r}. See: pi-marathon workflow list")
    loop = "" if library.workflows[key].loopable else " (not loopable)"
    click.echo(f"{library.workflows[key].name}{loop}")
    _tree(library, library.workflows[key], "  ")


@command.command("check")
def check() -> None:
    """Say which definitions are refused and why; exit 1 if any is."""
    library = _library()
    for key, reason in sorted(library.refused.items()):
        click.echo(f"{key}: refused: {reason}", err=True)
    click.echo(f"{len(library.workflows)} usable, {len(library.refused)} refused.")
    if library.refused:
        raise SystemExit(1)


def _tree(library: Library, workflow: Workflow, indent: str) -> None:
    for number, entry in enumerate(workflow.phases, start=1):
        if isinstance(entry, Phase):
            marks = [mark for mark, on in (("gate", entry.gate), ("in chunks", entry.repeats)) if on]
            output = f" → {entry.output}" if entry.output else ""
            click.echo(
                f"{indent}{number}. {entry.emoji} {entry.name} ({entry.id}){output}  {', '.join(marks)}".rstrip()
            )
        else:
            click.echo(f"{indent}{number}. {library.workflows[entry.workflow].name} ({entry.workflow}):")
            _tree(library, library.workflows[entry.workflow], indent + "   ")


def _keys(incomplete: str) -> list[str]:
    return [key for key in sorted(_library().workflows) if key.startswith(incomplete)]


def _library() -> Library:
    return load_workflows(Path.cwd(), os.environ)
