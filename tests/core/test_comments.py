"""Comments: what is written is read back, the quote finds its lines again, and no text breaks the reading."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.comments import (
    LONGEST_ANSWER,
    Comment,
    Kind,
    Reply,
    Standing,
    anchor,
    answers_in,
    comments_in,
    lines_of,
    next_id,
    note_of,
    noted,
    quote_of,
    unanswered,
    without_comments,
)
from marathon.core.text import clean
from tests.core.making import thorough

PLAN = "# Plan\n\n## Storage\n\nUse sqlite.\n\n## Steps\n\n- [ ] one\n- [ ] two\n"
LINE = st.sampled_from(["", "a", "  b", "# A", "## B", "> q", "same", "\\# c", "- [ ] d", "```"]) | st.text(max_size=8)
TEXT = st.lists(LINE, max_size=12).map("\n".join)


def on(text: str, first: int, last: int, **more: str) -> Comment:
    first, last, quote = quote_of(text, first, last)
    return replace(Comment("c1", "why?", file="plan.md", first=first, last=last, quote=quote), **more)  # type: ignore[arg-type]


@thorough
@given(TEXT.map(lambda text: clean(text).strip()).filter(bool), TEXT, st.integers(0, 14), st.integers(0, 5), TEXT)
def test_what_is_written_is_read_back(said: str, document: str, first: int, more: int, before: str) -> None:
    first, last, quote = quote_of(document, first, first + more) if first else (0, 0, "")
    kind, file = ("must", "2026-01 b/plan.md") if more or first else ("note", "")
    made = Comment("c7", said, kind, file, first, last, quote, "2026-01-02T03:04:05Z")  # type: ignore[arg-type]
    later = "## plan phase · run 1\n\nmore\n"
    assert [each for each in comments_in(f"{before}\n\n{note_of(made).block}\n{later}") if each.id == "c7"] == [made]


@thorough
@given(
    TEXT
    | st.text()
    | st.lists(st.sampled_from([*note_of(Comment("c1", "x")).block, "## Comment c1 (must)", "\n"])).map("".join)
)
def test_no_text_breaks_the_reading(human_md: str) -> None:
    found = comments_in(human_md)
    assert len({each.id for each in found}) == len(found)
    assert next_id(found) not in {each.id for each in found}
    answers_in(human_md, {"c1": human_md})
    for each in found:
        anchor(each, human_md)


@thorough
@given(TEXT, TEXT, TEXT, st.integers(1, 14), st.integers(0, 4), st.data())
def test_a_comment_is_not_lost_while_its_quote_stands(
    document: str, before: str, after: str, first: int, more: int, data: st.DataObject
) -> None:
    made = on(document, first, first + more)
    if not made.first:
        return
    lines = lines_of(document)
    head, tail = lines[: made.first - 1], lines[made.last :]
    head = [line for line in head if data.draw(st.booleans())] + lines_of(before)
    tail = lines_of(after) + [line for line in tail if data.draw(st.booleans())]
    changed = "\n".join([*head, *lines[made.first - 1 : made.last], *tail])
    found = anchor(made, changed)
    assert found is not None
    assert quote_of(changed, *found)[2] == made.quote
    assert anchor(made, document) == (made.first, made.last)


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        (PLAN, (5, 5)),
        ("new\n" * 30 + PLAN, (35, 35)),
        (PLAN.replace("\n", "\r\n"), (5, 5)),
        (PLAN.replace("sqlite.", "sqlite.   "), (5, 5)),
        (PLAN.replace("sqlite", "files"), None),
        ("", None),
        ("Use sqlite.\n" + PLAN, (6, 6)),
    ],
)
def test_the_nearest_lines_with_the_quote_are_meant(changed: str, lines: tuple[int, int] | None) -> None:
    assert anchor(on(PLAN, 4, 6), changed) == lines


def test_a_long_range_keeps_its_length() -> None:
    text = "\n".join(map(str, range(1, 100)))
    made = on(text, 20, 60)
    assert made.quote.count("\n") == 11
    assert anchor(made, f"new\n{text}") == (21, 61)


def test_without_lines_a_comment_is_never_gone() -> None:
    assert anchor(Comment("c1", "x", file="plan.md"), "") == (0, 0)


def test_of_a_comment_that_is_known_nothing_changes_but_that_it_is_taken_back() -> None:
    made = Comment("c1", "x", "must", "plan.md", sent=True)
    softened = replace(made, kind="note", text="well", file="", sent=False)
    assert noted([made], [softened]) == (made,)
    taken_back = replace(made, withdrawn=True)
    assert noted([made], [replace(softened, withdrawn=True)]) == noted([taken_back], [made]) == (taken_back,)
    assert not Standing(taken_back, None).open
    assert next_id([taken_back, replace(made, id="c7")]) == "c8"


@pytest.mark.parametrize(
    ("written", "answers"),
    [
        ("- c1: done, see Storage", {"c1": "done, see Storage"}),
        ("* **c1**: done\n* c2 — no, because\n  it is late", {"c1": "done", "c2": "no, because\nit is late"}),
        ("- c1, c2 and c3: all done", {"c1": "all done", "c2": "all done", "c3": "all done"}),
        ("### c1\n\ndone", {"c1": "done"}),
        ("- c1:\n- c2: yes", {"c2": "yes"}),
        ("1. `C12` done", {}),
        ("| c1 | done |", {"c1": "done |"}),
        ("no ids here\n- cx: y", {}),
        ("- c1: done\n\n## Next\n\n- c2: not an answer", {"c1": "done"}),
    ],
)
def test_answers_as_agents_write_them(written: str, answers: dict[str, str]) -> None:
    found = answers_in(f"# Plan\n\n- c9: not here\n\n## Answers\n\n{written}\n")
    assert {name: each.text for name, each in found.items()} == answers


def test_the_document_counts_before_state_json() -> None:
    found = answers_in("## Answers\n- c1: here\n", {"c1": "there", "c2": " said \x1b[2J", "c3": 3, "c4": " "})
    assert {name: (each.text, each.line) for name, each in found.items()} == {"c1": ("here", 2), "c2": ("said", 0)}
    assert not answers_in("", ["c1"])


def test_an_endless_answer_is_cut_and_costs_nothing() -> None:
    found = answers_in("## Answers\n- c1: yes\n" + "more and more\n" * 200_000)
    assert len(found["c1"].text) == LONGEST_ANSWER


def test_500_comments_on_a_large_plan_are_found_quickly() -> None:
    text = "\n".join(f"Line {number % 7000} of a plan, with a few words more.\n" for number in range(20_000))
    assert len(text) > 850_000
    made = [on(text, number * 70, number * 70 + number % 15) for number in range(1, 501)]
    moved = f"{text[:500_000]}\nnew\n{text[500_000:]}"
    began = time.monotonic()
    assert all(anchor(each, moved) for each in made)
    assert time.monotonic() - began < 5, "the bench holds the bar; here only that it is not quadratic"


def test_what_human_md_shows_of_comments_is_told_from_what_a_human_typed_there() -> None:
    made = [Comment(f"c{n}", f"# words {n}", "must", "plan.md", first=n, last=n, quote="# x") for n in (1, 2)]
    gone = replace(made[0], withdrawn=True)
    typed = "## By hand\n\nMy own words.\n\n## Comment c9 (must) · plan.md\n\nlooks like one\n"
    softened = note_of(replace(made[1], kind="note")).block
    text = "\n".join([*(note_of(each).block for each in (*made, gone)), typed, softened])
    for found in (text, text.replace("\n", "\r\n")):
        assert without_comments(found, [gone, made[1]]).split() == f"{typed}{softened}".split()
    assert comments_in(note_of(made[0]).block + note_of(gone).block) == [gone], "as an older version reads them"


@pytest.mark.parametrize(
    ("kind", "answer", "withdrawn", "stops"),
    [
        ("must", None, False, True),
        ("must", Reply("done"), False, False),
        ("must", None, True, False),
        ("note", None, False, False),
    ],
)
def test_only_what_must_be_answered_and_is_not_stops_anyone(
    kind: Kind, answer: Reply | None, withdrawn: bool, stops: bool
) -> None:
    made = Comment("c1", "words", kind=kind, withdrawn=withdrawn)
    assert unanswered([Standing(made, (0, 0), answer)]) == (["c1"] if stops else [])
