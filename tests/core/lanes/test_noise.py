"""When the runner measures: a gain is told from noise."""

from __future__ import annotations

import pytest

from marathon.core.lanes.noise import chance, confirmed, differs, noise_floor, screened, turns


def test_ranks_decide_and_an_outlier_weighs_no_more_than_its_rank() -> None:
    reference = [100.0, 101, 99, 100, 102]
    assert confirmed([90, 91, 89, 92, 90], reference, "lower")
    assert confirmed([90, 91, 89, 92, 5000], reference, "lower") is False
    assert confirmed([90, 91, 89, 92, 99.5], reference, "lower")
    assert confirmed([90, 91, 89, 92, 90], reference, "higher") is False
    assert confirmed(reference, reference, "lower") is False
    assert confirmed([1, 1, 1, 1], reference, "lower") is False, "too few samples never keep"


def test_a_metric_without_noise_needs_no_luck() -> None:
    assert confirmed([7.0] * 5, [8.0] * 5, "lower")
    assert not confirmed([8.0] * 5, [8.0] * 5, "lower")


@pytest.mark.parametrize(("lost", "orders"), [(0, 1), (1, 2), (2, 4), (4, 12), (25, 252)])
def test_the_chance_is_the_exact_share_of_orders(lost: int, orders: int) -> None:
    """Five against five can be ordered in 252 ways."""
    reference = [10.0, 20, 30, 40, 50]
    best = min(lost, 5)
    candidate = [5.0 - n for n in range(4)] + [5.0 + 10 * best]
    if lost == 25:
        candidate = [60.0 + n for n in range(5)]
    assert chance(candidate, reference, "lower") == pytest.approx(orders / 252)


def test_fewer_than_three_samples_never_pass_the_screen() -> None:
    assert not screened([1, 1], 100, "lower")
    assert screened([1, 1, 1], 100, "lower")


def test_reference_and_candidate_take_turns_in_both_orders() -> None:
    order = list(turns(5))
    assert (order.count("reference"), order.count("candidate")) == (5, 5)
    assert order[:4] == ["reference", "candidate", "candidate", "reference"]


def test_measuring_one_tree_twice_tells_the_noise() -> None:
    floor = noise_floor([100, 101, 99, 102, 98], [100, 102, 98, 101, 99])
    assert floor.steady
    assert floor.percent == pytest.approx(1.4826)
    assert floor.smallest_gain == pytest.approx(3 * 1.4826)
    assert not noise_floor([100, 101, 99, 102, 98], [110, 111, 109, 112, 108]).steady
    assert noise_floor([0.0] * 5, [0.0] * 5).percent is None
    assert differs([1.0] * 5, [2.0] * 5)
