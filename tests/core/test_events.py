"""The JSON form of events: it comes back as it was, it is bounded, and garbage is no event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.budgets import Usage
from marathon.core.events import (
    LONGEST_TEXT,
    CheckEnded,
    CompactionBegan,
    CompactionEnded,
    Context,
    GateAnswered,
    GateOpened,
    Logged,
    Notice,
    Output,
    RetryBegan,
    RetryEnded,
    RunnerEnded,
    SessionBegan,
    SessionEnded,
    Text,
    ToolCalled,
    ToolEnded,
    ToolUpdated,
    Used,
    WaitBegan,
    WaitEnded,
    decode,
    encode,
)

USAGE = Usage(input=800, output=40, cacheRead=200, cost=0.5, turns=1, toolCalls=2, model="m")
EVENTS: list[Logged] = [
    Context("sonnet", 200_000, 50_000),
    SessionBegan(1, 3, "plan", "pi", emoji="📝", task="my-task", max_iterations=100, max_cost=10.0, spent=0.5),
    Text("I look.\n", thinking=True),
    ToolCalled("c1", "bash", {"command": "ls", "deep": [{"a": None}]}),
    ToolUpdated("c1", "o"),
    ToolEnded("c1", "bash", "out", failed=True, seconds=1.5, diff="+1 a"),
    CompactionBegan("threshold"),
    CompactionEnded(1988, 1597, 2.5, "too long"),
    RetryBegan(1, 3, 2.0, "500: x"),
    RetryEnded(3, "500: x"),
    Output("err", "half a l", complete=False),
    Used(USAGE),
    Notice("A sentence.", "warning"),
    WaitBegan("CI", 300),
    WaitEnded(early=True),
    CheckEnded("the tests pass", False, 3.0, "exit code 1", "pytest"),
    GateOpened("review", "plan", "Look at it."),
    GateAnswered("continue", "terminal", "plan"),
    SessionEnded(3, "plan", "crashed", "exit code 1", 65.0, USAGE, "7/9 steps"),
    RunnerEnded(7, "The task is gone."),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_comes_back_as_it_was(event: Logged) -> None:
    line = encode(event, 1794962303.58812)
    assert json.loads(line) == {**json.loads(line), "v": 1, "at": 1794962303.588, "type": event.type}
    back = decode(line)
    assert back == event
    assert back is not None
    assert back.at == 1794962303.588


def test_every_kind_is_among_them() -> None:
    assert {type(event) for event in EVENTS} == set(Logged.__subclasses__())


@given(st.text(st.characters()))
def test_any_text_is_one_line_and_comes_back(text: str) -> None:
    line = encode(Notice(text), 0)
    assert line.count(b"\n") == 1
    back = decode(line)
    assert isinstance(back, Notice)
    assert back.text == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize(
    "event",
    [
        Output("out", "x" * 10_000_000),
        ToolEnded("1", "bash", "漢" * 1_000_000),
        ToolCalled("1", "write", {"path": "a", "content": "x" * 10_000_000}),
        ToolCalled("1", "x", {"k" * 1_000_000: [["x" * 1_000_000]]}),
        ToolCalled("1", "x", {str(number): "x" * 1000 for number in range(10_000)}),
    ],
    ids=["output", "result", "argument", "deep", "many"],
)
def test_no_event_makes_a_line_of_any_length(event: Logged) -> None:
    line = encode(event, 0)
    assert len(line) < 8 * LONGEST_TEXT
    assert decode(line) is not None
    if not isinstance(event, ToolCalled) or len(event.arguments) < 100:
        assert "more characters were left out" in line.decode()


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ({"command": "echo\n  1", "timeout": 5}, "echo 1"),
        ({"content": "text", "path": "a.py"}, "a.py"),
        ({"depth": 2, "ä": True}, '{"depth": 2, "ä": true}'),
        ({"command": ["not", "text"]}, '{"command": ["not", "text"]}'),
        ({}, ""),
    ],
)
def test_a_call_is_summed_up_by_the_argument_that_tells_most(arguments: dict[str, Any], summary: str) -> None:
    assert ToolCalled("1", "tool", arguments).summary == summary


def test_a_summary_is_short() -> None:
    assert len(ToolCalled("1", "bash", {"command": "x" * 100_000}).summary) <= 200
    assert len(ToolCalled("1", "bash", {"other": "x" * 100_000}).summary) <= 200


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"v": 1}',
        b'{"v": 1, "type": null}',
        b'{"v": 1, "type": ["notice"]}',
        b'{"v": "1", "type": "notice", "text": "x"}',
        b'{"v": 0, "type": "notice", "text": "x"}',
        b'{"v": null, "type": "notice", "text": "x"}',
        b'{"v": 1, "type": "notice"}',
        b'{"v": 1, "type": "notice", "text": "x", "level": "loud"}',
        b'{"v": 1, "type": "logged"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=lambda line: repr(line[:60]),
)
def test_garbage_is_no_event(line: bytes) -> None:
    assert decode(line) is None
