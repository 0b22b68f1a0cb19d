"""What the screen shows: live on a terminal, plain lines elsewhere, never anything that an agent's text commands."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from marathon.core.budgets import Usage
from marathon.core.events import (
    CheckEnded,
    Event,
    HumanNeeded,
    Notice,
    Output,
    SessionBegan,
    SessionEnded,
    Text,
    Ticked,
    ToolCalled,
    ToolEnded,
    Typing,
    Used,
    WaitBegan,
    Waiting,
)
from marathon.show.screen import Screen
from tests.process.driver import Pty
from tests.support.world import World, research

BEGAN = SessionBegan(run=1, iteration=3, phase="plan", emoji="📝", agent="pi", log="")
OVER = SessionEnded(iteration=3, phase="plan", ending="ended", cause="", seconds=65)
# What the screen itself says to a terminal: start of line, erase, style.
OWN = re.compile(r"\r|\x1b\[(?:K|[\d;]*m)")
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
]


def shown(*events: Event, live: bool = False, notify: bool = True) -> str:
    out = io.StringIO()
    screen = Screen(out, live=live, notify=notify)
    for event in events:
        screen(event)
    screen.close()
    return out.getvalue()


def telling(text: str) -> list[Event]:
    """Every event that carries text somebody else wrote."""
    return [
        BEGAN,
        Output("out", text),
        Output("err", text, complete=False),
        Text(text),
        Text(text, thinking=True),
        ToolCalled("1", text, {"path": text}),
        ToolCalled(text, text, {"command": text}),
        ToolEnded("1", text, text),
        ToolEnded(text, text, text, failed=True),
        ToolEnded("unknown", text, text),
        Typing(text),
        Ticked(),
        Typing(""),
        WaitBegan(text, 5.0),
        Waiting(text, 5.0, skippable=True),
        CheckEnded(text, False, 1.0, text, text),
        Notice(text, "warning"),
        replace(OVER, ending="crashed", cause=text),
    ]


@given(
    st.lists(st.sampled_from(HOSTILE) | st.characters() | st.text("ab \n\t漢🏃", max_size=5)).map("".join),
    st.booleans(),
)
def test_nothing_in_any_text_reaches_the_terminal_as_a_command(text: str, live: bool) -> None:
    left = OWN.sub("", shown(*telling(text), live=live))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", left), repr(left)
    if not live:
        assert "\x1b" not in shown(*telling(text))


def test_styles_in_an_agent_s_text_are_not_taken_over() -> None:
    red = "\x1b[31mred\x1b[0m"
    assert shown(*telling(red), live=True) == shown(*telling("red"), live=True)


def test_without_a_terminal_each_event_that_matters_is_a_plain_line() -> None:
    text = shown(
        BEGAN,
        Output("out", "hello"),
        Output("out", "a piece of a very long line", complete=False),
        Ticked(),
        Output("err", "  \n"),
        ToolCalled("1", "bash", {"command": "ls -l"}),
        ToolEnded("1", "bash", "one\ntwo\nthree\nfour\n"),
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
        "─── 📝 plan · iteration 3 · pi ───",
        "  hello",
        "⚙ bash ls -l",
        "  │ one",
        "  │ two",
        "  │ three",
        "  │ … 1 more line",
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


def test_on_a_terminal_the_output_stands_above_the_one_line_that_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(BEGAN, Output("out", "first"), Output("out", "second"), Ticked(), Ticked(), live=True)
    status = "📝 plan │ iteration 3 │ 0s"
    assert text.endswith(f"  first\n\r\x1b[K{status}\r\x1b[K  second\n\r\x1b[K{status}\r\x1b[K")


def test_what_a_session_used_so_far_is_in_the_line_that_is_redrawn() -> None:
    used = Used(Usage(input=1000, output=500, cost=0.06, turns=1))
    text = shown(BEGAN, used, used, live=True)
    assert "📝 plan │ iteration 3 │ 0s │ 1 turn │ 1.5k tok │ $0.06\r" in text
    assert "📝 plan │ iteration 3 │ 0s │ 2 turns │ 3.0k tok │ $0.12\r" in text


def test_results_of_calls_that_overlap_say_which_call_they_are_of() -> None:
    text = shown(
        ToolCalled("1", "bash", {"command": "make a"}),
        ToolCalled("2", "bash", {"command": "make b"}),
        ToolEnded("2", "bash", "b is made"),
        ToolEnded("1", "bash", "a is not", failed=True),
        ToolCalled("3", "read", {"path": "c"}),
        ToolEnded("3", "read", "right below"),
    )
    assert text.splitlines() == [
        "⚙ bash make a",
        "⚙ bash make b",
        "  │ ⚙ bash make b",
        "  │ b is made",
        "  │ ✗ bash make a failed",
        "  │ a is not",
        "⚙ read c",
        "  │ right below",
    ]


def test_while_the_human_types_only_whole_lines_of_the_agent_come_above_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    events: list[Event] = [BEGAN, Text("I lo"), Typing("h"), Text("ok."), Typing("hm"), Text("\nThen "), Text("more")]
    text = shown(*events, live=True)
    assert text.split("───\n")[1] == (
        "I lo\n\r\x1b[K› h\r\x1b[K› hm\r\x1b[Kok.\n\r\x1b[K› hm\r\x1b[KThen more\n\r\x1b[K› hm\r\x1b[K"  # closed
    )
    sent = shown(*events, Typing(""), Text(" text\n"), live=True)
    assert "\r\x1b[KThen more text\n" in sent
    told = shown(*events, Notice("Look."), live=True)
    assert "\r\x1b[KThen more\n" in told
    assert told.endswith("\r\x1b[KLook.\n\r\x1b[K› hm\r\x1b[K")


@pytest.mark.parametrize("columns", [1, 2, 10, 40, 79])
@pytest.mark.parametrize("text", ["x" * 500, "漢" * 500, "🏃" * 500, "e\u0301" * 300, "a漢" * 100, "👨‍👩‍👧" * 50])
def test_the_live_line_never_wraps(monkeypatch: pytest.MonkeyPatch, columns: int, text: str) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    written = shown(BEGAN, Output("out", text), Typing(text), Waiting(text, 5, skippable=True), live=True)
    drawn = [part for part in re.split(r"\r\x1b\[K", written)[1:] if "\n" not in part]
    assert drawn
    for line in drawn:
        plain = OWN.sub("", line)
        assert cell_len(plain) < max(columns, 2), repr(plain)


@pytest.mark.parametrize(
    ("live", "notify", "rings"), [(True, True, True), (True, False, False), (False, True, False), (False, False, False)]
)
def test_the_bell_rings_only_on_a_terminal_and_only_if_wanted(live: bool, notify: bool, rings: bool) -> None:
    text = shown(HumanNeeded("plan; waits\x1b]0;x\x07 for you"), live=live, notify=notify)
    assert text == (
        "\a\x1b]9;plan, waits for you\x1b\\\x1b]777;notify;pi-marathon;plan, waits for you\x1b\\" if rings else ""
    )


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[1;36m" in shown(BEGAN, live=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "m" not in "".join(re.findall(r"\x1b\[[\d;]*([a-zA-Z])", shown(*telling("x"), live=True)))


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
