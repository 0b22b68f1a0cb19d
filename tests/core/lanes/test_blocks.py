"""The rule that tells a gain from noise: blocks of two runs of each tree, in an order that is drawn."""

from __future__ import annotations

import itertools
import random

import pytest

from bench.keeps import CANDIDATES, MACHINES, exact, false_keeps, kept
from marathon.core.lanes.blocks import (
    ORDERS,
    RULES,
    Block,
    chance,
    handicapped,
    lost,
    order,
    ratio,
    verdict,
)
from marathon.core.lanes.model import Direction

WON, EVEN, LOST = Block((9, 10), (1, 2)), Block((1, 4), (2, 3)), Block((1, 2), (9, 10))


def test_under_no_gain_the_lost_comparisons_have_exactly_the_chances_of_the_rule() -> None:
    """Every order of four numbers, for one block and for two."""
    found = []
    for numbers in itertools.permutations((1.0, 2.0, 3.0, 4.0)):
        found.append(lost(Block((numbers[0], numbers[1]), (numbers[2], numbers[3])), "lower"))
    for most in range(5):
        assert chance(most, 1) == pytest.approx(sum(each <= most for each in found) / len(found))
    pairs = [one + other for one in found for other in found]
    for most in range(9):
        assert chance(most, 2) == pytest.approx(sum(each <= most for each in pairs) / len(pairs))


@pytest.mark.parametrize(
    ("block", "direction", "expected"),
    [
        (WON, "lower", 0),
        (WON, "higher", 4),
        (EVEN, "lower", 2),
        (Block((5, 5), (5, 5)), "lower", 2),
        (Block((5, 6), (5, 4)), "lower", 0.5),
    ],
)
def test_each_run_of_the_candidate_is_compared_with_each_of_the_reference(
    block: Block, direction: Direction, expected: float
) -> None:
    assert lost(block, direction) == expected
    mirrored = Block((-block.reference[0], -block.reference[1]), (-block.candidate[0], -block.candidate[1]))
    assert lost(mirrored, "higher" if direction == "lower" else "lower") == expected


@pytest.mark.parametrize(
    ("blocks", "rule", "expected"),
    [
        ([LOST], "strict", "drop"),
        ([WON], "strict", None),
        ([EVEN], "strict", "drop"),
        ([WON] * 4, "strict", None),
        ([WON] * 4, "loose", "keep"),
        ([WON] * 5, "strict", "keep"),
        ([*[WON] * 4, Block((9, 10), (1, 9.5))], "strict", None),
        ([*[WON] * 4, Block((9, 10), (1, 10))], "strict", None),
        ([*[WON] * 6, Block((9, 10), (1, 9.5))], "strict", "keep"),
        ([*[WON] * 6, LOST], "strict", None),
        ([*[WON] * 9, LOST], "strict", "keep"),
        ([*[WON] * 8, LOST, LOST], "strict", "drop"),
    ],
)
def test_what_follows_from_the_blocks_so_far(blocks: list[Block], rule: str, expected: str | None) -> None:
    assert verdict(blocks, "lower", rule=rule) == expected  # type: ignore[arg-type]


def test_a_half_rounds_against_the_candidate() -> None:
    assert chance(0.5, 5) == chance(1, 5) > chance(0, 5)


def test_a_metric_without_noise_needs_one_block() -> None:
    assert verdict([Block((5, 5), (4, 4))], "lower", noiseless=True) == "keep"
    assert verdict([Block((5, 5), (5, 5))], "lower", noiseless=True) == "drop"
    assert verdict([Block((100, 100), (99, 99))], "lower", noiseless=True, min_gain=0.02) == "drop"
    assert verdict([Block((5, 5), (4, 4))], "lower") is None


@pytest.mark.parametrize("g", [0.0, 0.02, 0.5])
def test_a_gain_that_is_asked_for_never_helps_a_candidate(g: float) -> None:
    rng = random.Random(8)
    numbers = [[rng.choice((rng.uniform(1, 100), rng.uniform(-100, -1))) for _ in range(4)] for _ in range(200)]
    blocks = [Block((a, b), (c, d)) for a, b, c, d in numbers]
    for direction in ("lower", "higher"):
        assert all(lost(each, direction, g) >= lost(each, direction) for each in blocks)


@pytest.mark.parametrize(
    ("value", "direction", "same"), [(98, "lower", 100), (102, "higher", 100), (-102, "lower", -100)]
)
def test_a_gain_is_a_share_of_the_reference(value: float, direction: Direction, same: float) -> None:
    assert handicapped(value, direction, 0.02) == pytest.approx(same)


def test_every_order_comes_and_a_seed_says_which() -> None:
    drawn = [order(seed, block) for seed in range(300) for block in range(10)]
    assert {each: round(drawn.count(each) / len(drawn), 1) for each in ORDERS} == dict.fromkeys(ORDERS, 0.2)
    assert [order(7, block) for block in range(10)] == [order(7, block) for block in range(10)]


def test_no_more_false_keeps_than_promised_and_no_more_runs() -> None:
    share, runs = exact()
    assert 1 - (1 - share) ** CANDIDATES == pytest.approx(0.0179, abs=1e-4)
    assert runs == pytest.approx(6.29, abs=0.01)
    assert 1 - (1 - exact("loose")[0]) ** CANDIDATES == pytest.approx(0.157, abs=1e-3)
    assert RULES["strict"][-1].blocks == 10


@pytest.mark.parametrize("name", MACHINES)
def test_the_rule_holds_on_every_machine(name: str) -> None:
    """The figures of the documentation, with fewer loops. ./bin/bench --only loops takes them all."""
    wrong, claimed, runs = false_keeps(name, 20, random.Random(5))
    assert wrong <= 0.2
    assert claimed <= 0.01
    assert runs <= 7
    assert kept(name, 3, 100, random.Random(6)) >= 0.75


def test_the_ratio_comes_with_its_interval() -> None:
    middle, low, high = ratio([Block((100, 102), (50, 51))] * 5) or (0, 0, 0)
    assert 0.48 < low <= middle <= high < 0.52
    assert ratio([Block((0, 1), (1, 1))]) is None
