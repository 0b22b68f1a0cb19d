"""Documents as HTML."""

from __future__ import annotations

from marathon.web.html import Html, h, text
from marathon.web.render import markdown


def test_nothing_that_is_not_html_already_passes_as_html() -> None:
    hostile = "\"'><b onload=x>&\x1b[31m"
    safe = "&quot;&#x27;&gt;&lt;b onload=x&gt;&amp;"
    assert text(hostile) == safe
    assert h("a", hostile, Html("<i>"), class_=hostile, data_line=1) == f'<a class="{safe}" data-line="1">{safe}<i></a>'
    assert h("input", value=hostile, checked=True, disabled=False, name=None) == f'<input value="{safe}" checked>'


def test_what_is_said_about_a_step_stands_before_the_items_in_it() -> None:
    steps = ["- one", "  - its file", "  - its test", "- two"]
    drawn = markdown(steps, 1, lambda first, last: (Html(), Html(f"[about {first}]")))
    order = ["one", "[about 1]", "its file", "[about 2]", "its test", "[about 3]", "two", "[about 4]"]
    assert sorted(order, key=drawn.index) == order
    assert all(drawn.count(each) == 1 for each in order)
