"""What must hold before a task is done: from checks.toml, from the list, and what is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.core.criteria import CriteriaInvalid, Criterion, bare_commands, digest, read_criteria
from marathon.core.text import clean
from marathon.core.validation import Invalid, read
from tests.support.world import ROOT


def listed(*items: str, heading: str = "Success Criteria") -> str:
    return f"# T\n\n## {heading}\n\n" + "".join(f"- {item}\n" for item in items)


def test_a_check_of_the_file_with_all_it_can_say() -> None:
    text = """
        [[check]]
        name = "tests"
        command = "pytest -q | tail -3"
        cwd = "./backend/../backend"
        timeout = 90
        exit = 5
        parallel = true

        [[check]]
        name = "it reads well"
        judgement = true
    """
    assert read_criteria(text, "") == (
        Criterion(name="tests", command="pytest -q | tail -3", cwd="backend", timeout=90, exit=5, parallel=True),
        Criterion(name="it reads well"),
    )


@pytest.mark.parametrize(
    ("written", "seconds"), [("30", 30), ("1.5", 1.5), ('"90s"', 90), ('"5m"', 300), ('"1.5h"', 5400), ('"1d"', 86400)]
)
def test_a_timeout_in_seconds_or_as_people_write_it(written: str, seconds: float) -> None:
    (found,) = read_criteria(f'[[check]]\nname = "a"\ncommand = "b"\ntimeout = {written}\n', "")
    assert found.timeout == seconds


def test_parallel_above_the_checks_is_their_default_and_means_nothing_for_judgements() -> None:
    text = "parallel = true\n" + "".join(
        f'[[check]]\nname = "{name}"\n{how}\n'
        for name, how in (("a", 'command = "x"'), ("b", 'command = "x"\nparallel = false'), ("c", "judgement = true"))
    )
    assert [found.parallel for found in read_criteria(text, "")] == [True, False, False]


def check(lines: str) -> str:
    return f'[[check]]\nname = "first"\ncommand = "x"\n[[check]]\n{lines}\n'


REFUSED = {
    "not TOML": ("[[check]\n", ["checks.toml"]),
    "a number of 5000 digits": (f"parallel = {'9' * 5000}\n", ["checks.toml"]),
    "nested too deeply": (f"check = {'[' * 20_000}\n", ["checks.toml"]),
    "unknown at the top": ("paralel = true\n", ["paralel", "no such setting"]),
    "parallel is a word": ('parallel = "yes"\n', ["parallel"]),
    "one table instead of a list": ('[check]\nname = "a"\ncommand = "b"\n', ["[[check]]"]),
    "no tables": ("check = [1]\n", ["check 1", "not a table"]),
    "unknown in a check": (check('name = "n"\ncommand = "x"\ntimout = 3'), ["check 2", "'n'", "timout", "no such"]),
    "no name": (check('command = "x"'), ["check 2", "name", "missing"]),
    "an empty name": (check('name = " "\ncommand = "x"'), ["check 2", "name"]),
    "a name that is a number": (check('name = 3\ncommand = "x"'), ["check 2", "name"]),
    "a name twice": (check('name = "first"\ncommand = "y"'), ["check 2", "'first'", "twice"]),
    "a name twice but for an escape": (check('name = "\\u001b[1mfirst"\ncommand = "y"'), ["'first'", "twice"]),
    "neither command nor judgement": (check('name = "n"'), ["'n'", "either"]),
    "judgement = false alone": (check('name = "n"\njudgement = false'), ["'n'", "either"]),
    "both": (check('name = "n"\ncommand = "x"\njudgement = true'), ["'n'", "either"]),
    "judgement is a word": (check('name = "n"\njudgement = "yes"'), ["'n'", "judgement"]),
    "a judgement with a timeout": (check('name = "n"\njudgement = true\ntimeout = 3'), ["'n'", "timeout"]),
    "a blank command": (check('name = "n"\ncommand = " "'), ["'n'", "command", "empty"]),
    "a list of words": (check('name = "n"\ncommand = ["a", "b"]'), ["'n'", "command"]),
    "an escape in the command": (check('name = "n"\ncommand = "a\\u001b[2Kb"'), ["'n'", "control"]),
    "a hidden turn in the command": (check('name = "n"\ncommand = "a\\u202eb"'), ["'n'", "control"]),
    "a NUL in the command": (check('name = "n"\ncommand = "a\\u0000b"'), ["'n'", "control"]),
    "an endless command": (check(f'name = "n"\ncommand = "{"x" * 10_001}"'), ["'n'", "longer"]),
    "an absolute folder": (check('name = "n"\ncommand = "x"\ncwd = "/tmp"'), ["'n'", "cwd", "out of the project"]),
    "a folder above": (check('name = "n"\ncommand = "x"\ncwd = "a/../../b"'), ["'n'", "cwd", "out of the project"]),
    "no folder": (check('name = "n"\ncommand = "x"\ncwd = ""'), ["'n'", "cwd"]),
    "a folder with a NUL": (check('name = "n"\ncommand = "x"\ncwd = "a\\u0000"'), ["'n'", "cwd"]),
    "a folder with a newline": (check('name = "n"\ncommand = "x"\ncwd = "a\\n- b"'), ["'n'", "cwd", "control"]),
    "timeout 0": (check('name = "n"\ncommand = "x"\ntimeout = 0'), ["'n'", "timeout"]),
    "timeout below 0": (check('name = "n"\ncommand = "x"\ntimeout = -1.5'), ["'n'", "timeout"]),
    "timeout inf": (check('name = "n"\ncommand = "x"\ntimeout = inf'), ["'n'", "timeout"]),
    "timeout nan": (check('name = "n"\ncommand = "x"\ntimeout = nan'), ["'n'", "timeout"]),
    "timeout true": (check('name = "n"\ncommand = "x"\ntimeout = true'), ["'n'", "timeout"]),
    "timeout in words": (check('name = "n"\ncommand = "x"\ntimeout = "soon"'), ["'n'", "timeout", "soon", "5m"]),
    "timeout 0s": (check('name = "n"\ncommand = "x"\ntimeout = "0s"'), ["'n'", "timeout"]),
    "timeout of years": (check('name = "n"\ncommand = "x"\ntimeout = "999999d"'), ["'n'", "timeout", "a week"]),
    "exit 256": (check('name = "n"\ncommand = "x"\nexit = 256'), ["'n'", "exit"]),
    "exit -1": (check('name = "n"\ncommand = "x"\nexit = -1'), ["'n'", "exit"]),
    "exit true": (check('name = "n"\ncommand = "x"\nexit = true'), ["'n'", "exit"]),
    "exit 1.0": (check('name = "n"\ncommand = "x"\nexit = 1.0'), ["'n'", "exit"]),
    "parallel in a check is a word": (check('name = "n"\ncommand = "x"\nparallel = "no"'), ["'n'", "parallel"]),
    "201 checks": ("".join(f'[[check]]\nname = "{n}"\ncommand = "x"\n' for n in range(201)), ["201", "200"]),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_is_said_with_the_name_of_the_check(text: str, words: list[str]) -> None:
    with pytest.raises(CriteriaInvalid) as refused:
        read_criteria(text, "")
    said = str(refused.value)
    assert all(word in said for word in words), said
    assert clean(said) == said
    assert len(said) < 500
    assert "\n" not in said


COMMANDS = {
    "`pytest -q`": ("pytest -q", 0),
    "`pytest -q`.": ("pytest -q", 0),
    "`pytest -q` passes": ("pytest -q", 0),
    "`make check` succeeds.": ("make check", 0),
    "`tox` is green": ("tox", 0),
    "`./run` works": ("./run", 0),
    "`./run` must pass": ("./run", 0),
    "`./run` still passes": ("./run", 0),
    "`./run` exits 0": ("./run", 0),
    "`grep -r TODO src` exits with code 1": ("grep -r TODO src", 1),
    "`x y` exits with 2": ("x y", 2),
    "`npm run build` runs without errors": ("npm run build", 0),
    "[x] `pytest -q` passes": ("pytest -q", 0),
    "**`pytest -q` passes**": ("pytest -q", 0),
    "``echo `date` `` passes": ("echo `date`", 0),
    "`a &&\n  b` passes": ("a && b", 0),
}


@pytest.mark.parametrize(("item", "found"), COMMANDS.items(), ids=COMMANDS.keys())
def test_an_item_that_is_a_command(item: str, found: tuple[str, int]) -> None:
    command, exit_code = found
    assert read_criteria(None, listed(item)) == (Criterion(name=command, command=command, exit=exit_code),)


@pytest.mark.parametrize(
    "item", ["Unit tests: `pytest -q`", "**Unit tests**: `pytest -q` passes", "Unit tests:`pytest -q`"]
)
def test_a_command_with_a_name_before_it(item: str) -> None:
    assert read_criteria(None, listed(item)) == (Criterion(name="Unit tests", command="pytest -q"),)


@pytest.mark.parametrize(
    "item",
    [
        *("The page loads in less than a second", "`a` and `b` pass", "Run `pytest -q`", "`--json` prints one object"),
        *("`POST /login` works", "`parse('2026-W01')` works", "`x` exits with code 256", "`unclosed", "``", "` `"),
        *("`pytest -q` passes on Python 3.11 and 3.12", "Every function in `a.py` has a test."),
    ],
)
def test_every_other_item_is_a_judgement_by_its_own_words(item: str) -> None:
    assert read_criteria(None, listed(item)) == (Criterion(name=item),)


@pytest.mark.parametrize(
    "heading", ["Success Criteria", "Success criteria", "Acceptance Criteria", "Success criteria (all)"]
)
def test_the_list_stands_below_its_heading(heading: str) -> None:
    assert read_criteria(None, listed("a b c", heading=heading)) == (Criterion(name="a b c"),)


@pytest.mark.parametrize("heading", ["Goal", "Scope", "Criteria", "Steps"])
def test_other_lists_are_no_criteria(heading: str) -> None:
    assert read_criteria(None, listed("`rm -rf .`", heading=heading)) == ()


def test_code_quotations_and_comments_below_the_heading_are_no_criteria() -> None:
    text = listed("real") + "\n```\n- `a`\n```\n> - `b`\n\n<!--\n- `c`\n-->\n"
    assert read_criteria(None, text) == (Criterion(name="real"),)


def test_the_template_has_no_criteria_and_the_demo_has_two() -> None:
    assert read_criteria(None, (ROOT / "task-template/instructions.md").read_text()) == ()
    demo = read_criteria(None, (ROOT / "marathon/demo_project/instructions.md").read_text())
    assert [found.command for found in demo] == ["", "python3 -m unittest discover -s tests"]


def test_both_sources_count_and_the_file_comes_first_and_stands() -> None:
    file = '[[check]]\nname = "pytest -q"\ncommand = "pytest -q -x"\n[[check]]\nname = "z"\njudgement = true\n'
    assert read_criteria(file, listed("a", "`pytest -q` passes", "b")) == (
        Criterion(name="pytest -q", command="pytest -q -x"),
        Criterion(name="z"),
        Criterion(name="a"),
        Criterion(name="b"),
    )


def test_an_item_that_comes_twice_counts_once() -> None:
    text = listed("a", "`x y`", "a", "`x y` passes") + listed("a", heading="Acceptance Criteria")
    assert [found.name for found in read_criteria(None, text)] == ["a", "x y"]


def test_items_that_only_begin_alike_are_all_kept() -> None:
    text = listed("Tests: `a b`", "Tests: `c d`", "x" * 250 + "1", "x" * 250 + "2")
    found = read_criteria(None, text)
    assert [one.command for one in found] == ["a b", "c d", "", ""]
    assert [one.name for one in found[:2]] == ["Tests", "Tests (2)"]
    assert len({one.name for one in found}) == 4


def test_names_are_short_and_show_nothing_but_text() -> None:
    file = '[[check]]\nname = "\\u001b[31mred\\u0007\\nand   more"\ncommand = "x"\n'
    found = read_criteria(file, listed("a\x1b]0;title\x07b\u202ec", "y" * 1000))
    assert [one.name for one in found] == ["red and more", "abc", "y" * 199 + "…"]


def test_a_command_of_the_list_runs_as_it_is_shown() -> None:
    (found,) = read_criteria(None, listed("`rm\x1b[2K -rf\u202e x` passes"))
    assert (found.name, found.command) == ("rm -rf x", "rm -rf x")


def test_more_than_two_hundred_are_refused() -> None:
    assert len(read_criteria(None, listed(*(f"item {n}" for n in range(200))))) == 200
    with pytest.raises(CriteriaInvalid, match="201"):
        read_criteria(None, listed(*(f"item {n}" for n in range(201))))
    with pytest.raises(CriteriaInvalid, match="201"):
        read_criteria('[[check]]\nname = "a"\ncommand = "b"\n', listed(*(f"item {n}" for n in range(200))))


ONE = Criterion(name="a", command="b")


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, name="c"),
        replace(ONE, command="c"),
        replace(ONE, cwd="c"),
        replace(ONE, timeout=1),
        replace(ONE, exit=1),
        replace(ONE, parallel=True),
    ],
    ids=["name", "command", "cwd", "timeout", "exit", "parallel"],
)
def test_the_digest_changes_with_everything_that_matters(other: Criterion) -> None:
    assert digest((other,), "/p") != digest((ONE,), "/p")


def test_the_digest_knows_the_project_the_number_and_nothing_else() -> None:
    assert digest((ONE,), "/p") == digest([replace(ONE, timeout=600.0)], "/p")
    assert len({digest((ONE,), "/p"), digest((ONE,), "/q"), digest((ONE, ONE), "/p"), digest((), "/p")}) == 4
    assert len(digest((ONE,), "/p\udcff")) == 64


def test_criteria_are_read_back_from_json_and_checked_again() -> None:
    (found,) = read_criteria('[[check]]\nname = "a"\ncommand = "b"\ntimeout = "5m"\ncwd = "c"\n', "")
    assert read(Criterion, json.loads(json.dumps(asdict(found)))) == found
    with pytest.raises(Invalid, match="out of the project"):
        read(Criterion, {**asdict(found), "cwd": "a/../../x"})


PIECES = [
    "## Success Criteria\n",
    "- ",
    "`",
    "``",
    "a",
    " passes",
    ": ",
    "\n",
    "exits with code ",
    "256",
    "**",
    "\x1b[",
]


def read_or_reason(file: str | None, instructions: str) -> tuple[Criterion, ...] | str:
    try:
        return read_criteria(file, instructions)
    except CriteriaInvalid as refused:
        return str(refused)


@settings(deadline=None)
@given(st.none() | st.text(), st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_is_read_or_refused_by_name(file: str | None, instructions: str) -> None:
    found = read_or_reason(file, instructions)
    if isinstance(found, str):
        assert found.startswith("checks.toml: ")
        return
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert read(Criterion, asdict(one)) == one


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("npm test", "npm test"),
        ("npm run lint passes", "npm run lint"),
        ("pytest -q tests/", "pytest -q tests/"),
        ("pytest", "pytest"),
        ("make test must pass.", "make test"),
        ("./bin/check exits 0", "./bin/check"),
        ("go test ./...", "go test ./..."),
        ("test -e result.txt", "test -e result.txt"),
        ("make sure that all tests pass", ""),
        ("make it fast", ""),
        ("test coverage is above 80%", ""),
        ("time to first byte", ""),
        ("tests pass", ""),
        ("The parser answers within a second.", ""),
        ("`npm test` passes", ""),
        ("sort order", ""),
        ("größer als vorher", ""),
    ],
)
def test_a_command_without_backticks_is_told_from_a_sentence(said: str, command: str) -> None:
    programs = {"npm", "pytest", "make", "go", "test", "time", "sort", "./bin/check"}
    text = f"# T\n\n- {said}\n\n## Success Criteria\n\n- {said}\n"
    found = bare_commands(text, programs.__contains__)
    assert found == ({6: (command, f"- {said.replace(command, f'`{command}`')}")} if command else {})
