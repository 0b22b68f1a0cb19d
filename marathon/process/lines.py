"""Cut a byte stream into lines without ever holding more than one bounded piece of it."""

from __future__ import annotations

LIMIT = 64 * 1024

Piece = tuple[bytes, bool]


class Framer:
    """Lines end at LF, CRLF or a lone CR. A piece is complete when the line ends with it.

    A line longer than LIMIT comes as several pieces of which only the last one is complete.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._after_cr = False

    def feed(self, data: bytes) -> list[Piece]:
        if not data:
            return []
        # A CR ends its line at once, so that progress bars move; an LF right after it is no second line.
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return []
        self._after_cr = data.endswith(b"\r")
        whole, self._tail = self._tail + data, b""
        return [piece for line in whole.splitlines(keepends=True) for piece in self._cut(line)]

    def flush(self) -> list[Piece]:
        """The unterminated rest: the stream is over, so its line is too."""
        rest, self._tail = self._tail, b""
        return [(rest, True)] if rest else []

    def _cut(self, line: bytes) -> list[Piece]:
        body = line.rstrip(b"\r\n")
        ended = len(body) < len(line)
        last = max(0, (len(body) - 1) // LIMIT * LIMIT)
        pieces = [(body[at : at + LIMIT], False) for at in range(0, last, LIMIT)]
        if ended:
            return [*pieces, (body[last:], True)]
        self._tail = body[last:]
        return pieces
