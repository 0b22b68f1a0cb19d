"""The rows at the bottom of a terminal that change: what is going on now, and the footer that stays."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from marathon.core.text import clean
from marathon.show.blocks import DIM, Line, styled
from marathon.show.markdown import cells
from marathon.show.outlet import Outlet


class Region:
    """Rows that are written again and again below the lines that stay. Each fits into one row of the terminal."""

    def __init__(self, out: Outlet, color: bool) -> None:
        self._out = out
        self._color = color
        self._drawn: list[str] = []
        self._widths: list[int] = []
        self._cursor: int | None = None

    def draw(self, above: Sequence[str], lines: Sequence[Line], cursor: int | None = None) -> None:
        """Write lines that stay, and these rows below them. What is the same is not written again.

        The cursor stands in the last row, at this cell or at its end.
        """
        columns, height = shutil.get_terminal_size()
        lines = [Line(fit(clean(line.margin + line.text), columns - 1), line.style) for line in lines[-height:]]
        rows = [styled(line.text, line.style, self._color) for line in lines]
        if not above and rows == self._drawn and cursor == self._cursor:
            return
        # Rows are overwritten, so that nothing flickers.
        rest, below = ("\x1b[K", "\x1b[J") if self._drawn else ("", "")
        shown = "".join(f"{line}{rest}\n" for line in above) + f"{rest}\n".join(rows)
        at = "" if cursor is None else f"\x1b[{cursor + 1}G"
        self._out.write(self._back(columns) + shown + below + at)
        self._cursor = cursor
        self._drawn, self._widths = rows, [cells(line.text) for line in lines]

    def forget(self) -> None:
        """Another program wrote on the screen, so the rows are no longer where they were."""
        self._drawn = []

    def _back(self, columns: int) -> str:
        """To the start of the first row. In a window that became narrower, a row takes several."""
        if not self._drawn:
            return ""
        taken = sum(max(1, -(-width // max(columns, 1))) for width in self._widths)
        return f"\r\x1b[{taken - 1}A" if taken > 1 else "\r"


def footer(facts: Sequence[str], hints: Sequence[str], width: int) -> Line:
    """The facts, and as many hints as there is room for. A name that is still too long is cut."""
    left = list(hints)
    while left and cells(line := " │ ".join([*facts, " · ".join(left)])) > width:
        left.remove(max(left, key=len))
    if left:
        return Line(line, DIM)
    name, *rest = facts
    room = width - cells(" │ ".join(["", *rest]))
    return Line(" │ ".join([fit(name, room), *rest] if room > 3 else rest), DIM)


def fit(text: str, room: int) -> str:
    """The beginning of the text, as much as fits into that many cells."""
    from rich.cells import set_cell_size

    return text if cells(text) <= room else set_cell_size(text, max(room - 1, 0)).rstrip() + "…"


def typed_row(before: str, behind: str, width: int) -> tuple[Line, int]:
    """What a human types, and the cell of the cursor. Of a long line, the part around the cursor is shown."""
    room = max(width - 3, 1)
    after = fit(behind, max(room - cells(before), room // 3))
    shown = "› " + fit_end(before, room - cells(after))
    return Line(shown + after), cells(shown)


def fit_end(text: str, room: int) -> str:
    """The end of the text, as much as fits."""
    if cells(text) <= room:
        return text
    end = text[-max(room, 1) :]
    while end and cells(end) >= room:
        end = end[1:]
    return "…" + end
