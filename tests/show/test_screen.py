"""What the screen shows: live on a terminal, plain lines elsewhere, never anything that an agent's text commands."""

from __future__ import annotations

import io
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from marathon.core.budgets import Usage
from marathon.core.events import (
    CheckEnded,
    CompactionBegan,
    CompactionEnded,
    Context,
    Event,
    HumanNeeded,
    Notice,
    Output,
    RetryBegan,
    RetryEnded,
    SessionBegan,
    SessionEnded,
    Text,
    Ticked,
    ToolCalled,
    ToolEnded,
    ToolUpdated,
    Typing,
    Unfolding,
    Used,
    WaitBegan,
    Waiting,
)
from marathon.show import screen as screens
from marathon.show.live import footer
from marathon.show.markdown import split_complete
from marathon.show.screen import STEERED, Screen
from tests.process.driver import Pty
from tests.show.glass import Glass
from tests.support.world import World, research

BEGAN = SessionBegan(run=1, iteration=3, phase="plan", emoji="📝", agent="pi", log="")
LIMITED = replace(BEGAN, task="20260101-101010-my-task", max_iterations=100, max_cost=10, spent=0.5)
OVER = SessionEnded(iteration=3, phase="plan", ending="ended", cause="", seconds=65)
# What the screen itself says to a terminal: start of line, upwards, erase, style.
OWN = re.compile(r"\r|\x1b\[(?:\d*A|[KJ]|\d+G|[\d;]*m)")
# What an agent might say to one, each with a trace that a reader would see.
HOSTILE = [
    "\x1b[2J",
    "\x1b[10;10H",
    "\x1b]0;title\x07",
    "\x1b]52;c;eA==\x1b\\",
    "\x1bP1$r\x1b\\",
    "\x1bc",
    "\x9b5n",
    "\x07",
    "\x08",
    "\x0e",
    "\x1b[",
    "\x1b",
    "&#x202e;",
    "&#27;[2J",
    "&#13;",
    "[x](\x1b]8;;y)",
]


@pytest.fixture(autouse=True)
def _without_colours_and_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(screens, "_BETWEEN_DRAWINGS", 0.0)
    monkeypatch.setenv("LINES", "24")


def shown(*events: Event, live: bool = False, notify: bool = True, closed: bool = True) -> str:
    out = io.StringIO()
    screen = Screen(out, live=live, notify=notify, hints=STEERED)
    for event in events:
        screen(event)
    if closed:
        screen.close()
    return out.getvalue()


def seen(*events: Event, columns: int = 80, rows: int = 24, closed: bool = False) -> list[str]:
    """What a window of this size shows after these events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("LINES", str(rows))
        return Glass(columns, rows).feed(shown(*events, live=True, closed=closed)).lines


def call(id: str, name: str = "bash", **arguments: object) -> ToolCalled:
    return ToolCalled(id, name, arguments)


def telling(text: str) -> list[Event]:
    """Every event that carries text somebody else wrote."""
    return [
        replace(BEGAN, task=text),
        Output("out", text),
        Output("err", text, complete=False),
        Text(text),
        Ticked(),
        Text(text, thinking=True),
        Ticked(),
        call("1", text, path=text),
        call(text, "edit", path=text, edits=[{"oldText": text, "newText": f"{text}\n{text}"}, 1, text]),
        call("2", "write", path=text, content=text),
        ToolUpdated("1", text),
        Ticked(),
        ToolEnded("1", text, text),
        ToolEnded(text, text, text, failed=True),
        ToolEnded("2", text, text, diff=text),
        ToolEnded("unknown", text, text),
        Typing(text),
        Ticked(),
        Typing(text, text),
        Context(text, 10, 5),
        Unfolding(),
        Typing(""),
        CompactionBegan(text),
        CompactionEnded(error=text),
        RetryBegan(1, 3, 2.0, text),
        RetryEnded(3, text),
        WaitBegan(text, 5.0),
        Waiting(text, 5.0, skippable=True),
        CheckEnded(text, False, 1.0, text, text),
        Notice(text, "warning"),
        replace(OVER, ending="crashed", cause=text),
    ]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(HOSTILE) | st.characters() | st.text("ab \n\t漢🏃`|-#*", max_size=5)).map("".join),
    st.booleans(),
)
def test_nothing_in_any_text_reaches_the_terminal_as_a_command(text: str, live: bool) -> None:
    left = OWN.sub("", shown(*telling(text), live=live))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", left), repr(left)
    if not live:
        assert "\x1b" not in shown(*telling(text))


def test_styles_in_an_agent_s_text_are_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1e9)  # for both pictures
    red = "\x1b[31mred\x1b[0m"
    assert shown(*telling(red), live=True) == shown(*telling("red"), live=True)


# Plain lines


def test_without_a_terminal_each_event_that_matters_is_a_plain_line() -> None:
    text = shown(
        BEGAN,
        Output("out", "hello"),
        Output("out", "a piece of a very long line", complete=False),
        Ticked(),
        Output("err", "  \n"),
        Text("I think.\n", thinking=True),
        Text("One **word"),
        Text("**\nof mine.\n\nAnd more.\n"),
        call("1", command="ls -l"),
        ToolUpdated("1", "one"),
        ToolEnded("1", "bash", "one\ntwo\n\nthree\nfour\n"),
        RetryBegan(1, 3, 2.0, "429: too many"),
        RetryEnded(1),
        CompactionBegan("threshold"),
        CompactionEnded(198_000, 12_000, 8.0),
        OVER,
        Notice("STATE.json was not valid.", "warning"),
        WaitBegan("waiting: CI", 300),
        Waiting("waiting: CI", 300, skippable=False),
        CheckEnded("the tests pass", True, 3.2, command="pytest"),
        CheckEnded("it is short", True, evidence="40 lines"),
        CheckEnded("it is readable", False, reason="the agent says no"),
        HumanNeeded("plan waits for you"),
    )
    assert text.splitlines() == [
        "─── 📝 plan · session 3 · pi ───",
        "  hello",
        "I think.",
        "One **word**",
        "of mine.",
        "",
        "And more.",
        "⚙ bash ls -l",
        "  │ one",
        "  │ two",
        "  │ three",
        "  │ four",
        "⟳ Trying again (1/3) in 2s: 429: too many",
        "✓ Retry 1 succeeded",
        "⏳ Compacting the context (threshold)",
        "✓ The context is compacted: 198.0k → 12.0k tokens (8s)",
        "─── 1m 05s ───",
        "⚠️  STATE.json was not valid.",
        "⏳ waiting: CI │ 5m 00s left",
        "✓ ran: the tests pass (3s)",
        "○ agent says: it is short (evidence: 40 lines)",
        "✗ it is readable: the agent says no",
    ]


def test_a_session_s_end_tells_what_it_used_and_what_went_wrong() -> None:
    over = replace(OVER, ending="crashed", cause="exit code 1", usage=Usage(turns=3, input=12_400, cost=0.125))
    line = shown(over)
    for part in ("1m 05s", "3 turns", "12.4k tok", "$0.1", "crashed: exit code 1"):
        assert part in line


# Tool calls


def test_a_call_and_its_result_stand_together_also_when_calls_overlap() -> None:
    text = shown(
        call("1", command="make a"),
        call("2", command="make b"),
        call("4", command="make d"),
        ToolEnded("2", "bash", "b is made", seconds=61),
        ToolEnded("1", "bash", "a is not", failed=True),
        call("3", "read", path="c", offset=10, limit=20),
        ToolEnded("3", "read", "right below"),
        OVER,
    )
    assert text.splitlines() == [
        "⚙ bash make b · 1m 01s",
        "  │ b is made",
        "✗ bash make a · failed",
        "  │ a is not",
        "⚙ read c:10-29",
        "  │ right below",
        "⚙ bash make d",
        "  │ it did not end",
        "─── 1m 05s ───",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "result", "below"),
    [
        ("bash", {"command": "x"}, "\n".join("abcdefgh"), ["… 3 earlier lines", "d", "e", "f", "g", "h"]),
        ("read", {"path": "x"}, "\n".join("abcdefgh"), ["a", "b", "c", "d", "e", "… 3 more lines"]),
        ("grep", {"pattern": "x"}, "\n".join("abcdef"), ["a", "b", "c", "d", "e", "f"]),
        ("bash", {"command": "x"}, "y" * 500, ["y" * 400 + "…"]),
        ("write", {"path": "x", "content": "# a\n\nb\n"}, "Wrote 6 bytes", ["# a", "b"]),
        (
            "edit",
            {"path": "x", "edits": [{"oldText": "a\nb\nc", "newText": "a\nB\nc"}, {"oldText": "", "newText": "d"}]},
            "Replaced 2 blocks",
            ["  a", "- b", "+ B", "  c", "+ d"],
        ),
        ("edit", {"path": "x", "oldText": "a", "newText": "b"}, "Replaced", ["- a", "+ b"]),
        ("Edit", {"file_path": "x", "old_string": "a", "new_string": "b"}, "Replaced", ["- a", "+ b"]),
        ("edit", {"path": "x", "edits": "not a list"}, "Replaced", ["Replaced"]),
        ("edit", {"path": "x", "oldText": "a\n" * 500, "newText": ""}, "", ["- a"] * 40 + ["… 460 more lines"]),
    ],
)
def test_what_stands_below_a_call(name: str, arguments: dict[str, object], result: str, below: list[str]) -> None:
    lines = shown(ToolCalled("1", name, arguments), ToolEnded("1", name, result)).splitlines()
    assert lines[0] in (f"⚙ {name} x", f"⚙ {name}")
    assert lines[1:] == [f"  │ {line}" for line in below]


def test_the_agent_s_own_diff_comes_first_because_it_knows_the_numbers_of_the_lines() -> None:
    end = ToolEnded("1", "edit", "Replaced", diff=" 1 a\n-2 b\n+2 c")
    lines = shown(call("1", "edit", path="x", oldText="b", newText="c"), end)
    assert lines.splitlines() == ["⚙ edit x", "  │  1 a", "  │ -2 b", "  │ +2 c"]


def test_an_edit_that_failed_says_why() -> None:
    lines = shown(call("1", "edit", path="x", oldText="a", newText="b"), ToolEnded("1", "edit", "no a", failed=True))
    assert lines.splitlines() == ["✗ edit x · failed", "  │ - a", "  │ + b", "  │ no a"]


# A terminal

SPOKEN = """\
# Findings

Every request passes `handle`, where the **key** is known and no work is done yet.

- one
- two

  still two

```python
def f():

    return 1
```
| name | size |
|------|-----:|
| a    |    1 |

1. first
"""
RENDERED = """\
Findings

Every request passes handle, where the key is known and no
work is done yet.

 • one
 • two
   still two

 def f():

     return 1

 name  size
 ──────────
 a        1

 1 first""".splitlines()


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_markdown_is_rendered_whatever_the_pieces_it_comes_in(size: int) -> None:
    pieces = [Text(SPOKEN[start : start + size]) for start in range(0, len(SPOKEN), size)]
    lines = seen(*pieces, Ticked(), columns=60, closed=True)
    assert [line for line in lines if line] == [line for line in RENDERED if line]
    if size < 10_000:
        assert lines == RENDERED


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "- b", "  c", "", "```", "~~~~", "    d", "# e", "`f", "x" * 9000]), max_size=12))
def test_no_text_is_lost_between_blocks(lines: list[str]) -> None:
    text, whole, rest = "\n".join(lines) + "\n", "", ""
    for line in text.splitlines(keepends=True):
        done, rest = split_complete(rest + line)
        whole += done
    assert re.sub(r"[`~\s]", "", whole + rest) == re.sub(r"[`~\s]", "", text)


@pytest.mark.parametrize(
    ("columns", "last"),
    [
        (200, "my-task │ 📝 plan │ 3/100 │ 0s │ $0.85 of $10 │ type to tell it · Alt+Enter next session · Esc stop"),
        (80, "my-task │ 📝 plan │ 3/100 │ 0s │ $0.85 of $10 │ type to tell it · Esc stop"),
        (60, "my-task │ 📝 plan │ 3/100 │ 0s │ $0.85 of $10 │ Esc stop"),
        (44, "my-t… │ 📝 plan │ 3/100 │ 0s │ $0.85 of $10"),
    ],
)
def test_the_screen_of_a_session_at_work(columns: int, last: str) -> None:
    lines = seen(
        LIMITED,
        Used(Usage(cost=0.35, turns=1)),
        Text("A **long** line that has to be wrapped where a word ends, in a window that is not too wide.\n\nThen"),
        Text(" more"),
        Ticked(),
        columns=columns,
    )
    assert lines[0] == "─── 📝 plan · session 3 · pi ───"[:columns]
    assert "A long line that has to be wrapped" in lines[2]
    assert lines[-4:] == ["", "Then more", "", last]
    assert all(cell_len(line) < columns for line in lines)


def test_running_calls_show_their_time_and_their_last_lines_and_then_give_way_to_the_result() -> None:
    events: list[Event] = [
        LIMITED,
        replace(call("1", command="make a"), at=time.time() - 12.2),
        call("2", command="make b"),
        ToolUpdated("1", "a 1\na 2\na 3\na 4"),
        Ticked(),
    ]
    lines = seen(*events)
    assert lines[2:8] == ["⚙ bash make a · 12s", "  │ a 2", "  │ a 3", "  │ a 4", "⚙ bash make b · 0s", ""]
    lines = seen(*events, ToolEnded("1", "bash", "done", seconds=12.5), Ticked())
    assert lines[1:-1] == ["", "⚙ bash make a · 12s", "  │ done", "", "⚙ bash make b · 0s", ""]


def test_the_time_of_a_running_call_is_never_cut_and_never_hidden_by_what_the_agent_says() -> None:
    long = replace(call("1", command="make " + "x" * 200), at=time.time() - 72.2)
    lines = seen(LIMITED, long, Text("word " * 500), Ticked(), columns=60)
    (row,) = [line for line in lines if line.startswith("⚙ bash make x")]
    assert row.endswith("… · 1m 12s")
    assert cell_len(row) < 60


def test_ctrl_o_shows_the_whole_of_what_was_folded_and_folds_again() -> None:
    ended = [ToolEnded("1", "bash", "\n".join(f"line {number}" for number in range(20)) + "\n" + "y" * 500)]
    events: list[Event] = [LIMITED, call("1", command="make"), *ended]
    assert "line 3" not in shown(*events, live=True)
    lines = seen(*events, Unfolding(), call("2", command="more"), ToolEnded("2", "bash", "\n".join("abcdefgh")))
    assert [line for line in lines if "line " in line and "│" in line] == [
        *(f"  │ line {number}" for number in range(16, 20)),
        *(f"  │ line {number}" for number in range(20)),
    ]
    assert sum(line.count("y") for line in lines if line.startswith("  │ y")) == 401 - 1 + 500
    assert "  │ a" in lines, "so is what comes after it"
    again = seen(*events, Unfolding(), Unfolding(), call("2"), ToolEnded("2", "bash", "\n".join("abcdefgh")))
    assert "  │ … 3 earlier lines" in again[-8:]


def test_the_footer_names_the_model_and_how_full_its_context_is() -> None:
    used = Used(Usage(input=20_000, cacheRead=30_000, output=500, turns=1, model="sonnet-5"))
    facts = "my-task │ 📝 plan │ 3/100 │ 0s │ $0.50 of $10"
    assert seen(LIMITED, used, Ticked())[-1] == f"{facts} │ context 50.5k │ sonnet-5"
    full: list[Event] = [LIMITED, Context("sonnet-5", 200_000), Ticked(), used]
    assert seen(*full, Ticked(), columns=120)[-1].startswith(f"{facts} │ context 25% │ sonnet-5 │ ")
    compacted = CompactionEnded(50_500, 10_000)
    assert f"{facts} │ context 5% │ sonnet-5" in seen(*full, compacted, Ticked())[-1]


def test_the_cursor_stands_in_the_line_that_is_typed() -> None:
    written = shown(LIMITED, Ticked(), Typing("mind ", "the gap"), live=True, closed=False)
    assert written.endswith("› mind the gap\x1b[J\x1b[8G")
    long = shown(LIMITED, Ticked(), Typing("x" * 500, "y" * 500), live=True, closed=False)
    assert re.search(r"› …x{40,}y{20,}…\x1b\[J\x1b\[\d+G$", long)
    assert seen(LIMITED, Ticked(), Typing("a", "b"), Typing("ac", "b"))[-1] == "› acb"


def test_thoughts_are_folded_and_so_is_a_live_region_that_is_too_high() -> None:
    lines = seen(LIMITED, Text("word " * 100, thinking=True), Text("Hm.\n"), Ticked())
    assert lines[2:7] == [*[("word " * 16).rstrip()] * 3, "… 4 more lines", ""]
    calls = [call(str(number), command=f"make {number}") for number in range(30)]
    lines = seen(LIMITED, *calls, Ticked(), rows=12)
    assert lines[1:] == [
        "",
        *(f"⚙ bash make {number} · 0s" for number in range(7)),
        "… 23 more lines",
        "",
        "my-task │ 📝 plan │ 3/100 │ 0s │ $0.50 of $10 │ type to tell it · Esc stop",
    ]


def test_what_the_human_types_stands_last_and_what_the_agent_says_above_it() -> None:
    events: list[Event] = [
        LIMITED,
        Text("I lo"),
        Typing("h"),
        Text("ok."),
        Typing("hm"),
        Text("\n\nThen "),
        Text("more"),
    ]
    facts = "my-task │ 📝 plan │ 3/100 │ 0s │ $0.50 of $10"
    assert seen(*events) == ["─── 📝 plan · session 3 · pi ───", "", "I look.", "", "Then more", "", facts, "› hm"]
    sent = seen(*events, Typing(""), Notice("→ told: hm"))
    assert sent[-5:] == ["→ told: hm", "", "Then more", "", f"{facts} │ type to tell it · Esc stop"]


def test_the_region_is_gone_when_the_session_is_over() -> None:
    assert seen(LIMITED, Output("out", "first"), Ticked(), Typing("x"), OVER) == [
        "─── 📝 plan · session 3 · pi ───",
        "  first",
        "─── 1m 05s ───",
    ]
    assert seen(LIMITED) == ["─── 📝 plan · session 3 · pi ───"]  # the agent may have the terminal
    assert seen(LIMITED, Ticked(), closed=True) == ["─── 📝 plan · session 3 · pi ───"]


def test_lines_that_stay_are_written_once_while_the_region_is_drawn_again() -> None:
    outputs = [Output("out", f"line {number}") for number in range(100)]
    written = shown(LIMITED, *outputs, Ticked(), Ticked(), live=True)
    assert re.findall(r"line (\d+)", written) == [str(number) for number in range(100)]
    assert Glass().feed(written).lines[1:] == [f"  line {number}" for number in range(100)]


def test_the_region_is_drawn_ten_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "_BETWEEN_DRAWINGS", 60.0)
    words = [Text(f"word{number} ") for number in range(1000)]
    assert "word1" not in shown(LIMITED, *words, live=True, closed=False)
    assert "› h" in shown(LIMITED, *words, Typing("h"), live=True, closed=False)
    assert "word999" in shown(LIMITED, *words, live=True)


def test_in_a_window_that_became_narrower_the_old_rows_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    screen = Screen(out, live=True, notify=False)
    monkeypatch.setenv("COLUMNS", "80")
    for event in (LIMITED, Text("x " * 35), Ticked()):
        screen(event)
    out.truncate(0)
    monkeypatch.setenv("COLUMNS", "40")
    screen(Ticked())
    # An empty row, 69 cells in two rows, an empty row, 45 cells in two rows: the first is five above the last.
    assert out.getvalue().lstrip("\0").startswith("\r\x1b[5A")


@pytest.mark.parametrize("columns", [1, 2, 10, 40, 79])
@pytest.mark.parametrize("text", ["x" * 500, "漢" * 500, "🏃" * 500, "e\u0301" * 300, "a漢" * 100, "👨‍👩‍👧" * 50])
def test_no_row_ever_wraps(monkeypatch: pytest.MonkeyPatch, columns: int, text: str) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    wide = columns < 3  # not even a margin fits
    telling: list[Event] = [Output("out", text), call("1", command=text), Typing(text), Typing(text, text)]
    events = [LIMITED, *telling, Waiting(text, 5, skippable=True)]
    rows = [OWN.sub("", row) for row in re.split(r"[\n\r]", shown(*events, live=True))]
    assert wide or max(map(cell_len, rows)) < max(columns, 12)
    assert cell_len(footer([text, "plan"], STEERED, columns).text) <= max(columns, 4)


@pytest.mark.parametrize(
    ("live", "notify", "rings"), [(True, True, True), (True, False, False), (False, True, False), (False, False, False)]
)
def test_the_bell_rings_only_on_a_terminal_and_only_if_wanted(live: bool, notify: bool, rings: bool) -> None:
    text = shown(HumanNeeded("plan; waits\x1b]0;x\x07 for you"), live=live, notify=notify)
    said = "plan, waits for you\x1b\\"
    assert text == (f"\a\x1b]9;{said}\x1b]777;notify;pi-marathon;{said}\x1b]99;;{said}" if rings else "")


def test_no_color_is_respected_and_colours_are_the_16_without_a_background(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = [*telling("`x`"), Text(SPOKEN), OVER]
    assert not re.findall(r"\x1b\[[\d;]*m", shown(*events, live=True))
    monkeypatch.delenv("NO_COLOR")
    written = shown(*events, live=True)
    codes = {code for style in re.findall(r"\x1b\[([\d;]*)m", written) for code in style.split(";")}
    assert {"36", "31", "32", "2", "1"} <= codes  # calls, failures and diffs, what is dim, what is bold
    assert codes <= {"0", *"1234", *(str(code) for code in (*range(30, 38), *range(90, 98)))}


def test_a_view_that_is_gone_stops_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        screen = Screen(pipe, live=False, notify=True)
        for event in telling("x" * 10_000):
            screen(event)
        screen.close()
        with pytest.raises(BrokenPipeError):
            pipe.flush()  # it was really broken
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe.fileno())
    closed = io.StringIO()
    closed.close()
    for out in (closed, None):
        screen = Screen(out, live=True, notify=True)
        for event in telling("x"):
            screen(event)
        screen.close()


@pytest.mark.parametrize("way", ["2>&1 | head -n 1", ">&-", "> /dev/full"])
def test_the_marathon_goes_on_and_ends_as_it_should_when_nobody_reads(world: World, way: str) -> None:
    world.script(research(say=["line"] * 200))
    command = world.argv(*world.task_args())
    script = f'{{ "$@"; echo $? > "{world.home}/code"; }} {way}'
    subprocess.run(
        ["sh", "-c", script, "sh", *command], cwd=world.project, env=world.env(), capture_output=True, timeout=60
    )
    assert (world.home / "code").read_text() == "3\n"
    assert [gate["reason"] for gate in world.records("gate_opened")] == ["review"]


def test_on_a_real_terminal_nothing_an_agent_wrote_is_acted_on(world: World, on_terminal: Callable[..., Pty]) -> None:
    hostile = "trace\x1b[2J\x1b]0;owned\x07\x1b[?1049h\x9b5n"
    state = {"state": "paused", "phase": "research", "note": hostile}
    world.script(research(say=[hostile, hostile], state=state["state"]) | {"state": state})
    terminal = on_terminal()
    seen = terminal.expect(b"[q]      Quit marathon")
    assert seen.count(b"trace") >= 2
    for command in (b"\x1b[2J", b"\x1b]0;", b"owned", b"\x1b[?1049h", b"\x9b", b"\xc2\x9b"):
        assert command not in seen
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert terminal.cooked()


@pytest.mark.parametrize(("env", "never"), [({"TERM": "dumb"}, b"\x1b"), ({"NO_COLOR": "1"}, rb"\x1b\[[\d;]*m")])
def test_a_terminal_without_escapes_or_without_colours(
    world: World, on_terminal: Callable[..., Pty], env: dict[str, str], never: bytes
) -> None:
    world.script(research(say=["at work"], hold=True))
    terminal = on_terminal(**env)
    written = terminal.expect(b"  at work")
    if "NO_COLOR" in env:
        written += terminal.expect("task │ 🔍 research │ 1/100 │ ".encode())
    world.release(1)
    written += terminal.expect(b"[q]      Quit marathon")
    assert not re.search(never, written)
    terminal.send(b"q")
    assert terminal.wait() == 3
