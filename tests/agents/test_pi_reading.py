"""pi's RPC records as 0.87.1 prints them: what they show, what they add up to, and when a run is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marathon.agents.pi.reading import LONGEST_RECORD, Run
from marathon.core.budgets import Usage, usage_in
from marathon.core.events import (
    CompactionBegan,
    CompactionEnded,
    Event,
    Notice,
    Output,
    RetryBegan,
    RetryEnded,
    Text,
    ToolCalled,
    ToolEnded,
    ToolUpdated,
    Used,
    usage_of,
)
from marathon.process.output import LINE_LIMIT as LIMIT
from marathon.process.output import Framer

Json = dict[str, Any]

NO_USAGE: Json = {
    **{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0},
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}
USAGE: Json = {
    **{"input": 800, "output": 40, "cacheRead": 200, "cacheWrite": 0, "reasoning": 0, "totalTokens": 1040},
    "cost": {"input": 0.0024, "output": 0.0006, "cacheRead": 0.00006, "cacheWrite": 0, "total": 0.00306},
}
LIMITED = '429: {"message":"Rate limit reached","type":"rate_limit_exceeded","code":"rate_limit_exceeded"}'
SETTLED: Json = {"type": "agent_settled"}


def update(**event: Any) -> Json:
    return {"type": "message_update", "usage": NO_USAGE, "assistantMessageEvent": {"contentIndex": 0, **event}}


def ended(stop_reason: str = "stop", usage: Any = USAGE, **more: Any) -> Json:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done."}],
        "api": "openai-completions",
        "provider": "lab",
        "model": "scripted",
        "usage": usage,
        "stopReason": stop_reason,
        "timestamp": 1794798615835,
        **more,
    }
    return {"type": "message_end", "message": message}


def failed(error: str) -> Json:
    return ended("error", NO_USAGE, content=[], errorMessage=error)


def tool_end(text: Any = "out", *, failed: bool = False, id: str = "c") -> Json:
    result = {"content": [{"type": "text", "text": text}]}
    return {"type": "tool_execution_end", "toolCallId": id, "toolName": "bash", "result": result, "isError": failed}


def tool_start(name: str, args: Any, id: str = "c") -> Json:
    return {"type": "tool_execution_start", "toolCallId": id, "toolName": name, "args": args}


def read(run: Run, *records: Json) -> list[Event]:
    shown: list[Event] = []
    for record in records:
        shown += run.read(json.dumps(record).encode(), True)
    return shown


# What is shown


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"id": "m1", "type": "response", "command": "prompt", "success": True}, []),
        ({"type": "agent_start"}, []),
        ({"type": "turn_start"}, []),
        ({"type": "message_start", "message": {"role": "assistant", "content": [], "stopReason": "pending"}}, []),
        (update(type="text_start"), []),
        (update(type="text_delta", delta="Chu"), [Text("Chu")]),
        (update(type="text_end", content="Chunk done."), [Text("\n")]),
        (update(type="thinking_start"), []),
        (update(type="thinking_delta", delta="Hm"), [Text("Hm", thinking=True)]),
        (update(type="thinking_end", content="Hm."), [Text("\n", thinking=True)]),
        (update(type="toolcall_start", id="call_1", toolName="bash"), []),
        (update(type="toolcall_delta", delta='{"command": "ec'), []),
        (update(type="toolcall_end", toolCall={"type": "toolCall", "name": "bash", "arguments": {}}), []),
        (
            tool_start("bash", {"command": "echo\n  1", "timeout": 5}),
            [ToolCalled("c", "bash", {"command": "echo\n  1", "timeout": 5})],
        ),
        (
            tool_start("write", {"content": "text", "path": "a.py"}),
            [ToolCalled("c", "write", {"content": "text", "path": "a.py"})],
        ),
        (tool_start("ls", None), [ToolCalled("c", "ls")]),
        (tool_end("(no output)"), [ToolEnded("c", "bash", "(no output)")]),
        (tool_end("boom", failed=True), [ToolEnded("c", "bash", "boom", failed=True)]),
        (
            {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "500: x"},
            [RetryBegan(1, 3, 2.0, "500: x")],
        ),
        ({"type": "auto_retry_end", "success": True, "attempt": 2}, [RetryEnded(2)]),
        ({"type": "auto_retry_end", "success": False, "attempt": 3, "finalError": "500: x"}, [RetryEnded(3, "500: x")]),
        ({"type": "compaction_start", "reason": "threshold"}, [CompactionBegan("threshold")]),
        (
            {"type": "compaction_end", "reason": "threshold", "aborted": False, "errorMessage": "too\nlong"},
            [CompactionEnded(error="too long")],
        ),
        (
            {"type": "extension_error", "extensionPath": "x.ts", "event": "agent_end", "error": "x is\nnull"},
            [Notice("An extension of pi failed: x is null", "warning")],
        ),
        ({"type": "extension_ui_request", "id": "u", "method": "notify", "message": "Hello"}, [Notice("Hello")]),
        ({"type": "extension_ui_request", "id": "u", "method": "setStatus", "statusKey": "k", "statusText": "t"}, []),
        ({"type": "extension_ui_request", "id": "u", "method": "setWidget", "widgetKey": "k"}, []),
        ({"type": "queue_update", "steering": ["x"], "followUp": []}, []),
        ({"type": "entry_appended", "entry": {"type": "context_edit", "replacement": None}}, []),
        ({"type": "something_new_in_a_later_version", "field": [1, 2]}, []),
        (SETTLED, []),
    ],
    ids=lambda value: str(value.get("type", "")) if isinstance(value, dict) else "",
)
def test_each_record_shows_what_a_human_wants_to_see(record: Json, shown: list[Event]) -> None:
    assert read(Run(), record) == shown


def test_the_parts_of_a_tools_result_are_put_together_and_images_left_out() -> None:
    record = tool_end()
    record["result"]["content"] = [
        {"type": "text", "text": "one"},
        {"type": "image", "data": "AAAA"},
        {"type": "text", "text": "two"},
    ]
    (shown,) = read(Run(), record)
    assert isinstance(shown, ToolEnded)
    assert shown.text.split() == ["one", "two"]


def test_calls_that_overlap_are_told_apart_by_their_ids_and_each_is_timed() -> None:
    times = iter([10.0, 11.0, 14.0, 16.5])
    run = Run(clock=lambda: next(times))
    first, second = tool_start("bash", {"command": "a"}, "1"), tool_start("bash", {"command": "b"}, "2")
    events = read(run, first, second, tool_end("of b", id="2"), tool_end("of a", id="1"))
    assert events[2:] == [ToolEnded("2", "bash", "of b", seconds=3.0), ToolEnded("1", "bash", "of a", seconds=6.5)]
    assert run.called == {}


def test_of_what_a_call_prints_the_last_lines_are_told_once_a_second() -> None:
    now = 10.0
    run = Run(clock=lambda: now)

    def printed(lines: int, id: str = "1") -> Json:
        text = "".join(f"line {number}\n" for number in range(lines))
        about = {"type": "tool_execution_update", "toolCallId": id, "toolName": "bash", "args": {}}
        return {**about, "partialResult": {"content": [{"type": "text", "text": text}]}}

    def told(*records: Json) -> list[Event]:
        lines = [json.dumps(record, separators=(",", ":")).encode() for record in records]
        return [event for line in lines for event in run.read(line, True)]

    now = 11.0
    assert told(tool_start("bash", {}, "1"), printed(0))[1:] == []
    now = 11.5
    assert told(printed(2), printed(3), printed(1, "2")) == [
        ToolUpdated("1", "line 0\nline 1"),
        ToolUpdated("2", "line 0"),
    ]
    now = 12.0
    assert run.updates() == []
    now = 12.6
    assert run.updates() == [ToolUpdated("1", "line 0\nline 1\nline 2")]  # the last one is not lost
    assert run.updates() == []
    now = 14.0
    (event,) = told(printed(100_000))
    assert event == ToolUpdated("1", "\n".join(f"line {number}" for number in range(99_995, 100_000)))
    told(tool_end(id="1"), tool_end(id="2"))
    assert not run._updates
    assert not run._told


def test_a_compaction_tells_how_long_it_took_and_what_it_saved() -> None:
    times = iter([10.0, 12.5, 12.5])
    run = Run(clock=lambda: next(times))
    result = {"summary": "…", "tokensBefore": 1988, "estimatedTokensAfter": 1597, "usage": USAGE}
    events = read(run, {"type": "compaction_start"}, {"type": "compaction_end", "result": result, "aborted": False})
    assert events[-1] == CompactionEnded(1988, 1597, 2.5)


# Garbage


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"not json at all",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"{}",
        b'{"type":null}',
        b'{"type":["message_end"]}',
        b'{"type":"message_end"}',
        b'{"type":"message_end","message":null}',
        b'{"type":"message_end","message":{"role":"assistant"}}',
        b'{"type":"message_update","assistantMessageEvent":[1]}',
        b'{"type":"message_update"}',
        b'{"type":"tool_execution_start"}',
        b'{"type":"tool_execution_end","result":{"content":"text"}}',
        b'{"type":"tool_execution_end","result":{"content":[null,1,{"text":2}]}}',
        b'{"type":"auto_retry_start"}',
        b'{"type":"auto_retry_end"}',
        b'{"type":"compaction_end","result":null,"aborted":true}',
        b'{"type":"extension_ui_request"}',
        b"\xff\xfe\x00",
        '{"type":"agent_settled"}'.encode("utf-16")[3:],
        b"[" * 100_000,
        b'{"type":' + b"1" * 10_000 + b"}",
    ],
    ids=lambda line: repr(line[:40]),
)
def test_garbage_harms_nothing(line: bytes) -> None:
    run = Run()
    assert all(not isinstance(event, Text) for event in run.read(line, True))
    assert not run.settled
    assert not run.aborted
    assert run.failure is None
    assert read(run, update(type="text_delta", delta="still here")) == [Text("still here")]


# Long records


def test_a_record_longer_than_a_line_may_be_is_put_together_from_its_pieces() -> None:
    long = json.dumps(tool_end("x" * (5 * LIMIT)), separators=(",", ":")).encode()
    run, framer = Run(), Framer()
    read_of_it = [run.read(piece, complete) for piece, complete in framer.feed(long + b"\n")]
    assert read_of_it[:-1] == [[]] * 5
    (shown,) = read_of_it[-1]
    assert isinstance(shown, ToolEnded)
    assert len(shown.text) == 5 * LIMIT
    assert read(run, update(type="text_delta", delta="next")) == [Text("next")]


def test_an_endless_line_is_held_only_so_far() -> None:
    run, piece = Run(), b"x" * (8 * 1024 * 1024)
    for _ in range(LONGEST_RECORD // len(piece) + 4):
        assert run.read(piece, False) == []
    (said,) = run.read(b"end", True)
    assert isinstance(said, Output)
    assert len(said.text) < 100_000
    assert read(run, SETTLED) == []
    assert run.settled


# What was used


def test_usage_is_the_sum_over_the_assistants_messages_and_tool_calls() -> None:
    run = Run()
    user: Json = {"type": "message_end", "message": {"role": "user", "content": [], "usage": USAGE}}
    result: Json = {"type": "message_end", "message": {"role": "toolResult", "content": []}}
    used = usage_of(read(run, user, ended("toolUse"), tool_start("bash", {}), tool_start("bash", {}), result, ended()))
    assert used.cost == pytest.approx(0.00612)
    expected = Usage(input=1600, output=80, cacheRead=400, cost=used.cost, turns=2, toolCalls=2, model="scripted")
    assert used == expected
    assert used.tokens == 2080


def test_what_a_tools_models_and_a_warm_cache_used_counts() -> None:
    result: Json = {"type": "message_end", "message": {"role": "toolResult", "usage": USAGE}}
    warm: Json = {"type": "entry_appended", "entry": {"type": "usage", "kind": "cache_warm", "usage": USAGE}}
    other: Json = {"type": "entry_appended", "entry": {"type": "context_edit", "targetId": "a"}}
    used = usage_of(read(Run(), ended("toolUse"), result, warm, other))
    assert (used.turns, used.input) == (1, 2400)
    assert used.cost == pytest.approx(3 * 0.00306)


def test_a_compaction_comes_with_its_usage() -> None:
    run = Run()
    result = {"summary": "…", "usage": USAGE}
    events = read(run, ended("toolUse"), tool_start("bash", {}), {"type": "compaction_end", "result": result}, ended())
    assert [type(event) for event in events] == [Used, ToolCalled, Used, CompactionEnded, Used]
    used = usage_of(events)
    assert (used.turns, used.toolCalls, used.input) == (2, 1, 2400)


def test_what_the_updates_and_the_turns_end_repeat_is_not_counted_again() -> None:
    run = Run()
    turn_end = {**ended(), "type": "turn_end", "toolResults": []}
    agent_end = {"type": "agent_end", "messages": [ended()["message"]], "willRetry": False}
    events = read(run, {**update(type="text_delta", delta="x"), "usage": USAGE}, ended(), turn_end, agent_end, SETTLED)
    assert [event.usage.input for event in events if isinstance(event, Used)] == [800]


def test_compaction_costs_tokens_but_is_no_turn() -> None:
    run = Run()
    result = {"summary": "…", "tokensBefore": 1988, "usage": USAGE, "details": {}}
    compacted = {"type": "compaction_end", "reason": "overflow", "result": result, "aborted": False, "willRetry": True}
    used = usage_of(read(run, ended(), compacted, ended()))
    assert (used.turns, used.input, used.model) == (2, 2400, "scripted")
    assert used.cost == pytest.approx(3 * 0.00306)


def test_a_retried_attempt_that_used_tokens_counts() -> None:
    run = Run()
    used = usage_of(read(run, ended("error", USAGE, errorMessage="terminated"), ended()))
    assert (used.turns, used.input) == (2, 1600)


@pytest.mark.parametrize(
    ("used", "counted"),
    [
        ({}, Usage()),
        ({"input": 5, "output": 7.9, "cost": 0.5, "model": "m"}, Usage(input=5, output=7, cost=0.5, model="m")),
        ({"input": "5", "output": None, "cost": [], "turns": {}}, Usage()),
        ({"input": True, "turns": -3, "cost": -1.0}, Usage()),
        ({"input": 1e300, "output": float("inf"), "cost": float("nan")}, Usage()),
        ({"model": "evil\x1b[2J\nname"}, Usage(model="evil name")),
        ({"model": None, "unknown": 9}, Usage()),
    ],
)
def test_what_is_no_number_counts_as_nothing(used: Json, counted: Usage) -> None:
    assert usage_in(used) == counted


# How it ended


def test_a_run_is_over_when_it_is_settled_and_not_before() -> None:
    run = Run()
    read(run, {"type": "agent_start"})
    assert (run.working, run.settled) == (True, False)
    read(run, ended(), {"type": "agent_end", "messages": [], "willRetry": False})
    assert not run.settled
    read(run, SETTLED)
    assert (run.settled, run.stop_reason, run.failure, run.aborted) == (True, "stop", None, False)


@pytest.mark.parametrize(("end", "over"), [({}, True), ({"willRetry": False}, True), ({"willRetry": True}, False)])
def test_a_version_that_does_not_settle_is_over_with_the_agents_end(end: Json, over: bool) -> None:
    run = Run(settles=False)
    read(run, ended(), {"type": "agent_end", "messages": [], **end})
    assert run.settled is over


@pytest.mark.parametrize(
    "records",
    [
        [ended("aborted", NO_USAGE), SETTLED],
        [ended("aborted", NO_USAGE, errorMessage="Request was aborted"), SETTLED],
        [ended(), {**SETTLED, "aborted": True}],
    ],
    ids=["by its last message", "with a message of its own", "by the mark of 1.1.0"],
)
def test_an_aborted_run_is_no_failure(records: list[Json]) -> None:
    run = Run()
    read(run, *records)
    assert (run.aborted, run.settled, run.failure) == (True, True, None)


def test_a_message_aborted_and_then_steered_on_is_not_aborted() -> None:
    run = Run()
    read(run, ended("aborted"), ended(), {**SETTLED, "aborted": False})
    assert not run.aborted


def retry(attempt: int) -> Json:
    return {"type": "auto_retry_start", "attempt": attempt, "maxAttempts": 3, "delayMs": 100, "errorMessage": LIMITED}


def test_a_retry_that_works_leaves_no_failure() -> None:
    run = Run()
    again = {"type": "agent_end", "messages": [], "willRetry": True}
    shown = read(run, failed(LIMITED), again, retry(1), {"type": "agent_start"})
    assert [type(event) for event in shown] == [Used, RetryBegan]
    assert (run.failure is None, run.settled) == (False, False)
    read(run, ended(), {"type": "auto_retry_end", "success": True, "attempt": 1}, SETTLED)
    assert (run.failure, run.settled, run.stop_reason) == (None, True, "stop")


def test_a_retry_that_fails_in_the_end_is_the_failure() -> None:
    run = Run()
    read(run, failed("terminated"), retry(1), failed("terminated"))
    read(run, {"type": "auto_retry_end", "success": False, "attempt": 3, "finalError": LIMITED}, SETTLED)
    assert run.settled
    assert run.failure is not None
    assert (run.failure.message, run.failure.permanent) == ("429: Rate limit reached", False)


def test_an_error_is_only_what_pi_calls_one() -> None:
    """Text that looks like an error, wherever it stands, is text."""
    run = Run()
    words = "401: invalid_api_key, insufficient_quota; try again in 20s"
    lookalike = ended(content=[{"type": "text", "text": words}], errorMessage=words)
    read(run, update(type="text_delta", delta=words), tool_end(words, failed=True), lookalike, SETTLED)
    assert (run.failure, run.stop_reason) == (None, "stop")


# Responses and dialogs


def test_responses_are_kept_by_the_id_of_their_request() -> None:
    run = Run()
    refused: Json = {"id": "m2", "type": "response", "command": "prompt", "success": False, "error": "busy"}
    read(run, {"id": "m1", "type": "response", "command": "new_session", "success": True, "data": {}}, refused)
    assert run.responses["m1"]["success"] is True
    assert run.responses["m2"]["error"] == "busy"
    read(run, {"type": "response", "command": "parse", "success": False})
    assert set(run.responses) == {"m1", "m2", ""}


@pytest.mark.parametrize("method", ["select", "confirm", "input", "editor"])
def test_what_an_extension_asks_waits_to_be_answered(method: str) -> None:
    run = Run()
    asked: Json = {"type": "extension_ui_request", "id": "u1", "method": method, "title": "Which?"}
    assert read(run, asked, {**asked, "id": "u2"}) == []
    assert [dialog["id"] for dialog in run.dialogs] == ["u1", "u2"]


@pytest.mark.parametrize(
    ("said", "signal"),
    [
        ("All done.\n<loop-complete>", True),
        ("<loop-complete>\nand a last word", True),
        ("I shall say <loop-complete> when I am done.", False),
        ("`<loop-complete>`", False),
        ("", False),
    ],
)
def test_the_mark_counts_on_a_line_of_its_own(said: str, signal: bool) -> None:
    run = Run()
    run.read(json.dumps(ended(content=[{"type": "text", "text": said}])).encode(), True)
    assert run.signal is signal


def test_only_the_last_message_can_be_the_signal() -> None:
    run = Run()
    marked = [{"type": "text", "text": "<loop-complete>"}]
    for record in (
        tool_end("<loop-complete>"),
        {"type": "message_end", "message": {"role": "user", "content": marked}},
        ended(content=[{"type": "thinking", "thinking": "<loop-complete>"}]),
        ended("toolUse", content=marked),
    ):
        run.read(json.dumps(record).encode(), True)
        assert run.signal is False
    run.read(json.dumps(ended(content=marked)).encode(), True)
    assert run.signal is True
    run.read(json.dumps(ended(content=[{"type": "text", "text": "One more thing."}])).encode(), True)
    assert run.signal is False
