"""pi-marathon score DIR: how well its instructions are specified."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

import click

from marathon.cli.arguments import task_path
from marathon.cli.directory import TASK_DIRECTORY
from marathon.core.criteria import said_in_full
from marathon.core.score import BEST, MEANING, Score, score
from marathon.core.text import clean, one_line
from marathon.errors import TaskInvalid
from marathon.store.files import read_regular
from marathon.store.task import INSTRUCTIONS, Task

LONGEST = 1 << 20


@click.command("score")
@click.argument("directory", metavar="DIR", type=TASK_DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(directory: str, as_json: bool) -> None:
    """How well the instructions in DIR say what to do: five questions, 0 to 2 points each, and what to add.

    8 and more: the agent can be left alone. 5 to 7: a look after every session. Below 5: say more first.
    """
    shown = task_path(directory)
    rating = score(said_in_full(Task.look(shown).criteria_texts()[0], _instructions(shown)))
    if as_json:
        click.echo(json.dumps(_as_json(shown, rating), indent=2))
    else:
        click.echo("\n".join([*table(rating), "", *summary(rating), *_advice(shown, rating)]))


def table(rating: Score) -> list[str]:
    """A line for each question."""
    return [f"{point.question:12} {point.points}/2  {one_line(point.reason)}" for point in rating.points]


def summary(rating: Score) -> list[str]:
    """The total, and what follows from it."""
    return [f"{rating.total} of {BEST}: {rating.shape}. {MEANING[rating.shape]}"]


def missing(rating: Score) -> list[str]:
    return [f"  {one_line(text)}" for text in rating.missing]


def _advice(shown: Path, rating: Score) -> list[str]:
    if not rating.missing:
        return []
    return ["", f"What to add to {clean(shlex.quote(str(shown / INSTRUCTIONS)))}:", *missing(rating)]


def _as_json(shown: Path, rating: Score) -> dict[str, object]:
    return {
        "task": str(shown),
        "total": rating.total,
        "of": BEST,
        "shape": rating.shape,
        "points": [asdict(point) for point in rating.points],
        "missing": rating.missing,
    }


def _instructions(shown: Path) -> str:
    """What a task's instructions say; a file that would have to be looked for elsewhere is not its own."""
    folder = Task.look(shown).folder
    try:
        path = (folder / INSTRUCTIONS).resolve()
        data = read_regular(path, LONGEST) if path.is_relative_to(folder) else None
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TaskInvalid(f"{shown / INSTRUCTIONS} cannot be read: {reason}.") from error
    if data is None:
        raise TaskInvalid(f"{shown} has no {INSTRUCTIONS} of its own. Write what is to be done into it.")
    return data[:LONGEST].decode("utf-8", "replace")
