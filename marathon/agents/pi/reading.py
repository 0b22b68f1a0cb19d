"""Reads pi's RPC records into events, and how the run ended. Only structured fields count."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from marathon.agents.reading import Failure, failure_of, table_in, text_in
from marathon.core.budgets import BUDGETS, Usage, number_in, usage_in
from marathon.core.events import LONGEST_TEXT, Event, Notice, Output, Text, ToolCalled, ToolEnded, Used, usage_of
from marathon.core.text import one_line, says_complete

LONGEST_RECORD = 64 * 1024 * 1024
LATE = 30.0  # seconds after which the runner ends a pi whose time is over; before that, our extension does it
LOGIN = "check the key: start pi and type /login"
DIALOGS = ("select", "confirm", "input", "editor")


@dataclass
class Run:
    """What pi's records say about one session."""

    settled: bool = False
    aborted: bool = False
    stop_reason: str = ""
    failure: Failure | None = None
    signal: bool = False  # the last message says that everything is done
    usage: Usage = field(default_factory=Usage)
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    dialogs: list[dict[str, Any]] = field(default_factory=list)
    settles: bool = True  # false for versions without agent_settled
    working: bool = False
    clock: Callable[[], float] = time.monotonic
    called: dict[str, float] = field(default_factory=dict)  # the start of each tool call that has not ended
    _partial: bytearray = field(default_factory=bytearray)

    def read(self, line: bytes, complete: bool) -> list[Event]:
        """The events of a record. A very long record comes in pieces, which are put together first."""
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
        events = self._events(record) if isinstance(record, dict) else []
        self.usage = self.usage.plus(usage_of(events))
        return events

    def _events(self, record: dict[str, Any]) -> list[Event]:
        match record.get("type"):
            case "response":
                self.responses[str(record.get("id", ""))] = record
            case "agent_start":
                self.working = True
            case "agent_end" if not self.settles and record.get("willRetry") is not True:
                self.settled = True
            case "agent_settled":
                self.settled = True
                self.aborted = self.aborted or record.get("aborted") is True
            case "message_update":
                return _text(table_in(record.get("assistantMessageEvent")))
            case "message_end":
                return self._message_ended(table_in(record.get("message")))
            case "tool_execution_start":
                id, name = _tool(record)
                self.called[id] = self.clock()
                return [ToolCalled(id, name, table_in(record.get("args")))]
            case "tool_execution_end":
                (id, name), now = _tool(record), self.clock()
                text, failed = text_in(table_in(record.get("result")).get("content")), record.get("isError") is True
                return [ToolEnded(id, name, text, failed, round(now - self.called.pop(id, now), 3))]
            case "auto_retry_start":
                attempt, delay = (
                    f"{record.get('attempt')}/{record.get('maxAttempts')}",
                    number_in(record.get("delayMs")),
                )
                cause = pi_failure(str(record.get("errorMessage", ""))).message
                return [Notice(f"pi tries again ({attempt}) in {delay / 1000:.0f}s: {cause}", "warning")]
            case "auto_retry_end" if record.get("success") is False:
                self.failure = pi_failure(str(record.get("finalError", "")))
            case "compaction_start":
                return [Notice(f"pi compacts its context ({_line(record, 'reason')})")]
            case "compaction_end" if record.get("errorMessage"):
                return [Notice(f"pi could not compact its context: {_line(record, 'errorMessage')}", "warning")]
            case "compaction_end":
                return [_used(table_in(record.get("result")), turns=0)]
            case "extension_error":
                return [Notice(f"An extension of pi failed: {_line(record, 'error')}", "warning")]
            case "extension_ui_request" if record.get("method") in DIALOGS:
                self.dialogs.append(record)
            case "extension_ui_request" if record.get("method") == "notify":
                return [Notice(_line(record, "message"))]
        return []

    def _message_ended(self, message: dict[str, Any]) -> list[Event]:
        if message.get("role") != "assistant":
            return []
        self.stop_reason = str(message.get("stopReason", ""))
        self.failure = pi_failure(str(message.get("errorMessage", ""))) if self.stop_reason == "error" else None
        self.aborted = self.stop_reason == "aborted"
        self.signal = self.stop_reason == "stop" and says_complete(text_in(message.get("content")))
        return [_used(message, turns=1)]


def pi_failure(message: str) -> Failure:
    """The failure in pi's errorMessage."""
    failure = failure_of(message)
    return replace(failure, permanent=True) if message.startswith("No API key") else failure


def used_up(mail: Mapping[str, object]) -> str:
    """Which budget our extension ended the session for, as a cause. Empty if it did not."""
    flag = mail.get("limit")
    return f"{flag} is used up" if flag in [budget.flag for budget in BUDGETS] else ""


def _text(update: dict[str, Any]) -> list[Event]:
    match update.get("type"):
        case "text_delta" | "thinking_delta" as kind:
            return [Text(str(update.get("delta", "")), thinking=kind == "thinking_delta")]
        case "text_end" | "thinking_end" as kind:
            return [Text("\n", thinking=kind == "thinking_end")]
    return []


def _tool(record: dict[str, Any]) -> tuple[str, str]:
    return one_line(str(record.get("toolCallId", ""))), str(record.get("toolName", ""))


def _used(message: dict[str, Any], *, turns: int) -> Used:
    usage, model = table_in(message.get("usage")), message.get("model")
    return Used(usage_in({**usage, "cost": table_in(usage.get("cost")).get("total"), "turns": turns, "model": model}))


def _line(record: dict[str, Any], name: str) -> str:
    return one_line(str(record.get(name, "")), 400)
