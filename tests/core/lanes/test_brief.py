"""What a session of a measured loop is told of the iterations before it."""

from __future__ import annotations

import pytest

from marathon.core.lanes.brief import brief
from marathon.core.lanes.model import LaneState, Row

STATE = LaneState(lane="perf", run_tag="r1", verify_command="./bench", max_iterations=9)
AGAIN = "Does it make one of these worth another try?"


def row(iteration: int, action: str, hypothesis: str, metric: float) -> Row:
    return Row(iteration=iteration, action=action, hypothesis=hypothesis, metric=metric)


REVERTED, KEPT = row(1, "revert", "unroll the loop", 105), row(2, "keep", "cache the table", 90)


def test_what_was_tried_is_told_with_its_number_and_verdict() -> None:
    told = brief(STATE, [REVERTED, KEPT])
    assert "- 1. unroll the loop: 105, revert\n- 2. cache the table: 90, keep" in told
    assert "Lessons:\n\n- " in told


@pytest.mark.parametrize(
    ("rows", "is_asked"), [([REVERTED, KEPT], True), ([KEPT], False), ([KEPT, row(3, "revert", "inline", 99)], False)]
)
def test_a_keep_makes_earlier_discards_worth_another_look(rows: list[Row], is_asked: bool) -> None:
    told = brief(STATE, rows)
    assert (f"{AGAIN}\n\n- 1. unroll the loop" in told, AGAIN in told) == (is_asked, is_asked)


def test_no_bound_is_told() -> None:
    assert "9" not in brief(STATE, [])
