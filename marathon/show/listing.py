"""Tasks as the lines of `list`: aligned, and those that wait for you first."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marathon.core.names import completions
from marathon.core.text import age, cut, one_line
from marathon.show.program import program
from marathon.show.status import REBOOTED, Status

OVER = ("completed", "cancelled")  # conditions of a task that no start goes on with
_WIDEST = 50  # cells of a column; what an agent wrote may be long
_NARROWEST = 20  # of one that is cut so that a row fits the window
_PIPE = 1000  # cells, where there is no window
_HEADINGS = ("Task", "State", "Sessions", "Cost", "Age")
_CUT = ("State", "Task")
_NUMBERS = ("Sessions", "Cost", "Age", "Time")


@dataclass(frozen=True)
class Row:
    """One task of a list."""

    folder: Path
    project: Path
    status: Status
    idle: float  # seconds since something happened
    loop: str = ""  # the name of a measured loop

    @property
    def waits_for_you(self) -> bool:
        return self.status.condition == "gate"

    @property
    def name(self) -> str:
        return self.loop or self.folder.name

    @property
    def state(self) -> str:
        """Such as `waiting for you: review of plan`, `implement (running)`, `completed`."""
        status = self.status
        if status.rebooted:
            return REBOOTED
        if self.waits_for_you:
            return f"waiting for you: {status.waits_for.removeprefix('your ').removeprefix('you: ')}"
        if status.condition == "waiting":
            return f"{status.phase}: waits for {status.waits_for}"
        works = status.run and status.condition in ("running", "ready", "interrupted")
        return f"{status.phase} ({status.condition})" if works else status.condition

    def as_json(self) -> dict[str, Any]:
        status = self.status
        return {
            **{name: getattr(status, name) for name in ("task", "condition", "phase", "run", "iteration", "seconds")},
            "name": self.name,
            "kind": "loop" if self.loop else "task",
            **{
                name: getattr(status, name)
                for name in ("runner", "background", "rebooted", "worktree", "branch", "resume")
            },
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
    rows = in_order(rows)
    return aligned(
        headings, [_cells(row, name, projects=projects) for row, name in zip(rows, _names(rows), strict=True)]
    )


def after_reboot(rows: Sequence[Row], here: Path) -> list[str]:
    """How to go on with each task whose runner ended with the machine."""
    lines = []
    for row in (row for row in in_order(rows) if row.status.rebooted):
        there = "" if row.project == here else f"cd {shlex.quote(str(row.project))} && "
        lines.append(one_line(f"{row.name}: {REBOOTED}; go on with: {there}{row.status.resume}", 4000))
    return lines


def in_background(rows: Sequence[Row]) -> list[str]:
    """Which tasks run without a terminal, and how to see one."""
    rows = in_order(rows)
    names = [name for row, name in zip(rows, _names(rows), strict=True) if row.status.background]
    if not names:
        return []
    return [f"In the background: {', '.join(names)}", f"  See it: {program()} attach {shlex.quote(names[0])}"]


def window() -> int:
    """The columns of the window. What is no window has more than any line needs."""
    return shutil.get_terminal_size((_PIPE, 24)).columns


def _names(rows: Sequence[Row]) -> list[str]:
    """The names without their time, where that names one task. Rows fit into more windows then."""
    return [one_line(name) for name in completions("", [row.name for row in rows])]


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that fit the window. Where they do not, the state is cut first, then the name."""
    columns = [[one_line(cell) for cell in column] for column in zip(headings, *rows, strict=True)]
    widths = [max(map(_width, column)) for column in columns]
    space = window()
    for at in (headings.index(name) for name in _CUT):
        too_wide = sum(widths) + 2 * (len(widths) - 1) - space
        widths[at] = min(widths[at], _WIDEST, max(_NARROWEST, widths[at] - too_wide))
    lines = zip(*columns, strict=True)
    return ["  ".join(map(_aligned, line, widths, headings)).rstrip() for line in lines]


def _cells(row: Row, name: str, *, projects: bool) -> list[str]:
    status = row.status
    sessions = str(status.iteration) if status.run else ""
    shown = [
        name,
        f"loop: {row.state}" if row.loop else row.state,
        sessions,
        money(status),
        age(row.idle),
    ]
    return [*shown, one_line(str(row.project), 200)] if projects else shown


def money(status: Status) -> str:
    return f"${status.usage.cost:.2f}" if status.usage.cost else ""


def _aligned(cell: str, width: int, heading: str) -> str:
    if _width(cell) > width:
        from rich.cells import set_cell_size

        cell = cut(cell, len(set_cell_size(cell, width - 1).rstrip())) + "…"
    space = " " * (width - _width(cell))
    return space + cell if heading in _NUMBERS else cell + space


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # only here, because it takes as long to load as the rest of the list

    return cell_len(text)
