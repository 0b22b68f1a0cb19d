"""What adapters share when they read an agent's records: untrusted values, and what a provider's error means."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marathon.agents.base import Outcome
from marathon.core.text import one_line

LONGEST_RESET = 24 * 3600.0
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
_FIXED_BY_A_NEW_SESSION = {"context_length_exceeded"}  # which begins with an empty context
_SECONDS = ("retry_after", "retry_after_seconds", "resets_in_seconds", "reset_after_seconds")
_MOMENTS = ("resets_at", "reset_at")
_AMOUNT = r"(\d+(?:\.\d+)?) ?(ms|s|m|h|milliseconds?|sec(?:ond)?s?|min(?:ute)?s?|hours?)(?![a-z])"
_SAID = re.compile(rf"(?:try again|retry|resets?) (?:in|after) ~?((?:{_AMOUNT}(?:,? )?)+)", re.I)
_UNITS = {"ms": 0.001, "mil": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hou": 3600.0}


def table_in(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_in(content: Any) -> str:
    """The text parts of a message or a tool's result; thoughts, calls and images are left out."""
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


@dataclass(frozen=True)
class Failure:
    """A provider's error: `permanent` needs a human, `reset` are seconds, `reset_at` is a moment (epoch)."""

    message: str
    permanent: bool = False
    reset: float | None = None
    reset_at: float | None = None

    def wait(self, now: float) -> float | None:
        """Seconds the provider asks for, within reason."""
        until = None if self.reset_at is None else self.reset_at - now
        seconds = self.reset if self.reset is not None else until
        return None if seconds is None or seconds <= 0 else min(seconds, LONGEST_RESET)


def failure_of(message: str) -> Failure:
    """From an error of the form `STATUS: {the error object of the response}`, as SDKs of providers write it."""
    status, body = _parts(message)
    said = one_line(str(body.get("message") or message), 300)
    shown = f"{status}: {said}" if status and body.get("message") else said
    codes = {str(body.get(key)) for key in ("code", "type")}
    if codes & _FIXED_BY_A_NEW_SESSION:
        return Failure(shown)
    if status in _PERMANENT_STATUS or codes & _PERMANENT_CODES:
        return Failure(shown, permanent=True)
    return Failure(shown, reset=_seconds(body, message), reset_at=_moment(body))


def failed_outcome(failure: Failure, login: str) -> Outcome:
    """A session that ended in a provider's error. Where the key was refused, `login` says how to give another."""
    wait = failure.wait(time.time())
    advice = f" ({login})" if failure.message.startswith(("401", "403")) else ""
    return Outcome(
        "crashed", failure.message + advice, stop_reason="error", permanent=failure.permanent, retry_after=wait
    )


def _parts(message: str) -> tuple[int, Mapping[str, Any]]:
    found = re.match(r"\s*(\d{3})\b[:\s]*(.*)", message, re.S)
    status, rest = (int(found[1]), found[2]) if found else (0, message)
    try:
        body = table_in(json.loads(rest))
    except (ValueError, RecursionError):
        return status, {}
    return status, table_in(body.get("error")) or body


def _seconds(body: Mapping[str, Any], message: str) -> float | None:
    """As a number; else as the error's own words say it: 20s, 6m0s, ~45 min."""
    for key in _SECONDS:
        if _is_number(body.get(key)):
            return float(body[key])
    said = _SAID.search(str(body.get("message") or message))
    amounts = re.findall(_AMOUNT, said[1], re.I) if said else []
    return sum(float(number) * _UNITS[unit[:3].lower()] for number, unit in amounts) if amounts else None


def _moment(body: Mapping[str, Any]) -> float | None:
    return next((float(body[key]) for key in _MOMENTS if _is_number(body.get(key))), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
