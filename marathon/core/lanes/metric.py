"""Reads the one number that verify prints. What is not clear is said to be unclear, never guessed and never 0."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from marathon.core.lanes.model import LaneState
from marathon.core.text import one_line

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LINE = re.compile(r"^METRIC[ \t]+(?P<name>[\w.:/-]+)[ \t]*=[ \t]*(?P<value>\S+)[ \t]*$", re.M)


class Unclear(ValueError):
    """Why there is no number."""


def metric_in(output: str, state: LaneState) -> float:
    """By JSON path, by a regular expression, by a METRIC line, or the only thing that was printed."""
    if state.metric_json:
        return _by_path(output, state.metric_json)
    if state.metric_regex:
        found = [match.group(1 if match.re.groups else 0) for match in re.finditer(state.metric_regex, output)]
        return _the_one(found, f"the expression {state.metric_regex!r}")
    lines = [match.group("value") for match in _LINE.finditer(output) if _is_named(match.group("name"), state)]
    if lines:
        return _the_one(lines, f"METRIC {state.metric_name or '…'}")
    if re.fullmatch(_NUMBER, output.strip()):
        return _finite(output.strip())
    wanted = f"a line 'METRIC {state.metric_name or 'NAME'}=X'"
    raise Unclear(f"verify printed neither {wanted} nor one number alone")


def _is_named(name: str, state: LaneState) -> bool:
    return state.metric_name in (None, name)


def _the_one(found: list[str], what: str) -> float:
    if len(found) != 1:
        raise Unclear(f"verify printed {'no' if not found else len(found)} numbers for {what}")
    return _finite(found[0])


def _finite(text: str) -> float:
    value = float(text) if re.fullmatch(_NUMBER, text) else math.nan
    if not math.isfinite(value):
        raise Unclear(f"verify printed {one_line(text, 60)!r}, which is not a number")
    return value


def _by_path(output: str, path: str) -> float:
    try:
        value: Any = json.loads(output)
    except (ValueError, RecursionError):
        raise Unclear("verify did not print JSON") from None
    for key in path.split("."):
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise Unclear(f"verify's JSON has nothing at {path!r}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unclear(f"verify's JSON has {one_line(repr(value), 60)} at {path!r}, which is not a number")
    return float(value)
