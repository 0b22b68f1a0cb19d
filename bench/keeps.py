"""What the rule of measured loops keeps: exact where runs are independent, else simulated with a fixed seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from statistics import median

from marathon.core.lanes.blocks import MOST_BLOCKS, RULES, Block, chance, order, ratio, verdict
from marathon.core.lanes.model import RuleName
from marathon.core.lanes.numbers import improved

SIGMA = 2.0  # the noise of one run, in per cent of the number
CANDIDATES = 100  # in a loop
Machine = Callable[[random.Random], Iterator[float]]  # the noise of run after run, in standard deviations


def _each(draw: Callable[[random.Random], float]) -> Machine:
    def machine(rng: random.Random) -> Iterator[float]:
        while True:
            yield draw(rng)

    return machine


def _t2(rng: random.Random) -> float:
    """Student's t with two degrees of freedom has no variance. Here 95 % of it lie within two, as of the gaussian."""
    return rng.gauss(0, 1) / math.sqrt(rng.expovariate(1)) * 1.96 / 4.303


def _drifting(rng: random.Random) -> Iterator[float]:
    """The machine gets slower and faster again: half a standard deviation in a few runs, up to three."""
    at = step = 0.0
    while True:
        step = 0.95 * step + rng.gauss(0, 0.05)
        at = 0.995 * at + step
        yield at + rng.gauss(0, 1)


def _autocorrelated(rng: random.Random) -> Iterator[float]:
    at = 0.0
    while True:
        at = 0.8 * at + 0.6 * rng.gauss(0, 1)
        yield at


def _neighbour(rng: random.Random) -> Iterator[float]:
    """Another program comes and goes, and costs three standard deviations while it is there."""
    busy = False
    while True:
        busy = rng.random() < (0.9 if busy else 0.05)
        yield rng.gauss(0, 1) + 3 * busy


MACHINES: dict[str, Machine] = {
    "gaussian": _each(lambda rng: rng.gauss(0, 1)),
    "heavy-tailed": _each(lambda rng: math.exp(rng.gauss(0, 0.75)) / 1.152),
    "t2": _each(_t2),
    "bimodal": _each(lambda rng: rng.gauss(0, 0.6) + (1.6 if rng.random() < 0.5 else 0)),
    "drift": _drifting,
    "autocorrelated": _autocorrelated,
    "noisy neighbour": _neighbour,
    "slow first run": _each(lambda rng: rng.gauss(0, 1)),  # of a block, by one standard deviation
}


def exact(rule: RuleName = "strict") -> tuple[float, float]:
    """For candidates without a gain: the share that is kept, and how many runs each takes."""
    going, kept, runs = {0: 1.0}, 0.0, 0.0
    looks = {look.blocks: look for look in RULES[rule]}
    for blocks in range(1, MOST_BLOCKS + 1):
        runs += 4 * sum(going.values())
        after: dict[int, float] = {}
        for count, share in going.items():
            for more, ways in enumerate((1, 1, 2, 1, 1)):
                after[count + more] = after.get(count + more, 0) + share * ways / 6
        if look := looks.get(blocks):
            kept += sum(share for count, share in after.items() if chance(count, blocks) <= look.keep)
            after = {n: share for n, share in after.items() if look.keep < chance(n, blocks) <= look.drop}
        going = after
    return kept, runs


class Trial:
    """One loop on one machine. `slow` is what the first run of a block costs, in standard deviations."""

    def __init__(self, machine: Machine, rng: random.Random, *, slow: float = 0.0) -> None:
        self.rng, self.noise, self.slow = rng, machine(rng), slow
        self.runs = 0

    def blocks(
        self, gain: float, rule: RuleName = "strict", min_gain: float = 0.0, *, offset: float = 0.0
    ) -> tuple[bool, list[Block]]:
        """Whether a candidate with a gain (in standard deviations) is kept. `offset`: of its tree, in per cent."""
        seed, done = self.rng.getrandbits(32), list[Block]()
        while True:
            sides: dict[str, list[float]] = {"R": [], "C": []}
            for place, side in enumerate(order(seed, len(done))):
                value = 100 + SIGMA * (next(self.noise) + (self.slow if place == 0 else 0))
                sides[side].append(value + (offset - SIGMA * gain if side == "C" else 0))
            self.runs += 4
            done.append(Block((sides["R"][0], sides["R"][1]), (sides["C"][0], sides["C"][1])))
            if said := verdict(done, "lower", rule=rule, min_gain=min_gain):
                return said == "keep", done


def false_keeps(
    name: str, loops: int, rng: random.Random, *, rule: RuleName = "strict", offset: float = 0.0, min_gain: float = 0.0
) -> tuple[float, float, float]:
    """Of loops in which no candidate brings anything: the share that keeps one, the mean gain that they claim, and the
    runs per candidate."""
    wrong, claimed, runs = 0, 0.0, 0
    for _ in range(loops):
        trial = Trial(MACHINES[name], rng, slow=float(name == "slow first run"))
        before, total = 0.0, 1.0
        for _ in range(CANDIDATES):
            own = rng.gauss(0, offset) if offset else 0.0
            kept, blocks = trial.blocks(0, rule, min_gain, offset=own - before)
            if kept:
                before, found = own, ratio(blocks)
                total *= found[0] if found else 1
        wrong += total != 1
        claimed += 1 - total
        runs += trial.runs
    return wrong / loops, claimed / loops, runs / loops / CANDIDATES


def kept(name: str, gain: float, candidates: int, rng: random.Random, *, rule: RuleName = "strict") -> float:
    """The share of candidates with a real gain that is kept."""
    trial = Trial(MACHINES[name], rng, slow=float(name == "slow first run"))
    return sum(trial.blocks(gain, rule)[0] for _ in range(candidates)) / candidates


def seeds_rule(name: str, loops: int, rng: random.Random) -> float:
    """The same as the first of `false_keeps` for three samples against a number that was measured once."""
    wrong = 0
    for _ in range(loops):
        noise = MACHINES[name](rng)
        reference = median(100 + SIGMA * next(noise) for _ in range(3))
        wrong += any(
            improved([100 + SIGMA * next(noise) for _ in range(3)], reference, "lower") for _ in range(CANDIDATES)
        )
    return wrong / loops
