"""How much is allowed, and how long to wait before trying again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.budgets import (
    LONGEST_RETRY_WAIT,
    Allowance,
    Limits,
    Usage,
    Used,
    budget_lines,
    limit_reached,
    nearly_reached,
    number_in,
    reflects,
    retry_delay,
    total,
    usage_in,
    with_amounts,
)
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
        (Limits(max_seconds=90, max_iterations=1), 1, 91, "1 session (--max-iterations)"),
        (Limits(), 99, 1e9, None),
        (Limits(), 100, 0, "100 sessions (--max-iterations)"),
    ],
)
def test_a_limit_is_reached_when_as_much_was_used(
    limits: Limits, sessions: int, seconds: float, reached: str | None
) -> None:
    said = limit_reached(limits, Used(sessions, seconds))
    assert said is None if reached is None else said is not None and reached in said.text


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


# Budgets


@pytest.mark.parametrize(
    ("limits", "used", "reached", "more"),
    [
        (Limits(max_cost=10), Used(cost=9.99), None, ""),
        (Limits(max_cost=10), Used(cost=10), "$10.00 (--max-cost) is reached.", "--max-cost +10"),
        (Limits(max_cost=10), Used(cost=12.5), "$10.00 (--max-cost) is reached ($12.50 used).", "--max-cost +10"),
        (Limits(max_tokens=1000), Used(tokens=999), None, ""),
        (Limits(max_tokens=1000), Used(tokens=1000), "1.0k tokens (--max-tokens)", "--max-tokens +1000000"),
        (Limits(max_seconds=60), Used(seconds=60), "(--max-time)", "--max-time +1h"),
        (Limits(max_iterations=2), Used(sessions=2), "(--max-iterations)", "--max-iterations +10"),
    ],
)
def test_every_budget_is_a_limit_with_the_option_that_goes_on(
    limits: Limits, used: Used, reached: str | None, more: str
) -> None:
    said = limit_reached(limits, used)
    assert (said is None) == (reached is None)
    if said is not None and reached is not None:
        assert reached in said.text
        assert said.more == more


@pytest.mark.parametrize(
    ("used", "told", "warned"),
    [
        (Used(cost=7.9), (), []),
        (Used(cost=8), (), ["max_cost"]),
        (Used(cost=8), ("max_cost",), []),
        (Used(cost=10), (), []),  # that is no warning any more
        (Used(cost=9, tokens=90), (), ["max_cost", "max_tokens"]),
    ],
)
def test_a_budget_is_warned_of_once_at_80_percent(used: Used, told: tuple[str, ...], warned: list[str]) -> None:
    found = nearly_reached(Limits(max_cost=10, max_tokens=100), used, told)
    assert list(found) == warned
    assert all("--max-" in sentence for sentence in found.values())


@pytest.mark.parametrize(
    ("limits", "used", "usage", "seconds", "flag"),
    [
        (Limits(max_cost=0.3), Used(sessions=500, cost=0.1), Usage(cost=0.19), 1e9, ""),
        (Limits(max_cost=0.3), Used(cost=0.1), Usage(cost=0.2), 0, "--max-cost"),
        (
            Limits(max_tokens=100),
            Used(tokens=90),
            Usage(input=4, output=3, cacheRead=2, cacheWrite=1),
            0,
            "--max-tokens",
        ),
        (Limits(max_seconds=60), Used(seconds=50), Usage(), 9.9, ""),
        (Limits(max_seconds=60), Used(seconds=50), Usage(), 10, "--max-time"),
        (Limits(max_iterations=1), Used(sessions=1), Usage(cost=9), 9, ""),
    ],
)
def test_what_a_session_may_use_is_what_is_left(
    limits: Limits, used: Used, usage: Usage, seconds: float, flag: str
) -> None:
    reached = Allowance(limits, used).reached(usage, seconds)
    assert (reached.flag if reached else "") == flag
    assert bool(reached) == bool(limit_reached(replace(limits, max_iterations=0), used.plus(usage, seconds)))


def test_a_session_is_not_warned_of_what_was_warned_of_before() -> None:
    limits = Limits(max_iterations=1, max_cost=10, max_tokens=100)
    assert list(Allowance(limits, Used(sessions=1)).nearly_reached(Usage(cost=8, input=80), 0)) == [
        "max_cost",
        "max_tokens",
    ]
    assert list(Allowance(limits, Used(), ("max_cost",)).nearly_reached(Usage(cost=8), 0)) == []


def test_an_agent_is_told_only_of_what_is_limited_and_counts_inside_a_session() -> None:
    facts = Allowance(Limits(max_iterations=5, max_cost=10), Used(cost=2), ("max_cost",)).facts()
    assert facts == {
        "cost": {
            "field": "max_cost",
            "flag": "--max-cost",
            "limit": 10,
            "used": 2,
            "warnAt": 8,
            "warned": True,
        }
    }


@pytest.mark.parametrize(
    ("usage", "lines"),
    [
        (Usage(), ["$5.00 allowed, none reported", "1.0k tokens allowed, none reported"]),
        (Usage(input=3), ["$5.00 allowed, none reported", "3 of 1.0k tokens"]),
        (Usage(input=3, cost=0.5), ["$0.50 of $5.00", "3 of 1.0k tokens"]),
    ],
)
def test_a_budget_line_appears_where_the_budget_can_be_kept(usage: Usage, lines: list[str]) -> None:
    used = Used().plus(usage, 1)
    assert budget_lines(Limits(max_iterations=0, max_cost=5, max_tokens=1000), used, usage) == lines


def test_what_was_typed_for_a_task_counts_before_what_is_general() -> None:
    general = Limits(max_cost=5, retries=1)
    assert with_amounts(general, (("max_cost", 10.0),)) == Limits(max_cost=10, retries=1)
    assert with_amounts(general, (("max_cost", 10.0),), (("max_cost", 20.0),)).max_cost == 20
    assert with_amounts(general, (("no such field", 1.0),)) == general


@pytest.mark.parametrize(("every", "sessions"), [(0, []), (1, [2, 3, 4, 5, 6, 7, 8, 9, 10]), (3, [4, 7, 10]), (20, [])])
def test_a_session_looks_back_after_every_so_many(every: int, sessions: list[int]) -> None:
    limits = Limits(reflect_every=every)
    assert [number for number in range(1, 11) if reflects(limits, number)] == sessions


TOLD = Usage(input=12_000, cost=1.2)


@pytest.mark.parametrize(
    ("limits", "used", "usage", "said"),
    [
        (Limits(max_iterations=0, max_cost=10), Used(cost=1.2), TOLD, "$1.20 of $10.00"),
        (Limits(max_iterations=0), Used(cost=1.2), TOLD, "$1.20"),
        (Limits(max_iterations=0, max_tokens=10**6), Used(tokens=12_000), TOLD, "12.0k of 1.0M tokens, $1.20"),
        (Limits(max_iterations=0, max_cost=10), Used(cost=0.2), TOLD, "$0.20 of $10.00, $1.20 in all"),
        (Limits(max_iterations=0), Used(), Usage(input=12_000), "12.0k tokens"),
        (Limits(max_iterations=0, max_tokens=10**6), Used(tokens=3), Usage(input=3), "3 of 1.0M tokens"),
        (
            Limits(max_iterations=0, max_seconds=3600),
            Used(seconds=90),
            Usage(),
            "1m 30s of 1h 00m of working time",
        ),
        (Limits(max_iterations=0), Used(), Usage(), "1m 30s of working time"),
        (Limits(max_iterations=0, max_cost=5), Used(), Usage(), "$5.00 allowed, none reported"),
        (Limits(max_iterations=5), Used(sessions=4), TOLD, "4 of 5 sessions, $1.20"),
    ],
)
def test_the_total_of_a_task_stands_against_what_it_may_use(
    limits: Limits, used: Used, usage: Usage, said: str
) -> None:
    assert total(limits, used, usage, 90) == said


@pytest.mark.parametrize("said", [-1, -0.5, float("-inf"), float("inf"), float("nan"), 1e15, True, "7", None, [3]])
def test_what_cannot_be_added_up_counts_as_nothing(said: object) -> None:
    """Above all no agent gives anything back: a negative usage would lift a budget."""
    assert number_in(said) == 0
    assert usage_in({"input": said, "output": 5, "cost": said}) == Usage(output=5)
