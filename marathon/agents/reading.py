"""Shared by agents that read records of a session: values of unknown type, and what a provider's error means."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
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
    r"not logged in|please run /login|(?:invalid|incorrect|no|missing) (?:x-)?api[ -]?key|unauthorized"
    r"|api[ -]?key(?:: \S{1,200})?(?: is)? (?:not valid|invalid|missing|expired)|didn['’]t provide an api key"
    r"|AuthenticationError|not able to authenticate|authentication (?:fails|required)|invalid authentication\b"
    r"|(?:no|missing) (?:cookie )?auth(?:entication|orization)? (?:credentials|header)|^user not found\.?$"
    r"|invalid bearer token|oauth (?:access )?token (?:has |is )?(?:expired|revoked)|token expired or incorrect"
    r"|token refresh failed|(?:sign|log)(?:ging)? in again",
    re.I,
)
# Google's quota of a day, which comes back at midnight in California.
_DAYS_QUOTA = re.compile(r"exhausted your daily quota|quotaId\W+\w+PerDay", re.I)
_LIMIT_CODES = {
    *("rate_limit_error", "rate_limit_exceeded", "usageLimitExceeded", "rateLimitExceeded", "usage_limit_reached"),
    "RESOURCE_EXHAUSTED",
}
# The network or the provider is away: by the codes of providers and of Codex, else by the words of programs.
_OUTAGE_CODES = {
    *("server_error", "api_error", "overloaded_error", "overloaded", "internal_server_error", "service_unavailable"),
    *("serverOverloaded", "internalServerError", "httpConnectionFailed", "responseStreamConnectionFailed"),
    *("responseStreamDisconnected", "UNAVAILABLE", "INTERNAL", "timeout_error"),
}
_OUTAGE_WORDS = re.compile(
    r"connect(?:ion)? (?:error|refused|reset|timed out|timeout|closed|aborted|lost|failed)|ConnectionRefused"
    r"|(?:unable|failed|could not|couldn't|cannot|can't) (?:to )?(?:connect|resolve|reach)"
    r"|fetch failed|failed to fetch|network (?:is unreachable|error|request failed|is down|connection)"
    r"|name or service not known|temporary failure in name resolution|no such host|getaddrinfo|dns error"
    r"|no route to host|host is unreachable|socket hang up|other side closed|premature close|^terminated$"
    r"|\bE(?:CONNREFUSED|CONNRESET|CONNABORTED|NOTFOUND|AI_AGAIN|TIMEDOUT|NETUNREACH|NETDOWN|HOSTUNREACH)\b"
    r"|request timed out|stream disconnected before completion|error sending request"
    r"|overloaded_error|^overloaded\b|(?:model|server|service|api) (?:is )?(?:currently |temporarily )?overloaded"
    r"|bad gateway|service (?:is )?(?:temporarily |currently )?unavailable|gateway time-?out|internal server error",
    re.I,
)
_SECONDS = ("retry_after", "retry_after_seconds", "resets_in_seconds", "reset_after_seconds", "retrydelay")
_MOMENTS = ("resets_at", "reset_at", "retry_after", "x_ratelimit_reset")
_AMOUNT = r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d|milliseconds?|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?)(?![a-z])"
_SAID = re.compile(
    rf"(?:(?:try again|retry|resets?|come back) (?:in|after)|retry-after:?) ~?((?:{_AMOUNT}(?:,? (?:and )?)?)+)", re.I
)
_AGAIN = r"(?:try again|retry|resets?|available again|retry-after)(?: at| on|:)*"
# A clock time in a provider's words: resets 5:30am (UTC), resets at 16:30 UTC, try again at Dec 3rd, 4:05 PM.
_CLOCK = re.compile(
    rf"{_AGAIN} "
    r"(?:(?P<month>[a-z]{3})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?,?(?: (?P<year>\d{4}),?)?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?: ?(?P<half>[ap]m)|(?<=:\d\d))"
    r"(?: \(?(?P<zone>(?:UTC|GMT)(?:[+-]\d{1,2})?|(?<=\()[A-Za-z0-9_+/-]+)\)?)?",
    re.I,
)
# A date and a time, with a zone or without: 2026-09-04 19:01:25, 2026-09-04T19:01:25.000Z, …+08:00, … UTC.
_DATE = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?P<between>[T ])(?P<time>\d\d:\d\d(?::\d\d)?)(?:\.\d+)?"
    r" ?\(?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?",
    re.I,
)
_DATED = re.compile(rf"(?:{_AGAIN} |限额将在 ?)(?={_DATE.pattern.replace('?P<', '?P<of_')})", re.I)
_HTTP_DATE = re.compile(rf"{_AGAIN} ([a-z]{{3}}, \d\d [a-z]{{3}} \d{{4}} \d\d:\d\d:\d\d GMT)", re.I)
_EPOCH = re.compile(r"limit reached\|(\d{10})\b", re.I)  # as Claude Code wrote it for a time
_BEIJING = timezone(timedelta(hours=8))
_CALIFORNIA = timezone(timedelta(hours=-8))  # in summer an hour late
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS = {
    **{"ms": 0.001, "mil": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0},
    **{"h": 3600.0, "hou": 3600.0, "d": 86400.0, "day": 86400.0},
}
_CLOCKS_DIFFER = timedelta(minutes=2)
_HALF_A_YEAR = timedelta(days=180)
# At the beginning: 429: …, API Error: 529 …; before an error object also: got status: 429 …, Error code: 429 - …
_STATUS = re.compile(r"(?:API Error:? ?\(?|curl: \(22\) The requested URL returned error: )?(\d{3})\b")
_STATUS_NAMED = re.compile(r"(?:status|error|code|http)(?: code)?:? \(?(\d{3})\b", re.I)


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


Kind = Literal["login", "limit", "request", "outage", "transient"]


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
    codes = {code, *(str(body.get(key)) for key in ("code", "type", "status"))}
    if codes & _FIXED_BY_A_NEW_SESSION:
        return Failure(shown)
    if status in (401, 403) or codes & _LOGIN_CODES or _LOGIN_WORDS.search(said):
        return Failure(shown, permanent=True, kind="login")
    if status in _PERMANENT_STATUS or codes & _PERMANENT_CODES:
        return Failure(shown, permanent=True, kind="request")
    seconds = resets_at - now if resets_at > now else _stated_wait(body, message, now)
    return Failure(
        shown,
        retry_after=None if seconds is None else min(seconds, LONGEST_WAIT),
        kind=_kind(status, codes, said, seconds is not None),
    )


def _kind(status: int, codes: set[str], said: str, states_wait: bool) -> Kind:
    if status == 429 or codes & _LIMIT_CODES:
        return "limit"
    if status in (408, *range(500, 600)) or codes & _OUTAGE_CODES or (not status and _OUTAGE_WORDS.search(said)):
        return "outage"
    return "limit" if states_wait else "transient"


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
    """The status and the error object, wherever a program wrote them."""
    before = message.partition("{")[0].strip()
    found, body = _STATUS.match(before), _object_in(message)
    if before and not found and "error" not in body:  # it may be about anything
        body = {}
    found = found or (_STATUS_NAMED.search(before) if body else None)
    numbers = (found[1] if found else "", *(str(body.get(key)) for key in ("code", "status_code", "statusCode")))
    return next((int(number) for number in numbers if re.fullmatch("[1-5][0-9]{2}", number)), 0), body


def _object_in(text: str) -> Mapping[str, Any]:
    """The error object in a text, together with what stands around it; some wrap it as the text of their own."""
    try:
        found = table_in(json.JSONDecoder().raw_decode(text, max(0, text.find("{")))[0])
    except (ValueError, RecursionError):
        return {}
    body = {**found, **table_in(found.get("error"))}
    words = str(body.get("message") or "").strip()
    return {**body, **_object_in(words)} if words.startswith("{") else body


def _stated_wait(body: Mapping[str, Any], message: str, now: float) -> float | None:
    """Read from a value in the error, else from its words: 20s, 6m0s, ~45 min, 5:30am (UTC), 2026-09-04 19:01:25."""
    fields, words = list(_fields_in(body)), str(body.get("message") or message)
    seconds = max((_seconds_of(value) for name, value in fields if name in _SECONDS), default=0.0)
    moments = [_moment_of(value) for name, value in fields if name in _MOMENTS]
    seconds = max([seconds, *(moment - now for moment in moments)])
    if seconds <= 0 and (said := _SAID.search(words)):
        seconds = _amount_of(said[1])
    if seconds <= 0 and (moment := _moment_in(words)):
        seconds = moment - now
        if 0 >= seconds > -_CLOCKS_DIFFER.total_seconds():
            seconds = 60.0
    if seconds <= 0 and (clock := _CLOCK.search(words)):
        seconds = _until(clock, now)
    if seconds <= 0 and _DAYS_QUOTA.search(message):
        there = datetime.fromtimestamp(now, _CALIFORNIA) + timedelta(days=1)
        seconds = there.replace(hour=0, minute=1, second=0, microsecond=0).timestamp() - now
    return min(seconds, LONGEST_WAIT) if seconds > 0 else None


def _fields_in(value: Any, depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Every value of an error with its name, also those of headers and of a list of details."""
    for name, each in value.items() if isinstance(value, Mapping) else ():
        yield str(name).lower().replace("-", "_"), each
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in parts if depth < 4 else ():
        yield from _fields_in(part, depth + 1)


def _seconds_of(value: Any) -> float:
    """7, "7" or "34.07s"."""
    if not isinstance(value, str):
        return number_in(value)
    return float(value) if re.fullmatch(r"\d{1,9}(\.\d+)?", value) else _amount_of(value)


def _amount_of(words: str) -> float:
    return sum(float(number) * _UNITS[unit[:3].lower()] for number, unit in re.findall(_AMOUNT, words, re.I))


def _moment_of(value: Any) -> float:
    """A moment as seconds or milliseconds since 1970, or as a date. 0 if it is something else."""
    if isinstance(value, str) and not value.isdecimal():
        return _moment_in(f"resets at {value}")
    number = number_in(int(value[:18]) if isinstance(value, str) else value)
    return number / 1000 if number > 1e11 else number


def _moment_in(words: str) -> float:
    """The moment of a reset that is given with its date. Without a zone it is UTC; as Z.AI writes it, Beijing's."""
    if epoch := _EPOCH.search(words):
        return float(epoch[1])
    try:
        if http := _HTTP_DATE.search(words):
            from email.utils import parsedate_to_datetime  # rarely needed, and it brings many modules

            return parsedate_to_datetime(http[1]).timestamp()
        if not (dated := _DATED.search(words)) or not (found := _DATE.match(words, dated.end())):
            return 0
        zone = (found["zone"] or "").upper()
        offset = "+00:00" if zone in ("Z", "UTC", "GMT") else zone
        moment = datetime.fromisoformat(f"{found['date']}T{found['time']}{offset}")
    except ValueError:  # no such day or hour
        return 0
    nearby = _BEIJING if found["between"] == " " else UTC
    return (moment if moment.tzinfo else moment.replace(tzinfo=nearby)).timestamp()


def _until(clock: re.Match[str], now: float) -> float:
    """The seconds until a clock time: of the day it names, else the next time that it is so late. 0 if that is past."""
    named = clock["zone"] or ""
    zone: tzinfo | None
    try:
        offset = re.fullmatch(r"(?:UTC|GMT)([+-]\d{1,2})?", named, re.I)
        utc = timezone(timedelta(hours=int(offset[1] or 0))) if offset else None
        zone = utc or (ZoneInfo(named) if named else None)
    except (ValueError, OSError, KeyError):  # a name of no zone; the machine's own is the best guess
        zone = None
    present = datetime.fromtimestamp(now, zone)
    past = present - _CLOCKS_DIFFER
    hour, half = int(clock["hour"]), (clock["half"] or "").lower()
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
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
