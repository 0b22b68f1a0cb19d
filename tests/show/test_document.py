"""A document as it is read at a gate: every line is there, none is cut, each with the number a comment names it by."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from marathon.core.comments import lines_of
from marathon.show.markdown import document_rows, markdown_rows
from tests.process.driver import Pty
from tests.support.world import World, research

PATH = "/api/v1/administration/organisations/{organisation}/members/{member}/permissions"
PLAN = f"""---
for: humans
---
# Plan of *things* ##

Some **bold** words, `code<T>`, Vec<T>, a [link](https://example.org/path "title") and <b>html</b>.
The second line of a paragraph.

<details>
- [ ] 1. A step
  - nested
> quoted
</details>
<!-- a hint -->

| Endpoint | Limit | What it does |
|----------|------:|--------------|
| `{PATH}` | 100 | It lists what a member of an organisation may do, and the dashboards call it often |
| `/b` | 5 | a \\| b |

```python
return "a very long line of code, which is longer than the window is wide, so that it is folded"
```
[ref]: https://example.org/reference
The end &#27;[2J
"""


def shown(text: str, width: int = 80) -> list[str]:
    return document_rows(text, width, width, color=False)


@pytest.mark.parametrize("width", [40, 80])
def test_every_word_is_shown_and_no_row_is_too_long(width: int) -> None:
    rows = shown(PLAN, width)
    assert max(map(cell_len, rows)) <= width
    letters = re.sub(r"\s", "", "".join(re.sub(r"^ ?\d+ +", "", row) for row in rows))
    for line in PLAN.splitlines():
        for word in re.findall(r"[\w/{}<>.:-]+", re.sub(r"^[#|-].*|&#27;\[2J|\]\(", " ", line)):
            assert word in letters, word
    assert "…" not in "".join(rows)
    assert "\x1b" not in "".join(rows)


def test_a_cell_that_is_too_long_is_folded() -> None:
    rows = shown(PLAN)
    at = next(number for number, row in enumerate(rows) if row.startswith("18 "))
    below = rows[at : next(number for number, row in enumerate(rows) if row.startswith("19 "))]
    assert "".join(row[5:].split("  ")[0].strip() for row in below) == PATH
    assert "dashboards call it often" in " ".join(" ".join(row[-30:].split()) for row in below)
    assert "…" not in "".join(markdown_rows(PLAN, 60, color=False)), "nor while the agent says it"


LINES = ["# a", "b", "- c", "", "| d | e |", "|---|---|", "```", "> f", "===", "    g", "1. h"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES)))
def test_each_line_has_its_own_number(lines: list[str]) -> None:
    text = "\n".join(lines)
    numbers = [int(found[1]) for row in shown(text) if (found := re.match(r" *(\d+)  ", row))]
    wanted = [number for number, line in enumerate(lines_of(text), start=1) if line]
    delimiters = {number for number in wanted if lines[number - 1] == "|---|---|"}
    assert [each for each in wanted if each not in delimiters] == [each for each in numbers if each not in delimiters]


def test_the_numbers_are_those_that_c_asks_for(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(write={"research.md": PLAN}))
    terminal = on_terminal(PAGER="cat")
    terminal.resize(24, 80)
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"v")
    seen = re.sub(r"\x1b\[[\d;]*m", "", terminal.expect(b"? shows the options").decode())
    row = next(row for row in seen.splitlines() if "1. A step" in row)
    assert "…" not in seen
    number = row.split()[0]
    terminal.send(b"c")
    terminal.expect(b"Esc back")
    terminal.send(f"{number}\r".encode())
    terminal.expect(b"Comment (")
    terminal.expect(b"Esc back")
    terminal.send(b"why?\r")
    terminal.expect(f"Saved: c1 on research.md {number} (must be answered).".encode())
    assert "> - [ ] 1. A step" in world.read("human.md")
