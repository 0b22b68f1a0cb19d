"""Tasks as the lines of `list`: aligned, and those that wait for you first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marathon.core.text import age, one_line
from marathon.show.status import Status

_WIDEST = 50  # cells of a column; what an agent wrote may be long
_HEADINGS = ("Task", "State", "Sessions", "Cost", "Age")
_NUMBERS = ("Sessions", "Cost", "Age")


@dataclass(frozen=True)
class Row:
    """One task of a list."""

    folder: Path
    project: Path
    status: Status
    idle: float  # seconds since something happened

    @property
    def waits_for_you(self) -> bool:
        return self.status.condition == "gate"

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        """Such as `waiting for you: review of plan`, `implement (running)`, `completed`."""
        status = self.status
        if self.waits_for_you:
            return f"waiting for you: {status.waits_for.removeprefix('your ').removeprefix('you: ')}"
        if status.condition == "waiting":
            return f"{status.phase}: waits for {status.waits_for}"
        return f"{status.phase} ({status.condition})" if _works(status) else status.condition

    def as_json(self) -> dict[str, Any]:
        status = self.status
        return {
            **{name: getattr(status, name) for name in ("task", "condition", "phase", "run", "iteration", "seconds")},
            "name": self.name,
            "project": str(self.project),
            "waits_for": status.waits_for,
            "cost": status.usage.cost,
            "idle_seconds": round(self.idle),
        }


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Those that wait for you, then those that run, then the rest; each with the latest first."""
    return sorted(rows, key=lambda row: (not row.waits_for_you, not row.status.runner, row.idle, row.name))


def table(rows: Sequence[Row], *, projects: bool = False) -> list[str]:
    """Aligned columns. Wide characters count as two cells."""
    headings = (*_HEADINGS, *(("Project",) if projects else ()))
    cells = [list(headings), *(_cells(row, projects=projects) for row in in_order(rows))]
    widths = [max(_width(line[place]) for line in cells) for place in range(len(headings))]
    return ["  ".join(map(_aligned, line, widths, headings)).rstrip() for line in cells]


def _cells(row: Row, *, projects: bool) -> list[str]:
    status = row.status
    cost = f"${status.usage.cost:.2f}" if status.usage.cost else ""
    sessions = str(status.iteration) if status.run else ""
    shown = [_cut(row.name), _cut(row.state), sessions, cost, age(row.idle)]
    return [*shown, one_line(str(row.project), 200)] if projects else shown


def _works(status: Status) -> bool:
    return bool(status.run) and status.condition in ("running", "ready", "interrupted")


def _aligned(text: str, width: int, heading: str) -> str:
    space = " " * (width - _width(text))
    return space + text if heading in _NUMBERS else text + space


def _cut(text: str) -> str:
    from rich.cells import set_cell_size

    line = one_line(text)
    return line if _width(line) <= _WIDEST else set_cell_size(line, _WIDEST - 1).rstrip() + "…"


def _width(text: str) -> int:
    from rich.cells import cell_len  # only here, because it takes as long to load as the rest of the list

    return cell_len(text)
