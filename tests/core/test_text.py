"""Nothing an agent or a repository wrote is acted on by a terminal; what people write stays as it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.text import clean, cut, duration, one_line, quoted, wrapped
from tests.core.making import thorough

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Pieces that are dangerous together: halves of sequences, introducers, ends, and things to hide behind them.
PIECES = [ESC, "[", "]", "P", "X", "^", "_", "\\", BEL, "\x9b", "\x9d", "\x90", "\x9c", "31m", "0;title", ";", "?25l"]
PIECES += [
    "\r",
    "\n",
    "\r\n",
    "\t",
    "\b",
    "\0",
    "\x7f",
    "\x85",
    "\u2028",
    "\ud800",
    "\U000e0001",
    "ü",
    "🔍",
    " ",
    *BIDI,
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.characters(), max_size=40).map("".join)
EVERYTHING = st.text(alphabet=st.characters(exclude_categories=()), max_size=200)


def acted_on(character: str) -> bool:
    """What a terminal may act on: every control but newline and tab, and whatever turns the direction of text."""
    if character in "\n\t":
        return False
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDI


@pytest.mark.parametrize("text", [EVERYTHING, HOSTILE], ids=["every character", "pieces of sequences"])
def test_nothing_a_terminal_acts_on_survives(text: st.SearchStrategy[str]) -> None:
    @thorough
    @given(text)
    def holds(dirty: str) -> None:
        cleaned = clean(dirty)
        assert not [character for character in cleaned if acted_on(character)]
        assert clean(cleaned) == cleaned
        assert not [character for character in one_line(dirty) if acted_on(character) or character in "\n\t"]

    holds()


def test_no_single_character_gets_through_that_a_terminal_acts_on() -> None:
    through = [chr(code) for code in range(0x110000) if clean(f"a{chr(code)}b") == f"a{chr(code)}b"]
    assert not [hex(ord(character)) for character in through if acted_on(character)]
    assert len(through) > 1_000_000, "and nearly everything else does get through"


@thorough
@given(
    st.text(
        st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters=BIDI, include_characters="\n\t")
    )
)
def test_plain_text_survives_unchanged(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        (f"{ESC}[31mred{ESC}[0m", "red"),
        (f"{ESC}[?25l{ESC}[2J{ESC}[1;1Hgone", "gone"),
        (f"{ESC}]0;a title{BEL}text", "text"),
        (f"{ESC}]8;;http://example.org{ST}link{ESC}]8;;{ST}", "link"),
        (f"{ESC}]52;c;c2VjcmV0{ST}clipboard", "clipboard"),
        (f"{ESC}Pq#0{ST}sixel", "sixel"),
        (f"{ESC}_apc{ST}{ESC}^pm{ST}{ESC}Xsos{ST}strings", "strings"),
        ("\x9b31mC1", "C1"),
        (f"{ESC}(0{ESC}cset", "set"),
        (f"half{ESC}[", "half"),
        (f"{ESC}{ESC}[31mtwice", "twice"),
        (f"{ESC}[{ESC}[31m31mnested", "31mnested"),
        (f"title{ESC}]0;never ended", "title"),
        ("over\rwritten\b\b", "overwritten"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("a\u2066b\u2069c\u200fd\u061ce", "abcde"),
        ("NUL\0 DEL\x7f BEL\x07", "NUL DEL BEL"),
        ("family 👨‍👩‍👧 flag 🇩🇪 über עברית", "family 👨‍👩‍👧 flag 🇩🇪 über עברית"),
        ("array[0]; cost $5\\n", "array[0]; cost $5\\n"),
    ],
)
def test_sequences_go_whole_and_words_stay(dirty: str, cleaned: str) -> None:
    assert clean(dirty) == cleaned


def test_a_great_deal_of_hostile_text_is_cleaned_in_no_time() -> None:
    for piece in (ESC, f"{ESC}[", f"{ESC}[0;", f"{ESC}]", f"{ESC}P{ESC}", "\x9b0", f"{ESC} "):
        assert len(clean(piece * 200_000)) <= len(piece) * 200_000


@pytest.mark.parametrize(
    ("text", "width", "line"),
    [
        ("  two \n lines\t here ", 200, "two lines here"),
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        (f"{ESC}[31mred{ESC}[0m\r\n", 10, "red"),
        ("", 5, ""),
    ],
)
def test_one_line_is_one_line(text: str, width: int, line: str) -> None:
    assert one_line(text, width) == line


@thorough
@given(EVERYTHING, st.integers(1, 50))
def test_one_line_keeps_to_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.4, "59s"),
        (59.5, "1m 00s"),
        (185, "3m 05s"),
        (3599, "59m 59s"),
        (3600, "1h 00m"),
        (7629, "2h 07m"),
        (360_000, "100h 00m"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_quotation_marks_every_line() -> None:
    assert quoted("\n# one\n\n  two\n") == "> # one\n>\n>   two"


@thorough
@given(st.text(max_size=100) | HOSTILE)
def test_no_line_of_a_quotation_is_unmarked(text: str) -> None:
    assert all(line.startswith(">") for line in quoted(text).splitlines())


def test_a_line_is_cut_after_a_word() -> None:
    said = "Every route of the public API answers 429 with a header"
    assert one_line(said, 40) == "Every route of the public API answers…"
    assert cut(said, 9) == "Every rou", "a long word is cut, because little else would be left"
    assert cut(said, 11) == "Every route"
    assert one_line("x" * 50, 40) == "x" * 39 + "…"


@thorough
@given(EVERYTHING, st.integers(20, 90))
def test_rows_hold_every_word_and_break_none(text: str, columns: int) -> None:
    line = one_line(text, 2000)
    rows = wrapped(line, columns, "  ").split("\n") if line else []
    assert " ".join(" ".join(rows).split()).split() == line.split()
    assert all(len(row) <= columns or " " not in row.strip() for row in rows)
