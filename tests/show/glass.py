"""What a terminal shows: the little of its language that pi-marathon speaks. Anything else is a mistake."""

from __future__ import annotations

import re

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(\d*)([AJKG])|\x1b\[(?:[\d;]*[mt]|\?\d+[hl])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([\r\n\a])|(.)\ufe0f?",
    re.DOTALL,
)


class Glass:
    """A window with a number of columns and rows, and everything that was scrolled out of it."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.height = columns, rows
        self._rows: list[dict[int, str]] = [{}]
        self._row = self._column = 0

    def feed(self, written: str) -> Glass:
        for count, command, control, character in _TOKEN.findall(written):
            if command:
                self._obey(command, int(count or 1))
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._down()
                self._column = 0
            elif character:
                self._put(character)
        return self

    @property
    def lines(self) -> list[str]:
        """Every row from the first one on, without the empty ones at the end."""
        shown = []
        for row in self._rows:
            line, at = "", 0
            for column, character in sorted(row.items()):
                line += " " * (column - at) + character
                at = column + cell_len(character)
            shown.append(line.rstrip())
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def _put(self, character: str) -> None:
        assert character.isprintable(), f"a terminal would act on {character!r}"
        if self._column + cell_len(character) > self.columns:
            self._down()
            self._column = 0
        self._rows[self._row][self._column] = character
        self._column += cell_len(character)

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append({})

    def _obey(self, command: str, count: int) -> None:
        match command:
            case "A":
                top = max(0, len(self._rows) - self.height)
                self._row = max(top, self._row - count)
            case "G":
                self._column = count - 1
            case "K" | "J":
                kept = self._rows[self._row].items()
                self._rows[self._row] = {column: cell for column, cell in kept if column < self._column}
                if command == "J":
                    self._rows[self._row + 1 :] = [{} for _ in self._rows[self._row + 1 :]]
