"""When the runner measures: how it tells a gain from noise.

Three samples screen a candidate by the rule of core/lanes/numbers. Only what passes is measured again, in turn with the
reference, and these fresh samples decide alone. So a lucky sample cannot be kept, and a lucky reference does not stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import comb
from statistics import median
from typing import Literal

from marathon.core.lanes.model import Direction
from marathon.core.lanes.numbers import gain, improved, mad

SCREEN_SAMPLES = 3
CONFIRM_SAMPLES = 5
# How often the samples of two equal things may look so different. Only a quarter of such pairs pass the screen.
_CHANCE = 0.05
_CERTAIN = 0.005
_MAD_TO_SIGMA = 1.4826
_SEEN_SIGMAS = 3.0  # a gain of this size is kept at least nine times out of ten; bench/lanes.py shows it

Side = Literal["reference", "candidate"]


def screened(candidate: Sequence[float], reference: float, direction: Direction) -> bool:
    """Whether a candidate is worth a confirmation. Fewer samples than three never are."""
    return len(candidate) >= SCREEN_SAMPLES and improved(candidate, reference, direction)


def turns(samples: int = CONFIRM_SAMPLES) -> Iterator[Side]:
    """Whose turn it is to be measured. The order swaps each time, so that a steady drift favours neither side."""
    orders: tuple[tuple[Side, Side], ...] = (("reference", "candidate"), ("candidate", "reference"))
    return chain.from_iterable(orders[number % 2] for number in range(samples))


def confirmed(candidate: Sequence[float], reference: Sequence[float], direction: Direction) -> bool:
    """Whether fresh samples of both, taken in turn, show a gain: by their ranks, so that outliers weigh no more."""
    if min(len(candidate), len(reference)) < CONFIRM_SAMPLES:
        return False
    middle = gain(median(candidate), median(reference), direction)
    return middle > 0 and chance(candidate, reference, direction) <= _CHANCE


def chance(candidate: Sequence[float], reference: Sequence[float], direction: Direction) -> float:
    """How often samples of two equal things would favour the candidate as much as these (rank-sum, exact)."""
    lost = 0.0
    for one in candidate:
        for other in reference:
            ahead = gain(one, other, direction)
            lost += 0.5 if ahead == 0 else float(ahead < 0)
    n, m = len(candidate), len(reference)
    return sum(_orders(count, n, m) for count in range(int(lost + 0.5) + 1)) / comb(n + m, n)


@cache
def _orders(lost: int, n: int, m: int) -> int:
    """In how many orders of n and m samples exactly `lost` of the n × m comparisons are lost."""
    if lost < 0 or n < 0 or m < 0:
        return 0
    if n == 0 or m == 0:
        return int(lost == 0)
    return _orders(lost - m, n - 1, m) + _orders(lost, n, m - 1)


@dataclass(frozen=True)
class NoiseFloor:
    """What measuring the same tree twice tells."""

    sigma: float
    percent: float | None  # of the metric; None where that is 0
    smallest_gain: float  # a smaller one may not be seen
    steady: bool  # False: the same tree does not give the same number twice


def noise_floor(first: Sequence[float], second: Sequence[float]) -> NoiseFloor:
    """The A/A check: two sets of samples of one and the same tree, taken in turn."""
    middle = median([*first, *second])
    sigma = _MAD_TO_SIGMA * max(mad(first), mad(second), mad([*first, *second]))
    percent = 100 * sigma / abs(middle) if middle else None
    return NoiseFloor(sigma, percent, _SEEN_SIGMAS * sigma, not differs(first, second))


def differs(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two sets of samples of the same tree are surely not the same: noise that drifts, or a flaky verify."""
    return min(chance(one, other, "lower"), chance(one, other, "higher")) <= _CERTAIN
