"""Documents as HTML."""

from __future__ import annotations

from marathon.web.html import Html
from marathon.web.render import markdown


def test_what_is_said_about_a_step_stands_before_the_items_in_it() -> None:
    steps = ["- one", "  - its file", "  - its test", "- two"]
    drawn = markdown(steps, 1, lambda first, last: (Html(), Html(f"[about {first}]")))
    order = ["one", "[about 1]", "its file", "[about 2]", "its test", "[about 3]", "two", "[about 4]"]
    assert sorted(order, key=drawn.index) == order
    assert all(drawn.count(each) == 1 for each in order)
