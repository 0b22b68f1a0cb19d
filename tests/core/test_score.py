"""The spec score: what people write, from a sigh to a specification, and what it is worth."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.cli.commands.task import fill
from marathon.core.score import Point, Score, score
from marathon.core.text import clean
from tests.support.world import ROOT

TEMPLATE = (ROOT / "task-template" / "instructions.md").read_bytes()
DEMO = (ROOT / "marathon" / "demo_project" / "instructions.md").read_text()
QUESTIONS = ["Outcome", "Scope", "Constraints", "Success", "Done"]

# What somebody wrote: at least and at most so many points.
EXAMPLES: dict[str, tuple[str, int, int]] = {
    "nothing": ("", 0, 0),
    "a sigh": ("Make it better", 0, 2),
    "two sighs": ("Make the app better and clean up the code.", 0, 2),
    "a wish without an object": ("Fix the bugs", 0, 2),
    "two words": ("Add tests.", 0, 2),
    "a wish without a measure": ("Improve the performance of the app so that it feels nice and fast.", 0, 2),
    "a big word": ("Rewrite the billing service in Rust.", 0, 3),
    "one small feature": ("Add a --json flag to the list command.", 1, 4),
    "a user story alone": (
        "As a user I want to log in with my Google account so that I don't need another password.",
        2,
        4,
    ),
    "much talk": (
        "I was thinking that maybe we could do something about the way the website looks, because people told me that "
        "it feels somewhat old, and it would be good to have something fresh, like the others with all that stuff.",
        0,
        3,
    ),
    "only headings": ("## Goal\n\n## Scope\n\n## Constraints\n\n## Success Criteria\n", 0, 0),
    "only placeholders": (
        "## Goal\nTBD\n## Scope\n<which files>\n## Constraints\nTODO\n## Success Criteria\n- ...\n",
        0,
        0,
    ),
    "a word for each": ("## Goal\nspeed\n## Scope\nall\n## Constraints\nnone\n## Success Criteria\nfast\n", 1, 4),
    "empty words for each": (
        "## Goal\nMake the app better and more modern.\n## Scope\nEverything.\n## Constraints\nDo it properly.\n"
        "## Success Criteria\n- It is nice\n- Users are happy\n",
        1,
        4,
    ),
    "one precise paragraph": (
        "Make `parse()` in src/dates.py accept ISO weeks; keep the public API; `pytest -q` must pass.",
        5,
        8,
    ),
    "the same over several lines": (
        "Make `parse()` in src/dates.py\naccept ISO weeks; keep the public API;\n`pytest -q`\nmust pass.",
        5,
        8,
    ),
    "a paragraph in another language": (
        "Haz que `parse()` en src/fechas.py acepte semanas ISO sin cambiar la API pública; `pytest -q` debe pasar.",
        5,
        8,
    ),
    "a bug with what should happen": (
        "# Crash on empty input\n\nRunning `tool parse ''` raises an IndexError in src/parse.py line 40. "
        "It should print an error message and exit with code 2 instead.\n",
        5,
        7,
    ),
    "a bug report by its form": (
        "# Upload fails for files over 2 GB\n\n## Steps to reproduce\n1. `truncate -s 3G big`\n"
        "2. `curl -F file=@big localhost:8000/upload`\n\n## Expected\n201 and the file in `uploads/`\n\n"
        "## Actual\n500, `OverflowError` in `server/upload.py`\n",
        5,
        7,
    ),
    "a migration": (
        "Migrate the service from Flask to FastAPI. All endpoints must behave the same and the tests must pass. "
        "Don't touch the frontend. Open a pull request when done.",
        5,
        8,
    ),
    "an upgrade": (
        "Upgrade Django from 3.2 to 4.2. Fix all deprecation warnings. `python -W error manage.py test` must pass. "
        "Do not upgrade other packages.",
        5,
        8,
    ),
    "a refactoring": (
        "Refactor `UserService` into smaller classes. Keep all tests green. No API changes. Only files in src/users/.",
        5,
        8,
    ),
    "an inquiry": (
        "Find out why the nightly build in .github/workflows/nightly.yml takes 50 minutes and write the three most "
        "promising ways to make it faster, with measurements, into docs/nightly.md. Change nothing else.",
        5,
        8,
    ),
    "commands in a fence": (
        "Make the linter happy in `src/`.\n\nHow to check:\n\n```sh\nnpm run lint\nnpm test\n```\n",
        5,
        8,
    ),
    "labels instead of headings": (
        "Goal: users can export their reports as CSV from the reports page.\nScope: `app/reports/` only.\n\n"
        "Constraints: no new dependencies, Python 3.11.\n\nSuccess:\n- `pytest tests/reports` passes\n"
        "- The button shows on the page\n\nDone when the PR is open.",
        8,
        10,
    ),
    "bold labels": (
        "**Goal:** the command line starts in under 200 ms.\n\n**Scope:** `cli/main.py` and what it imports.\n\n"
        "**Constraints:** no behaviour changes.\n\n**Success criteria:**\n\n- `bench/startup.sh` prints less than 200\n"
        "- `make test` passes\n",
        8,
        10,
    ),
    "first-level headings": (
        "# Goal\nThe parser reads nested comments as the C standard says.\n# Scope\n`lexer.c`, `parser.c`\n"
        "# Constraints\nNone.\n# Success Criteria\n- `make check` is green\n",
        8,
        10,
    ),
    "a product's page": (
        "# Emails\n\n## Overview\nUsers get an email when somebody comments on their post, at most one an hour.\n\n"
        "## Requirements\n- Send through the existing `Mailer` service\n- Must not block the request\n\n"
        "## Out of scope\nPush notifications, digests.\n\n## Acceptance Criteria\n"
        "- [ ] Commenting enqueues exactly one job\n- [ ] `bundle exec rspec spec/notifications` passes\n",
        8,
        10,
    ),
    "another language below our headings": (
        "# Export\n\n## Goal\nNutzer können ihre Berichte als CSV herunterladen, mit Kopfzeile und Umlauten.\n\n"
        "## Scope\nNur `app/reports.py`, die PDF-Ausgabe bleibt.\n\n## Constraints\nKeine neuen Abhängigkeiten.\n\n"
        "## Success Criteria\n- `pytest -q` läuft durch\n",
        8,
        10,
    ),
    "a language without spaces": (
        "## Goal\nレポートをCSV形式でダウンロードできるようにする。\n\n## Scope\n`app/reports.py` のみ\n\n"
        "## Constraints\n新しい依存関係を追加しない\n\n## Success Criteria\n- `pytest -q`\n",
        8,
        10,
    ),
    "the demo": (DEMO, 8, 10),
    "the template as it is": (TEMPLATE.decode(), 0, 0),
    "the template with a goal": (
        fill(TEMPLATE, "CSV export", {"goal": "Users download their reports as CSV from the reports page."}).decode(),
        1,
        4,
    ),
    "the template filled in": (
        fill(
            TEMPLATE,
            "CSV export",
            {
                "goal": "Users download their reports as CSV from the reports page.",
                "scope": "`app/reports.py`; the PDF export stays out.",
                "constraints": "No new dependencies.",
                "success": "- `pytest -q` passes",
            },
        ).decode(),
        8,
        10,
    ),
}


@pytest.mark.parametrize(("text", "least", "most"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_what_people_write_gets_what_it_deserves(text: str, least: int, most: int) -> None:
    rating = score(text)
    shown = [(point.question, point.points, point.reason) for point in rating.points]
    assert least <= rating.total <= most, (rating.total, shown)


def rated(*points: int) -> Score:
    return Score(tuple(Point(name, n, "why", f"add {name}") for name, n in zip(QUESTIONS, points, strict=True)))


@pytest.mark.parametrize(
    ("points", "shape"),
    [
        ((0, 0, 0, 0, 0), "clarify"),
        ((2, 2, 0, 0, 0), "clarify"),
        ((2, 2, 1, 0, 0), "colleague"),
        ((2, 2, 2, 1, 0), "colleague"),
        ((2, 2, 2, 2, 0), "tool"),
        ((2, 2, 2, 2, 2), "tool"),
    ],
)
def test_the_total_makes_the_shape(points: tuple[int, ...], shape: str) -> None:
    assert (rated(*points).total, rated(*points).shape) == (sum(points), shape)


def test_what_is_missing_comes_the_worst_first() -> None:
    assert rated(1, 0, 1, 0, 1).missing == [
        f"{name}: add {name}" for name in ("Scope", "Success", "Outcome", "Constraints", "Done")
    ]


# A text that has it, and what is taken out of it: the question loses exactly there.
WHOLE = {
    "Goal": "Users download their reports as CSV from the reports page.",
    "Scope": "`app/reports.py`; the PDF export stays out.",
    "Constraints": "Do not add dependencies.",
    "Success Criteria": "- `pytest -q` passes",
}


@pytest.mark.parametrize(
    ("left_out", "questions"),
    [("Scope", {"Scope"}), ("Constraints", {"Constraints"}), ("Success Criteria", {"Success", "Done"})],
)
def test_a_section_left_out_costs_its_own_question(left_out: str, questions: set[str]) -> None:
    def points(parts: dict[str, str]) -> dict[str, int]:
        rating = score("\n\n".join(f"## {heading}\n{body}" for heading, body in parts.items()))
        return {point.question: point.points for point in rating.points}

    assert set(points(WHOLE).values()) == {2}
    less = points({heading: body for heading, body in WHOLE.items() if heading != left_out})
    assert {question for question, n in less.items() if n < 2} == questions


def test_a_reason_names_what_was_found() -> None:
    scope = score("Make `parse()` in src/dates.py accept ISO weeks.").points[1]
    assert scope.points == 1
    assert "parse()" in scope.reason
    assert scope.missing
    long = score(f"Change `\x1b[31m{'x' * 500}()` as said.").points[1].reason
    assert "xxx" in long
    assert "\x1b" not in long
    assert len(long) < 120


def test_the_name_of_a_technology_is_no_place_to_work_in() -> None:
    assert score("Port the service to Node.js, as it is.").points[1].points == 0
    assert score("Port the service in app.js, as it is.").points[1].points == 1


def test_saying_that_there_are_no_constraints_is_an_answer() -> None:
    for words in ("None.", "No constraints", "- none", "n/a"):
        assert score(f"## Constraints\n{words}\n").points[2].points == 2
    assert score("## Constraints\n\n").points[2].points == 0


WORDS = st.sampled_from(
    [
        *(
            "## Goal\n",
            "## Scope\n",
            "# ",
            "- ",
            "`a b`",
            "`",
            "must ",
            "pass ",
            "done when ",
            "only ",
            "better ",
            "3 ",
        ),
        *(
            "src/a.py ",
            "Constraints: ",
            "Success Criteria:\n",
            "```\n",
            "<!-- ",
            "-->",
            "\n\n",
            ". ",
            "\x1b[31m",
            "漢字",
        ),
    ]
)


@settings(deadline=None)
@given(st.text() | st.lists(WORDS, max_size=60).map("".join))
def test_any_text_is_rated_always_the_same_way_and_with_a_reason(text: str) -> None:
    rating = score(text)
    assert rating == score(text)
    assert [point.question for point in rating.points] == QUESTIONS
    for point in rating.points:
        assert 0 <= point.points <= 2
        assert point.reason
        assert clean(point.reason) == point.reason
        assert bool(point.missing) == (point.points < 2)
    assert 0 <= rating.total <= 10


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "`", "<", "< ", "<!--", "<!---->", "- ", "1. ", "# ", " ", "a-", "a/", "a.", "**", "do not ", "word: "),
        *("漢", "*_ ", "- a:\n  - b\n", "```\n", "must ", "`a` passes "),
    ],
    ids=repr,
)
@pytest.mark.parametrize("before", ["", "## Success Criteria\n- ", "## Scope\n<"], ids=repr)
def test_no_text_takes_forever(unit: str, before: str) -> None:
    started = time.process_time()
    score(before + unit * (60_000 // len(unit)))
    assert time.process_time() - started < 20  # a fraction of a second; what is not linear takes minutes
