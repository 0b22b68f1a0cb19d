"""How much is allowed, and how long to wait before trying again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.limits import LONGEST_RETRY_WAIT, Limits, limit_reached, retry_delay
from tests.core.making import thorough


@pytest.mark.parametrize(
    ("limits", "sessions", "seconds", "reached"),
    [
        (Limits(max_iterations=2), 0, 0, None),
        (Limits(max_iterations=2), 1, 1e9, None),
        (Limits(max_iterations=2), 2, 0, "2 sessions (--max-iterations)"),
        (Limits(max_iterations=2), 3, 0, "2 sessions (--max-iterations)"),
        (Limits(max_iterations=0), 10**6, 1e9, None),
        (Limits(max_seconds=3600), 1, 3599.9, None),
        (Limits(max_seconds=3600), 1, 3600, "1h 00m of working time (--max-time)"),
        (Limits(max_seconds=90, max_iterations=0), 10**6, 91, "1m 30s of working time (--max-time)"),
        (Limits(max_seconds=90, max_iterations=1), 1, 91, "1 sessions (--max-iterations)"),
        (Limits(), 99, 1e9, None),
        (Limits(), 100, 0, "100 sessions (--max-iterations)"),
    ],
)
def test_a_limit_is_reached_when_as_much_was_used(
    limits: Limits, sessions: int, seconds: float, reached: str | None
) -> None:
    said = limit_reached(limits, sessions, seconds)
    assert said is None if reached is None else said is not None and reached in said


def test_what_is_allowed_unless_told() -> None:
    assert Limits() == Limits(max_iterations=100, max_seconds=0, session_timeout=7200, retries=3, retry_wait=2)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 4), (3, 8), (7, 128), (8, 256), (9, 300), (5000, 300)])
def test_waits_double_up_to_five_minutes(attempt: int, seconds: float) -> None:
    assert retry_delay(Limits(), attempt) == seconds


def test_the_first_wait_is_the_one_asked_for() -> None:
    assert retry_delay(Limits(retry_wait=30), 1) == 30
    assert retry_delay(Limits(retry_wait=0), 3) == 0


@thorough
@given(st.floats(0, 1e6), st.integers(1, 10_000))
def test_waits_never_shrink_and_never_grow_beyond_bounds(first: float, attempt: int) -> None:
    limits = Limits(retry_wait=first)
    assert 0 <= retry_delay(limits, attempt) <= retry_delay(limits, attempt + 1) <= LONGEST_RETRY_WAIT
