"""Reads pi's RPC records into events, and how the run ended. Judged from structured fields only."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from marathon.agents.reading import Failure, failure_of, table_in, text_in
from marathon.core.budgets import Usage, number_in, usage_in
from marathon.core.events import LONGEST_TEXT, Event, Notice, Output, Text, ToolCalled, ToolEnded, Used, usage_of
from marathon.core.text import one_line, says_complete

LONGEST_RECORD = 64 * 1024 * 1024
LOGIN = "check the key: start pi and type /login"
DIALOGS = ("select", "confirm", "input", "editor")


@dataclass
class Run:
    """One run of the agent as its records tell it; a new one for each session."""

    settled: bool = False
    aborted: bool = False
    stop_reason: str = ""
    failure: Failure | None = None
    signal: bool = False  # the last message says that all is done
    usage: Usage = field(default_factory=Usage)
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    dialogs: list[dict[str, Any]] = field(default_factory=list)
    settles: bool = True  # false for versions without agent_settled
    working: bool = False
    clock: Callable[[], float] = time.monotonic
    called: dict[str, float] = field(default_factory=dict)  # when each tool call began that has not ended
    _partial: bytearray = field(default_factory=bytearray)

    def read(self, line: bytes, complete: bool) -> list[Event]:
        """What a record tells, once it is whole; the pieces of an overlong line are put together first."""
        if not complete or self._partial:
            self._partial += line if len(self._partial) < LONGEST_RECORD else b""
            if not complete:
                return []
            line = bytes(self._partial)
            self._partial.clear()
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return [Output("out", line[:LONGEST_TEXT].decode("utf-8", "replace"))]
        reader = _READERS.get(str(record.get("type"))) if isinstance(record, dict) else None
        events = reader(self, record) if reader else []
        self.usage = self.usage.plus(usage_of(events))
        return events


def pi_failure(message: str) -> Failure:
    """From pi's errorMessage."""
    failure = failure_of(message)
    return replace(failure, permanent=True) if message.startswith("No API key") else failure


def _response(run: Run, record: dict[str, Any]) -> list[Event]:
    run.responses[str(record.get("id", ""))] = record
    return []


def _message_update(run: Run, record: dict[str, Any]) -> list[Event]:
    update = table_in(record.get("assistantMessageEvent"))
    match update.get("type"):
        case "text_delta":
            return [Text(str(update.get("delta", "")))]
        case "thinking_delta":
            return [Text(str(update.get("delta", "")), thinking=True)]
        case "text_end" | "thinking_end":
            return [Text("\n", thinking=update.get("type") == "thinking_end")]
    return []


def _message_end(run: Run, record: dict[str, Any]) -> list[Event]:
    message = table_in(record.get("message"))
    if message.get("role") != "assistant":
        return []
    run.stop_reason = str(message.get("stopReason", ""))
    run.failure = pi_failure(str(message.get("errorMessage", ""))) if run.stop_reason == "error" else None
    run.aborted = run.stop_reason == "aborted"
    run.signal = run.stop_reason == "stop" and says_complete(text_in(message.get("content")))
    return [_used(message.get("usage"), turns=1, model=message.get("model"))]


def _tool_start(run: Run, record: dict[str, Any]) -> list[Event]:
    call = ToolCalled(_id(record), str(record.get("toolName", "")), table_in(record.get("args")))
    run.called[call.id] = run.clock()
    return [call]


def _tool_end(run: Run, record: dict[str, Any]) -> list[Event]:
    now, text = run.clock(), text_in(table_in(record.get("result")).get("content"))
    seconds = round(now - run.called.pop(_id(record), now), 3)
    return [ToolEnded(_id(record), str(record.get("toolName", "")), text, record.get("isError") is True, seconds)]


def _retry(run: Run, record: dict[str, Any]) -> list[Event]:
    seconds = number_in(record.get("delayMs")) / 1000
    attempt = f"{record.get('attempt')}/{record.get('maxAttempts')}"
    cause = pi_failure(str(record.get("errorMessage", ""))).message
    return [Notice(f"pi tries again ({attempt}) in {seconds:.0f}s: {cause}", "warning")]


def _retry_end(run: Run, record: dict[str, Any]) -> list[Event]:
    if record.get("success") is False:
        run.failure = pi_failure(str(record.get("finalError", "")))
    return []


def _compaction(run: Run, record: dict[str, Any]) -> list[Event]:
    return [Notice(f"pi compacts its context ({one_line(str(record.get('reason', '')), 40)})")]


def _compaction_end(run: Run, record: dict[str, Any]) -> list[Event]:
    if record.get("errorMessage"):
        return [Notice(f"pi could not compact its context: {one_line(str(record['errorMessage']), 200)}", "warning")]
    return [_used(table_in(record.get("result")).get("usage"), turns=0, model="")]


def _agent_start(run: Run, record: dict[str, Any]) -> list[Event]:
    run.working = True
    return []


def _agent_end(run: Run, record: dict[str, Any]) -> list[Event]:
    """Only where a version has no agent_settled is this the end."""
    run.settled = run.settled or (not run.settles and record.get("willRetry") is not True)
    return []


def _settled(run: Run, record: dict[str, Any]) -> list[Event]:
    run.settled = True
    run.aborted = run.aborted or record.get("aborted") is True
    return []


def _extension_error(run: Run, record: dict[str, Any]) -> list[Event]:
    return [Notice(f"An extension of pi failed: {one_line(str(record.get('error', '')), 200)}", "warning")]


def _ui_request(run: Run, record: dict[str, Any]) -> list[Event]:
    if record.get("method") in DIALOGS:
        run.dialogs.append(record)
    elif record.get("method") == "notify":
        return [Notice(one_line(str(record.get("message", "")), 400))]
    return []


_READERS: dict[str, Callable[[Run, dict[str, Any]], list[Event]]] = {
    "response": _response,
    "message_update": _message_update,
    "message_end": _message_end,
    "tool_execution_start": _tool_start,
    "tool_execution_end": _tool_end,
    "auto_retry_start": _retry,
    "auto_retry_end": _retry_end,
    "compaction_start": _compaction,
    "compaction_end": _compaction_end,
    "agent_start": _agent_start,
    "agent_end": _agent_end,
    "agent_settled": _settled,
    "extension_error": _extension_error,
    "extension_ui_request": _ui_request,
}


def _used(raw: Any, *, turns: int, model: Any) -> Used:
    used = table_in(raw)
    return Used(usage_in({**used, "cost": table_in(used.get("cost")).get("total"), "turns": turns, "model": model}))


def _id(record: dict[str, Any]) -> str:
    return one_line(str(record.get("toolCallId", "")), 200)
