"""The numbers by which a measurement is judged."""

from __future__ import annotations

from statistics import median

import pytest

from marathon.core.lanes.model import Direction
from marathon.core.lanes.numbers import change, confidence, improved, mad, number


@pytest.mark.parametrize(
    ("values", "middle", "spread", "trust"),
    [
        ([10, 11, 12], 11, 1, "medium"),
        ([42, 42], 42, 0, "high"),
        ([42], 42, 0, "low"),
        ([1, 2], 1.5, 0.5, "low"),
        ([1, 2, 3, 4, 50], 3, 1, "high"),
        ([4, 1, 3, 2], 2.5, 1, "medium"),
    ],
)
def test_median_spread_and_confidence(values: list[float], middle: float, spread: float, trust: str) -> None:
    assert (median(values), mad(values), confidence(values)) == (middle, spread, trust)


@pytest.mark.parametrize(
    ("values", "direction", "better"),
    [
        ([84, 89, 94], "lower", True),
        ([85, 90, 95], "lower", False),  # exactly twice the spread is not more than it
        ([105, 110, 115], "higher", False),
        ([106, 111, 116], "higher", True),
        ([99.999], "lower", True),
        ([100], "lower", False),
        ([100, 100], "higher", False),
    ],
)
def test_a_gain_is_strictly_more_than_twice_the_spread(values: list[float], direction: Direction, better: bool) -> None:
    assert improved(values, 100, direction) is better


def test_numbers_are_written_as_people_write_them() -> None:
    assert [number(value) for value in (12.0, 0.0153, 1234567.0)] == ["12", "0.0153", "1.23457e+06"]
    assert change(80, 100, "lower") == "-20 (-20.0 %), improved"
    assert change(80, 100, "higher") == "-20 (-20.0 %), regressed"
    assert change(5, 0, "higher") == "+5, improved"
    assert change(5, 5, "higher") == "unchanged"
