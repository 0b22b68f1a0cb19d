"""pi-marathon repeat: makes a task for the plain loop and starts it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from marathon.cli.arguments import message_text
from marathon.cli.commands.task import as_item, fill, first_state, free_folder, kebab
from marathon.cli.find import TASKS, project_root
from marathon.cli.human import refuse_in_a_session
from marathon.cli.main import cli, run_line
from marathon.cli.success import agree_to_typed, offer_commands
from marathon.errors import WrongUsage
from marathon.show.program import program
from marathon.store.definitions import BUILT_IN
from marathon.store.files import read_regular
from marathon.store.home import INSTRUCTIONS, STATE
from marathon.store.places import index_folder
from marathon.store.task import create_task
from marathon.store.task_index import remember_task

LOOP = "loop"
MEMORY = "task.md"
_OF_A_TASK_THAT_IS_THERE = ("task", "human", "workflow", "yes", "here", "adopt", "version")


@click.command(
    "repeat",
    context_settings={"auto_envvar_prefix": "PI_MARATHON", "max_content_width": 110},
    params=[option for option in cli.params if option.name not in _OF_A_TASK_THAT_IS_THERE],
)
@click.argument("name")
@click.argument("goal")
@click.argument("agent_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("--success", multiple=True, help="How it is checked; a command stands in `backticks`. May be repeated.")
@click.option("--no-start", is_flag=True, help="Only make the task.")
@click.pass_context
def repeat(
    ctx: click.Context, /, name: str, goal: str, success: tuple[str, ...], no_start: bool, **options: Any
) -> None:
    """Make a task NAME for the plain loop and start it: session after session works on GOAL (- reads standard input).

    task.md is the memory between the sessions. The loop ends when every box in it is ticked and the criteria hold.
    """
    if "/" in name or "\\" in name or name.startswith("."):
        raise WrongUsage(f"{name[:60]!r} is a path. Give a name for the task, such as fix-types. Nothing was made.")
    if not no_start:
        refuse_in_a_session("repeat")
    texts = {"goal": message_text(goal), "success": "\n".join(map(as_item, success))}
    os.chdir(project_root(Path.cwd()))
    folder = free_folder(TASKS, kebab(name))
    files = _files(name, texts)
    if not options["as_json"]:
        said, _ = offer_commands(files[INSTRUCTIONS].decode(), Path.cwd(), typed=True)
        files[INSTRUCTIONS] = said.encode()
    create_task(folder, files.items())
    agree_to_typed(folder, Path.cwd())
    remember_task(index_folder(), folder.resolve(), Path.cwd())
    click.echo(f"Made {folder} with {INSTRUCTIONS} and {MEMORY}.", err=True)
    ctx.meta["agent_args"] = options.pop("agent_args")
    if not no_start:
        run_line(ctx, {**options, "task": folder})
    click.echo(json.dumps({"task": str(folder.resolve())}) if options["as_json"] else f"{program()} --task {folder}")


def _files(name: str, texts: dict[str, str]) -> dict[str, bytes]:
    """The instructions, the memory, and a STATE.json that names the workflow."""
    return {
        INSTRUCTIONS: fill(b"# Title\n\n## Goal\n\n## Success Criteria\n", name, texts),
        MEMORY: fill(read_regular(BUILT_IN / LOOP / MEMORY) or b"", name, {"goal": texts["goal"]}),
        STATE: first_state(LOOP, Path.cwd()),
    }
