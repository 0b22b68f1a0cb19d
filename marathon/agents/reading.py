"""Shared by agents that read records of a session: values of unknown type, and what a provider's error means."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field

from marathon.core.budgets import Usage, number_in, usage_in
from marathon.core.text import one_line
from marathon.core.validation import Invalid, read

LONGEST_WAIT = 8 * 24 * 3600.0  # a limit may be that of a week
LONGEST_RECORD = 64 * 1024 * 1024
_PERMANENT_STATUS = (400, 401, 402, 403, 404)
_LOGIN_CODES = {"invalid_api_key", "authentication_error", "authentication_failed", "permission_error", "unauthorized"}
_PERMANENT_CODES = {
    *_LOGIN_CODES,
    "insufficient_quota",
    "model_not_found",
    "modelNotFound",
    "not_found_error",
    "billing_error",
    "badRequest",
}
# A new session begins with an empty context.
_FIXED_BY_A_NEW_SESSION = {"context_length_exceeded", "contextWindowExceeded"}
_LOGIN_WORDS = re.compile(
    r"not logged in|please run /login|(?:invalid|incorrect|no) (?:x-)?api[ -]key|unauthorized"
    r"|AuthenticationError|not able to authenticate",
    re.I,
)
_LIMIT_CODES = {"rate_limit_error", "rate_limit_exceeded", "usageLimitExceeded", "rateLimitExceeded"}
_SECONDS = ("retry_after", "retry_after_seconds", "resets_in_seconds", "reset_after_seconds")
_MOMENTS = ("resets_at", "reset_at")
_AMOUNT = r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d|milliseconds?|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?)(?![a-z])"
_SAID = re.compile(rf"(?:try again|retry|resets?) (?:in|after) ~?((?:{_AMOUNT}(?:,? (?:and )?)?)+)", re.I)
# A clock time in a provider's words: resets 5:30am (UTC), try again at 3:29 AM, try again at Dec 3rd, 4:05 PM.
_CLOCK = re.compile(
    r"(?:try again|retry|resets?|available again)(?: at| on)? "
    r"(?:(?P<month>[a-z]{3})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?,?(?: (?P<year>\d{4}),?)?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))? ?(?P<half>[ap]m)(?: \((?P<zone>[A-Za-z0-9_+/-]+)\))?",
    re.I,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS = {
    **{"ms": 0.001, "mil": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0},
    **{"h": 3600.0, "hou": 3600.0, "d": 86400.0, "day": 86400.0},
}
_CLOCKS_DIFFER = timedelta(minutes=2)
_HALF_A_YEAR = timedelta(days=180)


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


Kind = Literal["login", "limit", "request", "transient"]


@dataclass(frozen=True)
class Failure:
    """A provider's error. A permanent error needs a human. `retry_after` are the seconds that the provider states."""

    message: str
    permanent: bool = False
    retry_after: float | None = None
    kind: Kind = "transient"


def failure_of(
    message: str, now: float | None = None, *, status: int = 0, code: str = "", resets_at: float = 0
) -> Failure:
    """Read an error as the SDKs of providers write it: `STATUS: {the error object of the response}`.

    Status, code and reset time that a program gives in fields of their own come first.
    """
    now = time.time() if now is None else now
    written, body = _parts(message)
    status = status or written
    said = one_line(str(body.get("message") or message), 300)
    told = status and (bool(body.get("message")) or not written) and str(status) not in said
    shown = f"{status}: {said}" if told else said
    codes = {code, *(str(body.get(key)) for key in ("code", "type"))}
    if codes & _FIXED_BY_A_NEW_SESSION:
        return Failure(shown)
    if status in (401, 403) or codes & _LOGIN_CODES or _LOGIN_WORDS.search(said):
        return Failure(shown, permanent=True, kind="login")
    if status in _PERMANENT_STATUS or codes & _PERMANENT_CODES:
        return Failure(shown, permanent=True, kind="request")
    seconds = resets_at - now if resets_at > now else _stated_wait(body, message, now)
    limited = status == 429 or bool(codes & _LIMIT_CODES) or seconds is not None
    return Failure(
        shown,
        retry_after=None if seconds is None else min(seconds, LONGEST_WAIT),
        kind="limit" if limited else "transient",
    )


@dataclass
class Records:
    """Puts the pieces of JSON lines together. Each whole line is an object, or None if it is something else."""

    _pieces: bytearray = field(default_factory=bytearray)

    def take(self, line: bytes, complete: bool) -> list[dict[str, Any] | None]:
        self._pieces += line if len(self._pieces) < LONGEST_RECORD else b""
        if not complete:
            return []
        try:
            record = json.loads(self._pieces)
        except (ValueError, RecursionError):
            record = None
        self._pieces.clear()
        return [record if isinstance(record, dict) else None]


def table_in(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def tables_in(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list. None if it is something else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_in(content: Any) -> str:
    """The text of a message or of a tool's result, without thoughts, calls and images."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in tables_in(content) if part.get("type") == "text"]
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
    """Read from a number in the error, else from its words: 20s, 6m0s, ~45 min, 5:30am (UTC)."""
    numbers = [number_in(body.get(key)) for key in _SECONDS] + [number_in(body.get(key)) - now for key in _MOMENTS]
    seconds, words = max(numbers), str(body.get("message") or message)
    if seconds <= 0 and (said := _SAID.search(words)):
        amounts = re.findall(_AMOUNT, said[1], re.I)
        seconds = sum(float(number) * _UNITS[unit[:3].lower()] for number, unit in amounts)
    if seconds <= 0 and (clock := _CLOCK.search(words)):
        seconds = _until(clock, now)
    return min(seconds, LONGEST_WAIT) if seconds > 0 else None


def _until(clock: re.Match[str], now: float) -> float:
    """The seconds until a clock time: of the day it names, else the next time that it is so late. 0 if that is past."""
    zone: tzinfo | None = None
    if clock["zone"]:
        try:
            zone = ZoneInfo(clock["zone"])
        except (ValueError, OSError):  # a name of no zone; the machine's own is the best guess
            zone = None
    present = datetime.fromtimestamp(now, zone)
    past = present - _CLOCKS_DIFFER
    hour = int(clock["hour"]) % 12 + (12 if clock["half"].lower() == "pm" else 0)
    try:
        then = present.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
        if clock["month"]:
            month = _MONTHS.index(clock["month"].lower()) + 1
            then = then.replace(year=int(clock["year"] or then.year), month=month, day=int(clock["day"]))
            if then < present - _HALF_A_YEAR and not clock["year"]:
                then = then.replace(year=then.year + 1)
        elif then <= past:
            then += timedelta(days=1)
    except ValueError:  # no such day or hour
        return 0
    # A minute is how exact these words are.
    return max(60.0, then.timestamp() + 60 - now) if then > past else 0
