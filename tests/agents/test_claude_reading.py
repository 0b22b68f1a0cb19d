"""What Claude Code's records mean. The lines are as version 2.1.325 wrote them, without what no one reads."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from marathon.agents.base import Outcome
from marathon.agents.claude.stream import Reading, denials, permissions, rules
from marathon.core.budgets import Usage
from marathon.core.events import Context, Event, Notice, Text, ToolCalled, ToolEnded, usage_of

Record = dict[str, Any]
INIT = {"type": "system", "subtype": "init", "session_id": "428913d1", "model": "claude-opus-5-5"}
USAGE = {"input_tokens": 800, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 0, "output_tokens": 1}
RESULT = {
    "stop_reason": "end_turn",
    "modelUsage": {
        "claude-opus-5-5": {"inputTokens": 900, "outputTokens": 60, "cacheReadInputTokens": 200, "costUSD": 0.5}
    },
    "terminal_reason": "completed",
    "is_error": False,
    "subtype": "success",
    "api_error_status": None,
    "result": "done",
    "type": "result",
}


def stream(event: Record) -> Record:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None}


def block(kind: str, *pieces: str) -> list[Record]:
    deltas = [{"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: piece}} for piece in pieces]
    start: Record = {"type": "content_block_start", "content_block": {"type": kind}}
    return [stream(each) for each in (start, *deltas, {"type": "content_block_stop"})]


def said(*content: Record, role: str = "assistant") -> Record:
    return {"type": role, "message": {"role": role, "content": list(content)}, "parent_tool_use_id": None}


def call(command: str, id: str = "toolu_1") -> Record:
    return said({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}})


def read(*records: Record) -> tuple[Reading, list[Event]]:
    reading = Reading(clock=lambda: 5.0)
    return reading, [event for record in records for event in reading.events(json.loads(json.dumps(record)))]


def ending(*records: Record) -> Outcome:
    return read(INIT, *records)[0].ending()


def test_a_session_as_events() -> None:
    reading, events = read(
        INIT,
        stream({"type": "message_start", "message": {"model": "claude-sonnet-4-5", "usage": USAGE}}),
        *block("thinking", "Hm"),
        *block("text", "Let me ", "look."),
        said({"type": "text", "text": "Let me look."}),
        call("ls"),
        stream({"type": "message_delta", "usage": {"output_tokens": 40}}),
        said({"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt", "is_error": False}, role="user"),
        said({"type": "text", "text": "<loop-complete>"}),
        RESULT,
    )
    assert [event for event in events if isinstance(event, Text)] == [
        Text("Hm", thinking=True),
        Text("\n", thinking=True),
        Text("Let me "),
        Text("look."),
        Text("\n"),
    ]
    assert ToolCalled("toolu_1", "Bash", {"command": "ls"}) in events
    assert ToolEnded("toolu_1", "Bash", "a.txt") in events
    used = usage_of(events)
    assert used == Usage(input=900, output=60, cacheRead=200, cost=0.5, turns=1, toolCalls=1, model="claude-sonnet-4-5")
    assert (reading.session, reading.working) == ("428913d1", True)
    assert reading.ending() == Outcome("ended", stop_reason="end_turn")


def test_what_a_message_used_counts_as_soon_as_it_is_told() -> None:
    """A session may be cut off in the middle of a message, and a subagent's messages come whole."""
    start = {"type": "message_start", "message": {"id": "m1", "model": "claude-sonnet-4-5", "usage": USAGE}}
    part = {"id": "s1", "model": "claude-haiku", "usage": {"input_tokens": 30, "output_tokens": 2}, "content": []}
    subagent = {"type": "assistant", "message": part, "parent_tool_use_id": "toolu_1"}
    _, events = read(INIT, stream(start), subagent, subagent)
    assert usage_of(events) == Usage(input=830, output=3, cacheRead=200, turns=1, model="claude-sonnet-4-5")


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--disallowedTools", "Bash,WebFetch"), "Bash"),
        (("--tools", "Read,Write"), "Bash, Monitor"),
        (("--tools", "Bash,Monitor,Read", "--disallowedTools", "Bash(git push:*)"), ""),
        ((), ""),
    ],
)
def test_claude_does_not_work_with_tools_that_it_may_not_have(args: tuple[str, ...], named: str) -> None:
    reading = Reading(args)
    list(reading.events({**INIT, "tools": ["Bash", "Monitor", "Read", "mcp__db__query"]}))
    assert bool(reading.failure) is bool(named)
    if named:
        cause = f"Claude has tools that this phase may not use: {named}"
        assert (reading.ending().cause, reading.ending().permanent) == (cause, True)


def test_a_late_message_takes_the_result_back() -> None:
    replay = {**said({"type": "text", "text": "STEER"}, role="user"), "isReplay": True}
    reading, _ = read(INIT, replay, RESULT)
    assert (reading.taken, reading.result) == (1, RESULT)
    assert list(reading.events(replay)) == []
    assert (reading.taken, reading.result) == (2, None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"terminal_reason": "budget_exhausted", "is_error": True}, ("limit", "--max-cost is used up", False)),
        ({"terminal_reason": "aborted_tools", "is_error": True}, ("left", "stopped with Esc", False)),
        (
            {"is_error": True, "result": "Not logged in · Please run /login"},
            ("refused", "Not logged in · Please run /login (start claude and type /login)", True),
        ),
        (
            {"is_error": True, "api_error_status": 500, "result": "API Error: 500 Internal server error"},
            ("refused", "API Error: 500 Internal server error", False),
        ),
        (
            {"is_error": True, "api_error_status": 404, "result": "No such model"},
            ("refused", "404: No such model", True),
        ),
    ],
)
def test_how_it_ended(change: Record, expected: tuple[str, str, bool]) -> None:
    outcome = ending({**RESULT, **change})
    assert (outcome.ending, outcome.cause, outcome.permanent) == expected


def test_a_rejected_limit_is_waited_for_until_it_resets() -> None:
    info = {"status": "rejected", "resetsAt": time.time() + 5000, "rateLimitType": "five_hour"}
    error = {**RESULT, "is_error": True, "api_error_status": 429, "result": "You've hit your 5-hour limit"}
    outcome = ending({"type": "rate_limit_event", "rate_limit_info": info}, error)
    assert outcome.retry_after == pytest.approx(5000, abs=60)
    assert not outcome.permanent
    nearly = {"type": "rate_limit_event", "rate_limit_info": {**info, "status": "allowed_warning"}}
    assert ending(nearly, error).retry_after is None


def retry(**fields: Any) -> Record:
    return {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "retry_delay_ms": 519, **fields}


def test_only_a_retry_that_can_help_is_left_to_claude() -> None:
    reading, events = read(INIT, retry(error_status=529, error="overloaded"))
    assert events == [Context("claude-opus-5-5"), Notice("Claude tries again (1/10) in 1s: 529: overloaded", "warning")]
    assert reading.failure is None
    wrong = ending(retry(error_status=401, error="authentication_failed"))
    assert (wrong.cause, wrong.permanent) == ("401: authentication_failed (start claude and type /login)", True)
    far = ending(retry(error_status=429, error="rate_limit", retry_delay_ms=900_000))
    assert (far.retry_after, far.permanent, far.outage) == (900, False, False)
    away = ending(retry(error_status=529, error="overloaded", retry_delay_ms=900_000))
    assert (away.retry_after, away.outage) == (900, True)


@pytest.mark.parametrize(
    ("status", "said", "outage"),
    [
        (None, "API Error: Unable to connect to API (ConnectionRefused)", True),
        (None, "API Error: Connection error.", True),
        (529, "API Error: 529 Overloaded. This is a server-side issue, usually temporary.", True),
        (503, "API Error: 503 Service Unavailable", True),
        (429, "You've hit your limit", False),
        (None, "The tests failed.", False),
    ],
)
def test_an_outage_is_told_from_other_errors(status: int | None, said: str, outage: bool) -> None:
    ended = ending({**RESULT, "is_error": True, "api_error_status": status, "result": said})
    assert (ended.ending, ended.outage, ended.permanent) == ("refused", outage, False)


def test_what_was_denied_is_named_with_the_flag() -> None:
    denied = {"type": "system", "subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": "toolu_1"}
    reading, _ = read(
        INIT, call("git push --force"), denied, call("npm test", "toolu_2"), {**denied, "tool_use_id": "toolu_2"}
    )
    assert denials(reading.denied) == (
        "Claude was not allowed to use: Bash(git push:*), Bash(npm test:*). To allow it, end the command with: "
        '-- --allowedTools "Bash(git push:*)" "Bash(npm test:*)"'
    )
    assert denials([]) == ""


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("pytest -q", ["Bash(pytest:*)"]),
        ("", ["Bash"]),
        ("./run.sh a.b", ["Bash(./run.sh:*)"]),
        ("git add . && npm test | tee log; git commit -m x", ["Bash(npm test:*)", "Bash(tee log:*)"]),
    ],
)
def test_rules_name_each_program_and_its_command(command: str, named: list[str]) -> None:
    assert rules("Bash", {"command": command}) == named
    assert rules("WebFetch", {"url": "x"}) == ["WebFetch"]


def test_only_what_the_marathon_needs_is_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    words = " ".join(permissions({"MARATHON_TASK_DIR": str(tmp_path / "task")}, tmp_path))
    assert "--permission-mode acceptEdits" in words
    assert "Bash(git commit:*)" in words
    assert "bypass" not in words
    assert "Bash(pi-marathon:*)" not in words, "then every program could be started through --agent command"
    assert "sandbox" not in words
    assert "--add-dir" not in words, "the task lies in the project"


@pytest.mark.parametrize("record", [{}, {"type": "assistant"}, {"type": "user", "message": {"content": [1, None]}}])
def test_a_record_of_another_form_is_passed_over(record: Record) -> None:
    assert read(record)[1] == []
    for kind in ("system", "stream_event", "result", "rate_limit_event"):
        read({**record, "type": kind})
