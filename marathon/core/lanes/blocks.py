"""The rule of a measured loop: which of two trees is better, decided in blocks of two runs of each.

The order of a block is drawn, and only runs of one block are compared. So without a gain every order of its numbers
is equally likely, whatever the noise, and the number of lost comparisons has an exact distribution.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from math import ceil
from statistics import median
from typing import Literal, NamedTuple

from marathon.core.lanes.model import Direction, RuleName
from marathon.core.lanes.numbers import gain

Verdict = Literal["keep", "drop"]
ORDERS = ("RRCC", "RCRC", "RCCR", "CRRC", "CRCR", "CCRR")
_LOST = (1, 1, 2, 1, 1)  # of the six orders, how many lose 0, 1, 2, 3 and 4 of the block's four comparisons


class Look(NamedTuple):
    blocks: int
    drop: float  # at a chance above it
    keep: float  # at a chance of at most it


RULES: dict[str, tuple[Look, ...]] = {
    "strict": (
        *(Look(1, 0.5, 0), Look(2, 0.25, 0), Look(3, 0.09, 0), Look(4, 0.03, 0)),
        *(Look(5, 0.01, 1.4e-4), Look(7, 0.004, 1.2e-4), Look(10, 0, 1.2e-4)),
    ),
    "loose": (
        *(Look(1, 0.5, 0), Look(2, 0.25, 0), Look(3, 0.12, 0), Look(4, 0.05, 8e-4)),
        *(Look(5, 0.02, 8e-4), Look(7, 0.008, 8e-4), Look(10, 0, 8e-4)),
    ),
}
MOST_BLOCKS = 10
SEEN = 2.2  # a gain of fewer standard deviations is mostly missed


class Block(NamedTuple):
    """Two runs of the reference and two of the candidate."""

    reference: tuple[float, float]
    candidate: tuple[float, float]


def order(seed: int, block: int) -> str:
    """In which order the runs of a block are made."""
    return ORDERS[int.from_bytes(hashlib.sha256(f"{seed}/{block}".encode()).digest()[:8]) % 6]


def handicapped(value: float, direction: Direction, min_gain: float) -> float:
    """The candidate's number as if it were worse by the gain that is asked for (0.02 is 2 %)."""
    return value / (1 - min_gain if (value > 0) == (direction == "lower") else 1 + min_gain)


def lost(block: Block, direction: Direction, min_gain: float = 0.0) -> float:
    """How many of the four comparisons the candidate loses. A tie is half."""
    ahead = [gain(handicapped(c, direction, min_gain), r, direction) for c in block.candidate for r in block.reference]
    return sum(0.5 if each == 0 else float(each < 0) for each in ahead)


def chance(count: float, blocks: int) -> float:
    """How often a candidate without a gain loses at most so many. A half rounds against it."""
    return sum(_ways(blocks)[: ceil(count) + 1]) / float(6**blocks)


@cache
def _ways(blocks: int) -> tuple[int, ...]:
    if blocks == 0:
        return (1,)
    ways = [0] * (4 * blocks + 1)
    for before, many in enumerate(_ways(blocks - 1)):
        for more, each in enumerate(_LOST):
            ways[before + more] += many * each
    return tuple(ways)


def verdict(
    blocks: Sequence[Block],
    direction: Direction,
    *,
    rule: RuleName = "strict",
    min_gain: float = 0.0,
    noiseless: bool = False,
) -> Verdict | None:
    """Keep, drop, or None: one more block. `noiseless`: no two runs of one tree in this loop have ever differed."""
    count = sum(lost(block, direction, min_gain) for block in blocks)
    if noiseless and blocks:
        return "drop" if count else "keep"
    look = next((each for each in RULES[rule] if each.blocks == len(blocks)), None)
    if look is None:
        return None
    p = chance(count, len(blocks))
    if p <= look.keep:
        return "keep"
    return "drop" if p > look.drop else None


def alike(block: Block) -> bool:
    """Whether both runs of each tree gave the same number."""
    return len(set(block.reference)) == len(set(block.candidate)) == 1


def ratio(blocks: Sequence[Block]) -> tuple[float, float, float] | None:
    """The candidate's number by the reference's, with its 95 % interval. None where that means nothing.

    The middle of all quotients, and the quotients whose ranks the rank-sum test does not rule out.
    """
    references = [value for block in blocks for value in block.reference]
    candidates = [value for block in blocks for value in block.candidate]
    if not blocks or min(references + candidates) <= 0:
        return None
    quotients = sorted(c / r for c in candidates for r in references)
    n = len(references)
    outside = max(0, round(n * n / 2 - 1.96 * (n * n * (2 * n + 1) / 12) ** 0.5))
    return median(quotients), quotients[outside], quotients[-1 - outside]
