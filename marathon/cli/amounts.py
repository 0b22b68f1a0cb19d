"""Budgets as they are typed: 10 is the total, +10 is that much more than was used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import click

_MOST = 1e12


class Amount(NamedTuple):
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


def _whole(text: str) -> float | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def _money(text: str) -> float | None:
    try:
        number = float(text.removeprefix("$"))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 and not text.startswith("-") else None


def _duration(text: str) -> float | None:
    from marathon.core.text import seconds_in  # here, because --help need not load it

    return seconds_in(text)


SESSIONS = AmountType("sessions", _whole, "20")
TOKENS = AmountType("tokens", _whole, "2000000")
MONEY = AmountType("dollars", _money, "10")
TIME = AmountType("duration", _duration, "90m")

# The options that are budgets, and the field of Limits each sets.
BUDGETS = {
    "max_iterations": "max_iterations",
    "max_time": "max_seconds",
    "max_cost": "max_cost",
    "max_tokens": "max_tokens",
}


def usual_value(ctx: click.Context, name: str) -> float:
    """A budget by environment, file or default, as if nothing was typed. `+10` is for the command line only."""
    option = next(each for each in ctx.command.params if each.name == name)
    known = (option.value_from_envvar(ctx), ctx.lookup_default(name), option.default)
    found = option.type.convert(next(value for value in known if value is not None), option, ctx)
    if found.added:
        raise click.BadParameter(f"+{found.value:g} works only on the command line.", ctx, option)
    return float(found.value)
