"""Which lines a human means."""

from __future__ import annotations

import pytest

from marathon.surfaces.comment import lines_with

DOCUMENT = """# Plan

## Storage

Use **sqlite** in `api/store.py`.

## Storage of logs

- [ ] 1. Add the storage
"""


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("storage", [3]),  # a heading that says just this
        ("## Storage of", [7]),
        ("storage o", [7]),
        ("add  the", [9]),
        ("sqlite in api/store.py", [5]),  # as it is read, without marks
        ("stor", [3, 7, 9]),  # headings and steps before other lines
        ("nothing like it", []),
    ],
)
def test_words_name_a_heading_a_step_or_a_line(words: str, lines: list[int]) -> None:
    assert [at for at, _ in lines_with(words, DOCUMENT)] == lines
