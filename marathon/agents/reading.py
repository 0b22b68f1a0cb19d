"""Shared by agents that read records of a session: values of unknown type, and what a provider's error means."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from marathon.core.budgets import Usage, number_in, usage_in
from marathon.core.text import one_line
from marathon.core.validation import Invalid, read

LONGEST_WAIT = 24 * 3600.0
_PERMANENT_STATUS = (400, 401, 402, 403, 404)
_PERMANENT_CODES = {
    "insufficient_quota",
    "invalid_api_key",
    "authentication_error",
    "permission_error",
    "model_not_found",
    "not_found_error",
    "billing_error",
}
_FIXED_BY_A_NEW_SESSION = "context_length_exceeded"  # a new session begins with an empty context
_SECONDS = ("retry_after", "retry_after_seconds", "resets_in_seconds", "reset_after_seconds")
_MOMENTS = ("resets_at", "reset_at")
_AMOUNT = r"(\d+(?:\.\d+)?) ?(ms|s|m|h|milliseconds?|sec(?:ond)?s?|min(?:ute)?s?|hours?)(?![a-z])"
_SAID = re.compile(rf"(?:try again|retry|resets?) (?:in|after) ~?((?:{_AMOUNT}(?:,? )?)+)", re.I)
_UNITS = {"ms": 0.001, "mil": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hou": 3600.0}


_USAGE = "marathon_usage"
_Count = Annotated[int, Field(strict=True, ge=0, le=10**10)]


@dataclass(frozen=True)
class _Reported:
    """What a program says it used since it last said so. More than this limit is a mistake, not a bill."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    cost: Annotated[float, Field(strict=True, ge=0, le=100_000, allow_inf_nan=False)] = 0
    input: _Count = 0
    output: _Count = 0
    cacheRead: _Count = 0
    cacheWrite: _Count = 0
    turns: _Count = 1
    model: Annotated[str, Field(strict=True)] = ""


def reports_usage(line: str) -> bool:
    """Whether a line is meant as {"marathon_usage": {…}}."""
    return line.lstrip().startswith("{") and _USAGE in line[:60]


def reported_usage(line: str) -> Usage:
    """The usage of such a line. Invalid says what is wrong with it."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid("it is not JSON") from error
    if not isinstance(raw, dict) or list(raw) != [_USAGE]:
        raise Invalid(f"it is not an object with the one field {_USAGE}")
    return usage_in(vars(read(_Reported, raw[_USAGE])))


@dataclass(frozen=True)
class Failure:
    """A provider's error. A permanent error needs a human. `retry_after` are the seconds that the provider states."""

    message: str
    permanent: bool = False
    retry_after: float | None = None


def failure_of(message: str, now: float | None = None) -> Failure:
    """Read an error as the SDKs of providers write it: `STATUS: {the error object of the response}`."""
    status, body = _parts(message)
    said = one_line(str(body.get("message") or message), 300)
    shown = f"{status}: {said}" if status and body.get("message") else said
    codes = {str(body.get(key)) for key in ("code", "type")}
    if _FIXED_BY_A_NEW_SESSION in codes:
        return Failure(shown)
    if status in _PERMANENT_STATUS or codes & _PERMANENT_CODES:
        return Failure(shown, permanent=True)
    return Failure(shown, retry_after=_stated_wait(body, message, time.time() if now is None else now))


def table_in(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_in(content: Any) -> str:
    """The text of a message or of a tool's result, without thoughts, calls and images."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _parts(message: str) -> tuple[int, Mapping[str, Any]]:
    found = re.match(r"\s*(\d{3})\b[:\s]*(.*)", message, re.S)
    status, rest = (int(found[1]), found[2]) if found else (0, message)
    try:
        body = table_in(json.loads(rest))
    except (ValueError, RecursionError):
        return status, {}
    return status, table_in(body.get("error")) or body


def _stated_wait(body: Mapping[str, Any], message: str, now: float) -> float | None:
    """Read from a number in the error, else from its words: 20s, 6m0s, ~45 min."""
    numbers = [number_in(body.get(key)) for key in _SECONDS] + [number_in(body.get(key)) - now for key in _MOMENTS]
    seconds = max(numbers)
    if seconds <= 0 and (said := _SAID.search(str(body.get("message") or message))):
        amounts = re.findall(_AMOUNT, said[1], re.I)
        seconds = sum(float(number) * _UNITS[unit[:3].lower()] for number, unit in amounts)
    return min(seconds, LONGEST_WAIT) if seconds > 0 else None
