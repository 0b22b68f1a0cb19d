"""What a session used: tokens, money, turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from marathon.core.text import one_line


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a session used, as far as its agent tells."""

    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    cost: float = 0
    turns: int = 0
    toolCalls: int = 0
    model: str = ""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cacheRead + self.cacheWrite

    def plus(self, other: Usage) -> Usage:
        """Both together; the model is the later one's."""
        counted = [each.name for each in fields(self) if each.name != "model"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in counted}
        return Usage(**sums, model=other.model or self.model)


def usage_in(table: Mapping[str, Any]) -> Usage:
    """A usage out of an untrusted table, in which what is no number counts as nothing."""
    counted = ("input", "output", "cacheRead", "cacheWrite", "turns", "toolCalls")
    counts = {name: int(number_in(table.get(name))) for name in counted}
    return Usage(**counts, cost=number_in(table.get("cost")), model=one_line(str(table.get("model") or ""), 100))


def number_in(value: Any) -> float:
    """A number that can be added up; anything else, infinity included, is 0."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if fits else 0.0
