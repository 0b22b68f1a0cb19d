"""One line of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    name: str
    level: Literal["good", "note", "bad"]
    found: str
    cure: str = ""

    @property
    def sign(self) -> str:
        return {"good": "✓", "note": "•", "bad": "✗"}[self.level]
