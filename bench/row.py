"""One figure: what was measured, against what, and what it ought to be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Target:
    """The ratio, or the value itself, is to be at most this."""

    of: Literal["ratio", "value"]
    at_most: float

    def __str__(self) -> str:
        return f"≤ {self.at_most:g}{' x' if self.of == 'ratio' else ''}"


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    unit: str
    baseline: float
    against: str  # what the baseline is
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def ok(self) -> bool | None:
        """None where there is no target."""
        if self.target is None:
            return None
        judged = self.ratio if self.target.of == "ratio" else self.value
        return judged is not None and judged <= self.target.at_most

    def facts(self) -> dict[str, Any]:
        rounded = {name: round(getattr(self, name), 3) for name in ("value", "baseline")}
        ratio = None if self.ratio is None else round(self.ratio, 3)
        return {**asdict(self), **rounded, "ratio": ratio, "ok": self.ok}


def summary(rows: list[Row]) -> str:
    judged = [row for row in rows if row.target]
    return f"{sum(row.ok is True for row in judged)} of {len(judged)} targets met"


def exit_code(rows: list[Row], *, strict: bool) -> int:
    return 1 if strict and any(row.ok is False for row in rows) else 0
