"""One figure and its bar."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    unit: str
    at_most: float
    about: str  # how it came about

    @property
    def ok(self) -> bool:
        return self.value <= self.at_most

    def facts(self) -> dict[str, Any]:
        return {**asdict(self), "value": round(self.value, 3), "ok": self.ok}


def summary(rows: list[Row]) -> str:
    return f"{sum(row.ok for row in rows)} of {len(rows)} bars held"
