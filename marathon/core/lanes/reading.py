"""Reads the number from what verify printed. Where it is not plain which number is meant, there is none."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from marathon.core.text import one_line

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LINE = re.compile(r"METRIC[ \t]+([A-Za-z0-9._/-]+)[ \t]*=[ \t]*(\S+)[ \t]*", re.ASCII)


class NoMetric(ValueError):
    """The output has no number that can be used. This is a crash of verify, never a 0."""


class Contradiction(NoMetric):
    """The same number was printed twice, and not the same. One of them is not verify's."""


@dataclass(frozen=True)
class Reading:
    metric: float
    others: dict[str, float] = field(default_factory=dict)  # of the other METRIC lines


def read_metric(
    output: str, name: str | None = None, json_path: str | None = None, regex: str | None = None
) -> Reading:
    """The metric by JSON path, by regex, by a METRIC line, or the only thing that was printed."""
    if json_path is not None:
        return Reading(_by_path(output, json_path))
    if regex is not None:
        return Reading(_by_regex(output, regex))
    if values := metric_lines(output):
        return _by_lines(values, name)
    words = output.split()
    if len(words) == 1:
        return Reading(number_in(words[0]))
    what = f"METRIC {name or 'NAME'}=X"
    found = "nothing" if not words else "more than a number"
    raise NoMetric(f"verify printed {found}; it should print a line {what}, or the number alone")


def answers(output: str) -> tuple[str, ...]:
    """What verify's program has found out. It has to be the same on both sides."""
    return tuple(line.strip() for line in output.splitlines() if line.startswith("ANSWER "))


def number_in(text: str) -> float:
    """A finite number in plain notation. 1,234 and nan are none."""
    if not _NUMBER.fullmatch(text):
        raise NoMetric(f"{one_line(text, 60)!r} is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise NoMetric(f"{one_line(text, 60)!r} is not a finite number")
    return value


def metric_lines(output: str) -> dict[str, float]:
    """Every METRIC line."""
    values: dict[str, float] = {}
    for match in filter(None, (_LINE.fullmatch(line.rstrip("\r")) for line in output.splitlines())):
        value = number_in(match[2])
        if values.setdefault(match[1], value) != value:
            raise Contradiction(f"METRIC {match[1]} was printed twice, as {values[match[1]]:.6g} and as {value:.6g}")
    return values


def _by_lines(values: dict[str, float], name: str | None) -> Reading:
    if name is None and len(values) > 1:
        raise NoMetric(f"verify printed several metrics ({', '.join(values)}); --metric says which one counts")
    chosen = name if name is not None else next(iter(values))
    if chosen not in values:
        raise NoMetric(f"verify printed no METRIC {chosen}, only {', '.join(values)}")
    return Reading(values.pop(chosen), values)


def _by_path(output: str, path: str) -> float:
    try:
        value: Any = from_json(output, allow_inf_nan=False)
    except ValueError as error:
        raise NoMetric(f"verify did not print JSON ({one_line(str(error), 80)})") from None
    for part in path.removeprefix("$.").split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise NoMetric(f"the JSON that verify printed has no {one_line(path, 80)}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NoMetric(f"{one_line(path, 80)} is not a number: {one_line(str(value), 60)!r}")
    return float(value)


def _by_regex(output: str, regex: str) -> float:
    found = list(re.compile(regex, re.M).finditer(output))
    if len(found) != 1:
        raise NoMetric(f"the regex matches {len(found)} times; it has to match once")
    return number_in(found[0][1] if found[0].re.groups else found[0][0])


def regex_mistake(regex: str) -> str:
    """Why a regex cannot be used, or nothing."""
    try:
        groups = re.compile(regex).groups
    except re.error as error:
        return f"it is no regular expression ({error})"
    return "" if groups <= 1 else f"it has {groups} groups; one should hold the number"
