"""Secondary metrics: they need not improve, but a change that makes one of them much worse is not kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import cast

from marathon.core.lanes.model import Check, Direction, Refused
from marathon.core.lanes.numbers import gain, number

_FORM = re.compile(
    r"(?P<name>[A-Za-z0-9._/-]+):(?P<direction>lower|higher):(?P<allowed>\d+\.?\d*|\.\d+)(?P<percent>%?)"
)


@dataclass(frozen=True)
class Also:
    name: str
    direction: Direction
    allowed: float  # how much worse it may get, in its own unit or in per cent
    percent: bool

    def check(self, candidate: list[float], reference: list[float]) -> Check:
        """By the medians of samples that were taken in turn."""
        found, before = median(candidate), median(reference)
        worse = -gain(found, before, self.direction)
        limit = self.allowed * abs(before) / 100 if self.percent else self.allowed
        said = f"{number(found)} against {number(before)}, may be worse by {number(self.allowed)}"
        evidence = said + (" %" if self.percent else "")
        return Check(name=self.name, passed=worse <= limit, kind="metric", evidence=evidence)


def parse_also(text: str) -> Also:
    match = _FORM.fullmatch(text.strip())
    if match is None:
        example = "Write NAME:lower|higher:HOW MUCH WORSE, such as: --also memory:lower:5%"
        raise Refused(f"--also {text!r} cannot be read.", example)
    direction = cast(Direction, match["direction"])
    return Also(match["name"], direction, float(match["allowed"]), bool(match["percent"]))
