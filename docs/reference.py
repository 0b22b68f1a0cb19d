"""Prints every command and option, as the program knows them: python -m docs.reference > docs/reference.md"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator

import click

from marathon.cli.arguments import EVERYTHING
from marathon.cli.main import EXIT_CODES, REMOVED, SECTIONS, cli
from marathon.cli.settings import ProjectSettings, UserSettings

HEAD = """\
# Reference

Every command and option, printed from the program (`python -m docs.reference`). `pi-marathon COMMAND --help` says the
same in a terminal. A TASK is a path or a part of a name, and may be left out where only one can be meant; `rm`,
`cancel` and `repair` want it named, and `run` asks. A value in `[=…]` follows after `=` only.
"""
OPTIONS = """\
## Options of a run

`pi-marathon --task TASK`, `run`, `new --run` and `repeat` take them. Most may also stand in the environment, as
`PI_MARATHON_` and the name in capitals; a budget as `+10` is for the command line only. A task goes on with what it was
started with.

`--agent` takes pi (the usual one), claude, codex, gemini, opencode, rehearsal, and acp or command with a PROGRAM after
`--`; with `a,b`, b takes over when a cannot work. `--sandbox` takes on, offline or off.
"""


def page() -> str:
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    context = click.Context(cli, info_name="pi-marathon")
    context.meta[EVERYTHING] = True
    yield HEAD
    for heading, commands in SECTIONS.items():
        yield f"## {heading}\n"
        for name in commands:
            command = cli.get_command(context, name)
            assert command
            yield from _command(command, click.Context(command, parent=context, info_name=name), "###")
    yield OPTIONS
    yield from _table([*cli.params, cli.get_help_option(context)], context)
    yield f"{EXIT_CODES}\n".replace("\n5", " 5")
    yield "## Settings\n"
    both = sorted(ProjectSettings.model_fields)
    own = sorted(set(UserSettings.model_fields) - set(both))
    yield f"In `~/.config/pi-marathon/config.toml`: {_names(both)}."
    yield f"Only there: {_names(own)}. A project's `.marathon/config.toml` may tighten the others.\n"
    yield "## Other words\n"
    yield "What other programs and older versions call it. The program answers these words with what to type.\n"
    yield "| typed | now |\n|---|---|"
    for word, line in REMOVED.items():
        yield f"| `{word}` | `{_cell(f'pi-marathon {line}'.replace('   To follow it: ', '`, to follow it: `'))}` |"


def _command(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    yield f"{level} {command.name if level == '###' else context.command_path.partition(' ')[2]}\n"
    if not isinstance(command, click.Group):
        yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}\n"
    yield _prose(command.help or "")
    of_a_run = any(each in cli.params for each in command.params)
    yield from _table([each for each in command.params if each not in cli.params], context)
    if of_a_run:
        yield "Also the options of a run, see below.\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from _command(below, click.Context(below, parent=context, info_name=name), "####")


def _prose(text: str) -> str:
    """What a command says of itself. A block that is not to be wrapped becomes code."""
    parts = [part.split("\b\n", 1) for part in inspect.cleandoc(text).split("\n\n")]
    said = (f"    {part[1]}".replace("\n", "\n    ") if len(part) > 1 else part[0] for part in parts)
    return "\n\n".join(said) + "\n"


def _table(params: list[click.Parameter | None], context: click.Context) -> Iterator[str]:
    rows = []
    for each in params:
        if isinstance(each, click.Option):
            shown = copy.copy(each)
            shown.hidden = False
            rows.append(shown.get_help_record(context))
    if found := [row for row in rows if row]:
        yield "| option | |\n|---|---|"
        for names, told in found:
            yield f"| `{_cell(names)}` | {_cell(told)} |"
        yield ""


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _names(fields: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in fields)


if __name__ == "__main__":
    print(page(), end="")
