"""Advice on instructions: what people write, from a sigh to a specification, and what is seen in it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.cli.commands.task import fill
from marathon.core.score import SIGNS, Advice, advise
from marathon.core.text import clean
from tests.support.world import ROOT

TEMPLATE = (ROOT / "task-template" / "instructions.md").read_bytes()
DEMO = (ROOT / "marathon" / "demo_project" / "instructions.md").read_text()
EVERYTHING = set(SIGNS)


def seen(advice: Advice) -> set[str]:
    return {sign for sign, text in advice.signs.items() if text}


# What somebody wrote, and which signs are in it.
EXAMPLES: dict[str, tuple[str, set[str]]] = {
    "nothing": ("", set()),
    "a sigh": ("Make it better", set()),
    "only a title": ("# Make the export page faster than it is\n", set()),
    "only headings": ("## Goal\n\n## Scope\n\n## Constraints\n\n## Success Criteria\n", set()),
    "only placeholders": ("## Goal\nTBD\n## Scope\n<which files>\n## Constraints\nTODO\n## Criteria\n- ...\n", set()),
    "the template as it is": (TEMPLATE.decode(), set()),
    "a wish": ("Rewrite the billing service in Rust.", {"goal"}),
    "two honest paragraphs": (
        "The export page loses umlauts when a report is downloaded as CSV. Users should get what they see.\n\n"
        "Please leave the PDF export alone. You are done when a colleague sees the umlauts in a spreadsheet.\n",
        {"goal", "boundary"},
    ),
    "paragraphs and a list": (
        "The export page loses umlauts.\n\nKeep the PDF export.\n\n- `pytest -q`\n- Umlauts are there.\n",
        EVERYTHING - {"place"},
    ),
    "one precise paragraph": (
        "Make `parse()` in src/dates.py accept ISO weeks; keep the public API; `pytest -q` must pass.",
        {"goal", "place", "command", "end"},
    ),
    "a bug report by its form": (
        "# Upload fails for files over 2 GB\n\n## Steps to reproduce\n1. `truncate -s 3G big`\n"
        "2. `curl -F file=@big localhost:8000/upload`\n\n## Expected\n201 and the file in `uploads/`\n\n"
        "## Actual\n500, `OverflowError` in `server/upload.py`\n",
        EVERYTHING - {"boundary"},
    ),
    "commands in a fence": (
        "Make the linter happy in `src/`.\n\nHow to check:\n\n```sh\nnpm run lint\nnpm test\n```\n",
        {"goal", "place", "command", "end"},
    ),
    "code in a fence": (
        "Make this print the right thing.\n\n```python\nimport sys\nprint(sys.argv)\n```\n",
        {"goal"},
    ),
    "a word as the command": (
        "## Goal\nUsers see their name.\n## Success Criteria\n- `tox` is green\n",
        {"goal", "criterion", "command", "end"},
    ),
    "no constraints": (
        "## Goal\nUsers see their name.\n## Constraints\nNone.\n## Criteria\n- It shows.\n",
        {"goal", "boundary", "criterion"},
    ),
    "an end of its own": (
        "## Goal\nUsers see their name.\n## Criteria\n- It shows.\n## Done\nThe pull request is open.\n",
        {"goal", "criterion", "end"},
    ),
    "the demo": (DEMO, EVERYTHING),
    "the template with a goal": (fill(TEMPLATE, "CSV", {"goal": "Users download reports as CSV."}).decode(), {"goal"}),
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
        EVERYTHING,
    ),
}


@pytest.mark.parametrize(("text", "signs"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_what_people_write_is_seen_and_nothing_else(text: str, signs: set[str]) -> None:
    assert seen(advise(text)) == signs, advise(text).signs


SAME = "# {0}\n\n## {1}\n{2}\n\n## {3}\n{4} `app/reports.py`.\n\n## {5}\n{6}\n\n## {7}\n- `pytest -q` {8}\n- {9}\n"
ENGLISH = SAME.format(
    *("Export", "Goal", "Users download their reports as CSV, with a header and umlauts.", "Scope", "Only"),
    *("Constraints", "No new dependencies, e.g. pandas.", "Success Criteria", "passes", "The button is on the page."),
)
TWINS = {
    "German": SAME.format(
        *("Export", "Ziel", "Nutzer laden ihre Berichte als CSV herunter, mit Kopfzeile und Umlauten.", "Umfang"),
        *("Nur", "Grenzen", "Keine neuen Abhängigkeiten, z.B. pandas.", "Erfolgskriterien", "läuft durch"),
        "Der Knopf ist auf der Seite.",
    ),
    "Japanese": SAME.format(
        *("エクスポート", "目的", "レポートをCSV形式でダウンロードできるようにする。", "範囲", "のみ", "制約"),
        *("新しい依存関係を追加しない", "成功基準", "が通る", "ボタンがページに表示される"),
    ),
    "Russian": SAME.format(
        *("Экспорт", "Цель", "Пользователи скачивают отчёты в CSV с заголовком.", "Область", "Только", "Ограничения"),
        *("Никаких новых зависимостей.", "Критерии", "проходит", "Кнопка видна на странице."),
    ),
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
def test_a_text_and_its_translation_get_the_same_advice(twin: str) -> None:
    assert seen(advise(twin)) == seen(advise(ENGLISH)) == EVERYTHING
    shorter = [text.replace("`pytest -q`", "").replace("`app/reports.py`", "") for text in (twin, ENGLISH)]
    assert [seen(advise(text)) for text in shorter] == [{"goal", "boundary", "criterion"}] * 2


def test_nonsense_below_five_headings_is_quoted_and_not_praised() -> None:
    text = "## Goal\nblue fish sing loudly\n## Scope\nwibble\n## Constraints\nqux\n"
    advice = advise(text + "## Success Criteria\n- zap\n## Done\nfoo\n")
    assert advice.signs == {
        **{"goal": "blue fish sing loudly", "place": "", "boundary": "qux"},
        **{"criterion": "zap", "command": "", "end": ""},
    }
    assert [line.split()[0] for line in advice.lines()] == ["✓", "+", "✓", "✓", "+", "+"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        *(("in src/dates.py, please", "src/dates.py"), ("in ./run and elsewhere", "./run"), ("below docs/", "docs/")),
        *(
            ("change `UserService` so", "UserService"),
            ("make `parse(x)` work", "parse(x)"),
            ("setup.cfg.", "setup.cfg"),
        ),
        *(("e.g. and/or i.e. 24/7 z.B. TCP/IP v1.2", ""), ("with `--json` and `pytest -q`", ""), ("end.Begin", "")),
    ],
)
def test_a_place_is_a_path_or_a_name_in_code(text: str, place: str) -> None:
    assert advise(text).signs["place"] == place


@pytest.mark.parametrize(
    ("code", "command"),
    [
        *(("pytest -q", True), ("./run", True), ("make test", True), ("bin/test --all", True), ("$ npm test", True)),
        *(("POST /login", False), ("parse('a b')", False), ("x = 1", False), ("src/a.py", False), ("--json x", False)),
    ],
)
def test_a_command_is_code_that_looks_like_one(code: str, command: bool) -> None:
    assert advise(f"It is `{code}` that matters here.").signs["command"] == (code if command else "")


def test_what_the_template_left_is_named_and_a_comment_beside_a_text_is_not() -> None:
    left = advise(TEMPLATE.decode()).placeholders
    assert len(left) == 5
    assert left[0] == "Title of the task"
    assert left[2].startswith("What is in, what is out?")
    text = "# Real\n\n## Goal\n<!-- note -->\nUsers see their name.\n\n## Scope\n<which files>\n- TODO\n"
    assert advise(text).placeholders == ("<which files>", "TODO")


WORDS = st.sampled_from(
    [
        *("## Goal\n", "## Scope\n", "# ", "- ", "`a b`", "`", "must ", "3 ", ":", "："),
        *("src/a.py ", "Success Criteria:\n", "```\n", "<!-- ", "-->", "\n\n", ". ", "\x1b[31m", "漢字", "TBD\n"),
    ]
)


@settings(deadline=None)
@given(st.text() | st.lists(WORDS, max_size=60).map("".join))
def test_any_text_gets_advice_that_can_be_shown(text: str) -> None:
    advice = advise(text)
    assert advice == advise(text)
    assert list(advice.signs) == list(SIGNS)
    for line in advice.lines():
        assert clean(line) == line
        assert "\n" not in line
        assert len(line) < 130


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "`", "<", "< ", "<!--", "<!---->", "- ", "1. ", "# ", " ", "a-", "a/", "a.", "**", "do not ", "word: "),
        *("漢", "*_ ", "- a:\n  - b\n", "```\n", "> ", "`a` passes ", "-->"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("before", ["", "## Success Criteria\n- ", "## Scope\n<", "--> "], ids=repr)
def test_no_text_takes_forever(unit: str, before: str) -> None:
    started = time.process_time()
    advise(before + unit * (60_000 // len(unit)))
    assert time.process_time() - started < 20  # a fraction of a second; what is not linear takes minutes
