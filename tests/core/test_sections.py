"""Markdown as people write it: headings, lists, boxes; and nothing of what is only code, quotation or hint."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.core.sections import blocks, boxes, items, says_nothing, sections

MARKDOWN = st.lists(
    st.sampled_from(
        [
            *(
                "# ",
                "## ",
                "### ",
                "\n",
                "\n\n",
                "- ",
                "1. ",
                "  - ",
                "[ ] ",
                "[x] ",
                "```",
                "~~~",
                "> ",
                "<!--",
                "-->",
            ),
            *("a", "Goal", "`b`", ":", "\t", "\r\n", "\u2028", "*", "_", "---", "<x y>", "TBD"),
        ],
    ),
    max_size=60,
).map("".join)


def texts(text: str) -> dict[str, list[str]]:
    """What a human wrote below each heading."""
    return {name: [each.text for each in found] for name, found in sections(text).items()}


def test_each_heading_has_what_stands_below_it() -> None:
    assert texts("# Title\n\nBefore.\n\n## Goal\n\nOne.\n\nTwo.\n\n## Scope\nThree.\n") == {
        "": ["Before."],
        "goal": ["One.", "Two."],
        "scope": ["Three."],
    }


def test_a_comment_before_the_title_does_not_make_it_a_section() -> None:
    assert set(sections("<!-- a note -->\n# Title\n\n## Goal\nOne.\n")) == {"", "goal"}


def test_an_underlined_heading_is_a_heading() -> None:
    assert texts("Title\n=====\n\nGoal\n----\nOne.\n") == {"": [], "goal": ["One."]}


@pytest.mark.parametrize(
    "heading",
    [
        *("## Success Criteria", "## SUCCESS CRITERIA ##", "##  **Success criteria:**", "### 3. Success Criteria"),
        *("## ✅ Success Criteria", "   ## 2) Success criteria"),
    ],
)
def test_a_heading_is_known_by_its_words(heading: str) -> None:
    assert texts(f"{heading}\n- a\n")["success criteria"] == ["a"]


@pytest.mark.parametrize("line", ["##Goal", "Goal", "    ## Goal", "####### Goal", "> ## Goal", "- ## Goal"])
def test_what_is_no_heading(line: str) -> None:
    assert set(sections(f"{line}\ntext\n")) == {""}


def test_subheadings_belong_to_their_section_too() -> None:
    found = sections("## Success Criteria\n- a\n### Speed\n- b\n## Scope\n- c\n")
    assert items(found["success criteria"]) == ["a", "b"]
    assert items(found["speed"]) == ["b"]
    assert items(found["scope"]) == ["c"]


def test_first_level_headings_are_sections_where_there_are_several() -> None:
    assert texts("# Goal\none\n# Scope\ntwo\n") == {"": [], "goal": ["one"], "scope": ["two"]}
    assert texts("before\n# Goal\none\n") == {"": ["before"], "goal": ["one"]}


def test_a_heading_that_comes_twice_is_one_section() -> None:
    assert texts("## A\none\n## B\n## A\ntwo\n") == {"": [], "a": ["one", "two"], "b": []}


def test_a_heading_in_code_is_code() -> None:
    assert texts("## Goal\n```sh\n## Scope\n```\nafter\n") == {"": [], "goal": ["## Scope", "after"]}
    assert texts("## Goal\nRun:\n\n    # first\n    make\n\nafter\n") == {
        "": [],
        "goal": ["Run:", "# first", "make", "after"],
    }


@pytest.mark.parametrize(
    "hint",
    [
        *(
            "<!-- What is it? -->",
            "<!-- two\nlines -->",
            "<what to do>",
            "- <the commands>",
            "TBD",
            "- TODO",
            "...",
            "_TBD_",
        ),
        *("<!-- a --> <!-- b -->", "- [ ] <!-- a hint -->"),
    ],
)
def test_hints_and_placeholders_are_told_from_what_was_written(hint: str) -> None:
    text = f"## Goal\n{hint}\nreal\n"
    assert texts(text)["goal"] == ["real"]
    assert "placeholder" in [each.kind for each in blocks(text)]
    assert items(blocks(f"{hint}\n\n- real\n")) == ["real"]


def test_a_placeholder_hides_nothing_below_it() -> None:
    text = "## Scope\n<which files>\n## Success Criteria\n- <the commands>\n- real\n<details>\n- [x] b\n"
    assert texts(text) == {"": [], "scope": [], "success criteria": ["real <details>", "b"]}
    assert boxes(text) == (1, 1)


def test_a_comment_hides_what_is_in_it_and_nothing_after_it() -> None:
    text = "<!--\n## Goal\n- [ ] a\n-->\n## Scope\n- [x] b\n"
    assert texts(text) == {"": [], "scope": ["b"]}
    assert boxes(text) == (1, 1)
    assert texts("a `<!--` b\n## Goal\nc\n")["goal"] == ["c"]
    assert texts("<!-- a --> b <!-- c -->\n\nd --> e\n") == {"": ["b", "d --> e"]}
    assert items(blocks("- `grep '<!-- a -->' b` <!-- c -->\n")) == ["`grep '<!-- a -->' b`"]
    assert texts("a\n\n<!-- never closed\n\n- b\n## Goal\n") == {"": ["a"]}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("- a\n* b\n+ c\n1. d\n2) e\n", ["a", "b", "c", "d", "e"]),
        ("- [ ] a\n- [x] b\n- [X] c\n", ["a", "b", "c"]),
        ("- a\n  goes on\nand on\n\n  another paragraph\n- b\n", ["a goes on and on", "b"]),
        ("- all of these:\n  - a\n    - b\n  - c:\n", ["a", "b", "c:"]),
        ("- a:\n- b\n", ["a:", "b"]),
        ("- a\n> - quoted\n- b\n", ["a", "b"]),
        ("- a\n```\n- code\n```\n- b\n", ["a", "b"]),
        ("- ```\n  - code\n  ```\n- b\n", ["b"]),
        ("- a\n## Heading\n* * *\n- - -\n-\n- \nparagraph\n", ["a"]),
        ("-no\n1.no\n*no*\n", []),
        ("", []),
    ],
)
def test_the_items_of_lists(body: str, found: list[str]) -> None:
    assert items(blocks(body)) == found


@pytest.mark.parametrize(
    ("plan", "counted"),
    [
        ("", (0, 0)),
        ("no box, [x] not even this\n- [link](x) - [ ]\n- []\n- [y] z\n", (0, 0)),
        ("- [x] a\n- [ ] b\n", (1, 2)),
        ("- [X] a\n* [x] b\n+ [x] c\n1. [x] d\n2) [ ] e\n", (4, 5)),
        ("- [x] a\n  - [ ] b\n      - [x] c\n\t1. [ ] d\n", (2, 4)),
        ("- - [x] a\n1. - [ ] b\n", (1, 2)),
        ("> - [ ] quoted\n- > - [ ] quoted\n", (0, 0)),
        ("```\n- [ ] a\n```\n- [x] b\n", (1, 1)),
        ("~~~md\n- [ ] a\n```\n- [ ] b\n~~~\n- [x] c\n", (1, 1)),
        ("````\n```\n- [ ] a\n````\n- [x] b\n", (1, 1)),
        ("- step:\n\n      ```sh\n      - [ ] a\n      ```\n- [x] b\n", (1, 1)),
        ("```not a fence``` at all\n- [x] a\n", (1, 1)),
        ("```\n- [ ] never closed\n", (0, 0)),
        ("## Steps\r\n\r\n- [x] a\r\n- [ ] b\r\n", (1, 2)),
    ],
)
def test_boxes_are_counted_wherever_a_list_can_have_them(plan: str, counted: tuple[int, int]) -> None:
    assert boxes(plan) == counted


@settings(deadline=None)
@given(MARKDOWN | st.text())
def test_any_text_can_be_read(text: str) -> None:
    ticked, all_of_them = boxes(text)
    assert 0 <= ticked <= all_of_them <= len(text)
    for found in sections(text).values():
        assert all(item == item.strip() and item for item in items(found))


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["- ", "  * ", "1. ", "    - "])), max_size=20))
def test_every_ticked_box_counts_once(steps: list[tuple[bool, str]]) -> None:
    plan = "".join(f"{marker}[{'x' if done else ' '}] step\n" for done, marker in steps)
    assert boxes(f"# Plan\n\n{plan}\nThe end.\n") == (sum(done for done, _ in steps), len(steps))


NOTHING = ["", " \n\t\n", "# Title", "# Title\n\n## Part\n", "Title\n=====\n", "# Title\n<!-- a hint -->\n---\n", "#\n"]
SOMETHING = ["x", "xxx", "# Title\n\ntext", "- item", "#no heading", "```\ncode\n```", "> said", "`<!-- x -->`"]


@pytest.mark.parametrize("text", NOTHING)
def test_headings_alone_say_nothing(text: str) -> None:
    assert says_nothing(text)
    assert says_nothing(text + "\n## More\n" * 1000)


@pytest.mark.parametrize("text", SOMETHING)
def test_anything_below_a_heading_says_something(text: str) -> None:
    assert not says_nothing(text)
    assert not says_nothing("## Part\n\n" * 1000 + text)
