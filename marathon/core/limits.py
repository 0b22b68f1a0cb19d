"""What a human allows a marathon to use, and how long to wait before a failed session is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from marathon.core.text import duration

LONGEST_RETRY_WAIT = 300.0


@dataclass(frozen=True)
class Limits:
    """0 means no limit, everywhere."""

    max_iterations: int = 100
    max_seconds: float = 0
    session_timeout: float = 7200
    retries: int = 3
    retry_wait: float = 2.0


def limit_reached(limits: Limits, sessions: int, seconds: float) -> str | None:
    """The sentence for the gate, counting what was used since a human last said go on."""
    if limits.max_iterations and sessions >= limits.max_iterations:
        return f"The limit of {limits.max_iterations} sessions (--max-iterations) is reached."
    if limits.max_seconds and seconds >= limits.max_seconds:
        return f"The limit of {duration(limits.max_seconds)} of working time (--max-time) is reached."
    return None


def retry_delay(limits: Limits, attempt: int) -> float:
    """Seconds before the attempt-th retry: doubling from retry_wait."""
    from tenacity import RetryCallState, Retrying, wait_exponential

    policy = wait_exponential(multiplier=limits.retry_wait, max=LONGEST_RETRY_WAIT)
    call = RetryCallState(Retrying(), None, (), {})
    call.attempt_number = attempt
    return float(policy(call))
