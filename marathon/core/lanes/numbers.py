"""The numbers of a measured loop: median, spread, confidence, and what counts as better."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from marathon.core.lanes.model import Confidence, Direction

NOISE_FACTOR = 2.0
_MANY, _SOME = 5, 3


def mad(values: Sequence[float]) -> float:
    """The median of the distances to the median, not scaled."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def confidence(values: Sequence[float]) -> Confidence:
    if len(values) < 2:
        return "low"
    if mad(values) == 0 or len(values) >= _MANY:
        return "high"
    return "medium" if len(values) >= _SOME else "low"


def gain(value: float, reference: float, direction: Direction) -> float:
    """How much better a value is. Less than 0 means worse."""
    return reference - value if direction == "lower" else value - reference


def improved(values: Sequence[float], reference: float, direction: Direction) -> bool:
    """Whether the median is better by strictly more than twice the spread of these values."""
    return gain(median(values), reference, direction) > NOISE_FACTOR * mad(values)


def better(one: float, other: float, direction: Direction) -> float:
    return min(one, other) if direction == "lower" else max(one, other)


def reached(value: float, target: float, direction: Direction) -> bool:
    return gain(value, target, direction) >= 0


def number(value: float) -> str:
    """A metric as a person would write it: 12, 0.0153, 1.5e+09."""
    return f"{value:.6g}"


def change(value: float, reference: float, direction: Direction) -> str:
    """Such as -12.5 (-11.1 %), improved."""
    if value == reference:
        return "unchanged"
    share = f" ({100 * (value - reference) / abs(reference):+.1f} %)" if reference else ""
    verdict = "improved" if gain(value, reference, direction) > 0 else "regressed"
    return f"{value - reference:+.6g}{share}, {verdict}"
