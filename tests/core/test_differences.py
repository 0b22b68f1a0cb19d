"""What changed between two texts."""

from __future__ import annotations

import difflib
import random
import time

from hypothesis import given
from hypothesis import strategies as st

from marathon.core.differences import changed_places, difference

_TEXT = st.lists(st.sampled_from(["", "a", "b", "- c", "+ d"]), max_size=30)


@given(_TEXT, _TEXT)
def test_a_difference_is_a_unified_diff(before: list[str], after: list[str]) -> None:
    told = difference("\n".join([*before, "end"]), "\n".join([*after, "end"]), "old", "new")
    assert told == "\n".join(difflib.unified_diff([*before, "end"], [*after, "end"], "old", "new", lineterm=""))


def test_long_and_very_different_texts_take_no_time() -> None:
    order = random.Random(1)
    before = [f"line {number}" for number in range(20_000)]
    half = [f"{line}!" if order.random() < 0.5 else line for line in before]
    for after in (before[::-1], order.sample(before, len(before)), half):
        began = time.monotonic()
        (group,) = changed_places(["top", *before, "low"], ["top", *after, "low"])
        assert time.monotonic() - began < 5
        assert [each[0] for each in group] == ["equal", "replace", "equal"]
