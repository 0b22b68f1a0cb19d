"""The framer, by table and by property."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.process.output import LINE_LIMIT as LIMIT
from marathon.process.output import Framer


def frame(*chunks: bytes) -> list[tuple[bytes, bool]]:
    framer = Framer()
    return [piece for chunk in chunks for piece in framer.feed(chunk)] + framer.flush()


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        ([], []),
        ([b"one\ntwo\n"], [(b"one", True), (b"two", True)]),
        ([b"o", b"ne", b"\n"], [(b"one", True)]),
        ([b"one\r\ntwo\r\n"], [(b"one", True), (b"two", True)]),
        ([b"one\r", b"\ntwo"], [(b"one", True), (b"two", True)]),
        ([b"10%\r20%\rdone\n"], [(b"10%", True), (b"20%", True), (b"done", True)]),
        ([b"10%\r", b"", b"20%\r", b"\n"], [(b"10%", True), (b"20%", True)]),
        ([b"\n\n"], [(b"", True), (b"", True)]),
        ([b"one\r", b"\n", b"\n"], [(b"one", True), (b"", True)]),
        ([b"half"], [(b"half", True)]),
        ([b"nul\0and \xff\xfe\n"], [(b"nul\0and \xff\xfe", True)]),
        ([b"\x0b\x0c\x1c\x85 are not line ends\n"], [(b"\x0b\x0c\x1c\x85 are not line ends", True)]),
        ([b"x" * LIMIT + b"\n"], [(b"x" * LIMIT, True)]),
        ([b"x" * LIMIT, b"\n"], [(b"x" * LIMIT, True)]),
        ([b"x" * LIMIT + b"y\nz\n"], [(b"x" * LIMIT, False), (b"y", True), (b"z", True)]),
        ([b"x" * (2 * LIMIT + 1)], [(b"x" * LIMIT, False), (b"x" * LIMIT, False), (b"x", True)]),
    ],
)
def test_lines_are_cut_as_the_table_says(chunks: list[bytes], pieces: list[tuple[bytes, bool]]) -> None:
    assert frame(*chunks) == pieces


def test_a_line_is_out_as_soon_as_its_carriage_return_is() -> None:
    assert Framer().feed(b"50%\r") == [(b"50%", True)]


def test_an_endless_line_is_not_kept() -> None:
    framer = Framer()
    for _ in range(100):
        assert sum(len(piece) for piece, _ in framer.feed(b"x" * LIMIT)) in (0, LIMIT)
    assert framer.flush() == [(b"x" * LIMIT, True)]


@settings(deadline=None)
@given(st.lists(st.text("a\r\n", max_size=8).map(str.encode), max_size=12))
def test_where_the_stream_is_chunked_makes_no_difference(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    lines = re.split(rb"\r\n|\r|\n", whole)
    if lines[-1] == b"":
        lines.pop()
    assert frame(*chunks) == [(line, True) for line in lines]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3 * LIMIT), max_size=4), st.integers(LIMIT // 16, 2 * LIMIT))
def test_pieces_are_bounded_and_join_to_the_lines(lengths: list[int], chunk: int) -> None:
    lines = [b"x" * length for length in lengths]
    whole = b"".join(line + b"\n" for line in lines)
    pieces = frame(*(whole[at : at + chunk] for at in range(0, len(whole), chunk)))
    joined, current = [], b""
    for piece, complete in pieces:
        assert len(piece) <= LIMIT
        current += piece
        if complete:
            joined.append(current)
            current = b""
    assert joined == lines
    assert current == b""
