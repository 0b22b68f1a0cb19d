"""What the messages of Codex's app server mean. They are as version 0.166.0 wrote them, without what no one reads."""

from __future__ import annotations

import time
from typing import Any

import pytest

from marathon.agents.codex import Reading, for_server
from marathon.core.budgets import Usage
from marathon.core.events import Event, Notice, Text, ToolCalled, ToolEnded, usage_of

Message = tuple[str, dict[str, Any]]
STARTED: Message = ("turn/started", {"turn": {"id": "turn-1"}})
COMMAND = {
    "type": "commandExecution",
    "id": "call_1",
    "command": "/bin/bash -c 'git status'",
    "commandActions": [{"type": "unknown", "command": "git status"}],
}


def read(*messages: Message) -> tuple[Reading, list[Event]]:
    reading = Reading()
    return reading, [event for method, params in messages for event in reading.events(method, params)]


def completed(status: str = "completed", **error: Any) -> Message:
    return "turn/completed", {"turn": {"id": "turn-1", "status": status, "error": error or None}}


def used(inputs: int, cached: int, outputs: int) -> Message:
    total = {"inputTokens": inputs, "cachedInputTokens": cached, "outputTokens": outputs, "cacheWriteInputTokens": 0}
    return "thread/tokenUsage/updated", {"tokenUsage": {"total": total}}


def test_a_turn_as_events() -> None:
    ended = {**COMMAND, "aggregatedOutput": "clean\n", "exitCode": 0, "durationMs": 1500, "status": "completed"}
    message = {"type": "agentMessage", "id": "msg_1", "text": "Let me look."}
    reading, events = read(
        ("thread/started", {"thread": {"id": "t", "model": "gpt-x"}}),
        STARTED,
        ("item/agentMessage/delta", {"itemId": "msg_1", "delta": "Let me look."}),
        ("item/completed", {"item": message}),
        ("item/started", {"item": COMMAND}),
        ("item/completed", {"item": ended}),
        used(1000, 200, 40),
        ("item/completed", {"item": {**message, "id": "msg_2", "text": "All in one."}}),
        used(2000, 400, 80),
        completed(),
    )
    assert events[:4] == [
        Text("Let me look."),
        Text("\n"),
        ToolCalled("call_1", "shell", {"command": "git status"}),
        ToolEnded("call_1", "shell", "clean\n", False, 1.5),
    ]
    assert Text("All in one.\n") in events
    assert usage_of(events) == Usage(input=1600, output=80, cacheRead=400, turns=2, toolCalls=1, model="gpt-x")
    assert (reading.turn, reading.over, reading.ending().ending) == ("turn-1", True, "ended")


@pytest.mark.parametrize(("status", "ending"), [("completed", "ended"), ("interrupted", "left"), ("failed", "refused")])
def test_how_a_turn_ended(status: str, ending: str) -> None:
    assert read(STARTED, completed(status, message="no"))[0].ending().ending == ending


def test_a_usage_limit_is_waited_for_until_it_resets() -> None:
    windows = {"primary": {"usedPercent": 100, "resetsAt": time.time() + 5000}, "secondary": {"usedPercent": 20}}
    failed = completed("failed", message="You’ve hit your usage limit.", codexErrorInfo="usageLimitExceeded")
    reading, _ = read(("account/rateLimits/updated", {"rateLimits": windows}), failed)
    assert reading.ending().retry_after == pytest.approx(5000, abs=60)
    words = "You’ve hit your usage limit. Upgrade, or try again at 8:24 AM."
    reading, _ = read(completed("failed", message=words, codexErrorInfo="usageLimitExceeded"))
    assert 0 < (reading.ending().retry_after or 0) <= 24 * 3600


@pytest.mark.parametrize(
    ("info", "outage"),
    [
        ({"httpConnectionFailed": {"httpStatusCode": None}}, True),
        ({"responseStreamDisconnected": {"httpStatusCode": 502}}, True),
        ("serverOverloaded", True),
        ("usageLimitExceeded", False),
        ("sandboxError", False),
    ],
)
def test_an_outage_is_told_from_other_errors(info: object, outage: bool) -> None:
    reading, _ = read(completed("failed", message="It did not work", codexErrorInfo=info))
    assert reading.ending().outage is outage


def test_an_outage_is_left_to_codex_for_a_minute() -> None:
    """Then the marathon waits, which shows when the next try is, and another agent may take over."""
    now = [0.0]
    reading = Reading(clock=lambda: now[0])

    def fails() -> list[Event]:
        told = {"message": "Reconnecting... 1/5", "additionalDetails": "Connection failed: error sending request"}
        return list(reading.events("error", {"error": told, "willRetry": True}))

    assert fails()
    now[0] = 59
    assert fails()
    list(reading.events("item/agentMessage/delta", {"delta": "I work."}))
    now[0] = 110
    assert fails()
    assert reading.failure is None
    now[0] = 170
    assert not fails()
    assert reading.ending().outage


def test_only_a_retry_that_can_help_is_left_to_codex() -> None:
    def error(status: int | None, details: str) -> Message:
        info = {"responseStreamDisconnected": {"httpStatusCode": status}}
        told = {"message": "Reconnecting... 1/5", "codexErrorInfo": info, "additionalDetails": details}
        return "error", {"error": told, "willRetry": True}

    reading, events = read(STARTED, error(None, "stream disconnected before completion"))
    assert events == [Notice("Codex tries again: stream disconnected before completion", "warning")]
    assert reading.failure is None
    outcome = read(STARTED, error(401, "unexpected status 401 Unauthorized: bad key"))[0].ending()
    assert outcome.permanent
    assert outcome.cause == "unexpected status 401 Unauthorized: bad key (type: codex login)"


def test_a_model_is_told_as_the_app_server_takes_it() -> None:
    assert for_server(("--model", "gpt-x", "-c", "a=1")) == ("-c", 'model="gpt-x"', "-c", "a=1")
    assert for_server(("-c", "a=1", "-m", "gpt-x")) == ("-c", "a=1", "-c", 'model="gpt-x"')


@pytest.mark.parametrize(
    "method", ["item/started", "item/completed", "turn/completed", "error", "account/rateLimits/updated", "other"]
)
def test_a_message_of_another_form_is_passed_over(method: str) -> None:
    for params in ({}, {"item": 1, "turn": [], "error": None, "rateLimits": "x"}, {"item": {"type": "webSearch"}}):
        read((method, params))


def test_what_a_tool_over_mcp_answered_is_told() -> None:
    """As 0.166 writes it."""
    content = [{"type": "text", "text": "The runner of this session is gone."}]
    called = {"type": "mcpToolCall", "id": "c1", "server": "marathon", "tool": "human_feedback", "status": "failed"}
    _, events = read(("item/completed", {"item": {**called, "result": {"content": content}, "error": None}}))
    assert events == [ToolEnded("c1", "marathon.human_feedback", "The runner of this session is gone.", True)]
