"""Reads what a user typed: the types of options and arguments. `--help` loads this module."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from marathon.errors import WrongUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from marathon.cli.find import WhenOmitted

Command = Callable[..., Any]
_MOST = 1e12
LONGEST_MESSAGE = 1_000_000  # characters; a message of this size is delivered whole
# The options that are budgets, and the field of Limits each sets.
BUDGETS = {
    "max_iterations": "max_iterations",
    "max_time": "max_seconds",
    "max_cost": "max_cost",
    "max_tokens": "max_tokens",
}


class Amount(NamedTuple):
    """A budget as typed: 10 is the total, +10 is that much more than was used."""

    value: float
    added: bool = False


class AmountType(click.ParamType[Amount]):
    """Reads an amount; `read` returns None for what is no amount."""

    def __init__(self, name: str, read: Callable[[str], float | None], example: str) -> None:
        self.name = name
        self._read = read
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Amount:
        if isinstance(value, Amount):
            return value
        text = str(value).strip()
        number = self._read(text.removeprefix("+"))
        if number is None or number > _MOST:
            self.fail(f"{text!r} is not an amount. Write it like {self._example}, or +{self._example} for more.")
        return Amount(number, text.startswith("+"))


class DurationType(click.ParamType[float]):
    """Reads 90, 90s, 5m, 2h, 1d or 1.5h as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = value if isinstance(value, float) else _duration(value)
        if seconds is None:
            self.fail(f"{value!r} is not a duration. Write it like 90s, 5m or 2h.", param, ctx)
        return seconds


class HoursType(click.ParamType[str]):
    """Reads 20:00-07:00, or any."""

    name = "from-to"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from marathon.core.hours import parse_hours  # `--help` does not need it

        text = "" if value == "any" else str(value).strip()
        if text and parse_hours(text) is None:
            self.fail(f"{text!r} is not a part of the day. Write it like 20:00-07:00, or any.", param, ctx)
        return text


class TaskDirectory(click.ParamType[Path]):
    """Reads a task by its path or by a part of its name; the shell completes names."""

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if "\0" in str(value) or not str(value).strip():
            raise WrongUsage(
                "The name of the task directory is empty or invalid. Give the directory that holds instructions.md."
            )
        return Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if incomplete.startswith((".", "/", "~")) or "/" in incomplete:
            return [CompletionItem(incomplete, type="dir")]
        from marathon.cli.find import offered

        return [CompletionItem(name) for name in offered(incomplete)]


def _whole(text: str) -> float | None:
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


def _money(text: str) -> float | None:
    return float(text.removeprefix("$")) if re.fullmatch(r"\$?([0-9]+(\.[0-9]*)?|\.[0-9]+)", text) else None


def _duration(text: str) -> float | None:
    from marathon.core.text import seconds_in  # `--help` does not need it

    return seconds_in(text)


class SandboxType(click.Choice[str]):
    """Reads on, offline or off. A list of hosts is refused with what does that."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if "." in str(value) or "," in str(value):
            self.fail(
                "the network is on or off here, not open for some hosts. For that run pi-marathon in a container or "
                "behind a firewall that limits it, or use the agent's own setting, such as Claude Code's "
                "sandbox.network.allowedDomains.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


SANDBOX = SandboxType(["on", "offline", "off"])
SESSIONS = AmountType("sessions", _whole, "20")
TOKENS = AmountType("tokens", _whole, "2000000")
MONEY = AmountType("dollars", _money, "10")
TIME = AmountType("duration", _duration, "90m")
DURATION = DurationType()
HOURS = HoursType()
TASK = TaskDirectory()


# Options of the runner

EVERYTHING = "help lists everything"  # what `--help --all` leaves in the context


class MoreOption(click.Option):
    """Listed by `--help --all` only."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.meta.get(EVERYTHING) else None


class OptionalValue(click.Option):
    """A value may follow after `=`, and only so: the next word is never taken for it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        names, told = super().get_help_record(ctx) or ("", "")
        return names.replace(" [=", "[="), told


more_option = functools.partial(click.option, cls=MoreOption)


def optional_value(name: str, without: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(name, cls=OptionalValue, is_flag=False, flag_value=without, **settings)


def with_values(args: Sequence[str], params: Sequence[click.Parameter]) -> list[str]:
    """The command line in which every option that may have a value has one."""
    options = [each for each in params if isinstance(each, click.Option)]
    values = {name: each.flag_value for each in options if isinstance(each, OptionalValue) for name in each.opts}
    taking = {name for each in options if not each.is_flag for name in each.opts} - values.keys()
    end, made = args.index("--") if "--" in args else len(args), list(args)
    for at, word in enumerate(args[:end]):
        if word in values and (at == 0 or args[at - 1] not in taking):
            made[at] = f"{word}={values[word]}"
    return made


class RunnerCommand(click.Command):
    """A command with options of the runner."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_values(args, self.params))


class RunnerCommandForAgent(RunnerCommand):
    """And everything after a bare `--` is for the agent, if one runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        if args[at:] and (self.name == "run" or "--run" in args[:at]):
            ctx.meta["agent_args"] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


# Tasks


def _entered(ctx: click.Context, typed: Path | None, when: WhenOmitted | None = None) -> Path | None:
    """The task from its project's folder, in which the command goes on."""
    if ctx.resilient_parsing:  # the shell asks for completions
        return typed
    from marathon.cli.find import enter, enter_omitted

    return enter(typed) if typed else enter_omitted(when) if when else None


DIRECTORY = click.argument("shown", metavar="TASK", type=TASK, callback=lambda ctx, param, typed: _entered(ctx, typed))


def optional_task(when: WhenOmitted) -> Callable[[Command], Command]:
    """A task that may be left out where only one can be meant."""
    return click.argument(
        "shown",
        metavar="[TASK]",
        required=False,
        type=TASK,
        callback=lambda ctx, param, typed: _entered(ctx, typed, when),
    )


def task_and_text(when: WhenOmitted, or_none: WhenOmitted | None = None) -> Callable[[Command], Command]:
    """A text for a task, as one pair (`said`). The task may be left out where only one can be meant.

    With `or_none` the text may be left out too. Then it says which task is meant.
    """

    def read(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> tuple[Path | None, str | None]:
        if ctx.resilient_parsing:
            return None, ""
        from marathon.cli.find import is_named

        named = len(words) == 2 or (len(words) == 1 and is_named(words[0]))
        task, text = TASK.convert(words[0], param, ctx) if named else None, words[1 if named else 0 :]
        if not text and or_none:
            return _entered(ctx, task, or_none), None
        if named and not text:
            raise click.UsageError(f'The text is missing: {ctx.command_path} {words[0]} "TEXT"', ctx)
        if len(text) != 1:
            raise click.UsageError(f'Give a text, in quotes: {ctx.command_path} [TASK] "TEXT"', ctx)
        return _entered(ctx, task, when), text[0]

    shown = "[TASK] [TEXT]" if or_none else "[TASK] TEXT"
    return click.argument("said", metavar=shown, nargs=-1, callback=read, shell_complete=TASK.shell_complete)


def task_and_words(when: WhenOmitted, words: str) -> Callable[[Command], Command]:
    """A task and other words, as one pair (`said`). The first word is the task if it means one."""

    def read(ctx: click.Context, param: click.Parameter, typed: tuple[str, ...]) -> tuple[Path | None, list[str]]:
        if ctx.resilient_parsing:
            return None, []
        from marathon.cli.find import is_task_here

        named = bool(typed) and is_task_here(typed[0])
        task = TASK.convert(typed[0], param, ctx) if named else None
        return _entered(ctx, task, when), list(typed[1 if named else 0 :])

    return click.argument(
        "said", metavar=f"[TASK] {words}", nargs=-1, callback=read, shell_complete=TASK.shell_complete
    )


def usual_value(ctx: click.Context, name: str) -> float:
    """A budget by environment, file or default, as if nothing was typed. `+10` is for the command line only."""
    option = next(each for each in ctx.command.params if each.name == name)
    known = (option.value_from_envvar(ctx), ctx.lookup_default(name), option.default)
    found = option.type.convert(next(value for value in known if value is not None), option, ctx)
    if found.added:
        raise click.BadParameter(f"+{found.value:g} works only on the command line.", ctx, option)
    return float(found.value)


def message_text(text: str) -> str:
    """A human's text from the command line, or from standard input for '-', ready to be stored."""
    text = (sys.stdin.read(LONGEST_MESSAGE + 1) if text == "-" else text).encode("utf-8", "replace").decode().strip()
    if len(text) > LONGEST_MESSAGE:
        advice = "Put it into a file of the task, and send the name of that file."
        raise WrongUsage(f"The text has more than {LONGEST_MESSAGE:,} characters; nothing was recorded. {advice}")
    if not text:
        raise WrongUsage("The text is empty; nothing was recorded.")
    return text
