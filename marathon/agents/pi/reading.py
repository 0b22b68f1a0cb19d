"""Reads pi's RPC records into events, and how the run ended. Only structured fields count."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from marathon.agents.reading import Failure, failure_of, table_in, text_in
from marathon.core.budgets import BUDGETS, number_in, usage_in
from marathon.core.events import (
    LONGEST_TEXT,
    CompactionBegan,
    CompactionEnded,
    Context,
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
)
from marathon.core.text import one_line, says_complete

LONGEST_RECORD = 64 * 1024 * 1024
LATE = 30.0  # seconds after which the runner ends a pi whose time is over; before that, our extension does it
LOGIN = "check the key: start pi and type /login"
_UPDATE = re.compile(rb'\{"type": ?"tool_execution_update", ?"toolCallId": ?"([^"\\]*)"')
_UPDATE_EVERY = 1.0  # seconds, for each call
_UPDATE_LINES, _LONGEST_UPDATE = 5, 1000
DIALOGS = ("select", "confirm", "input", "editor")


@dataclass
class Run:
    """What pi's records say about one session."""

    settled: bool = False
    aborted: bool = False
    stop_reason: str = ""
    failure: Failure | None = None
    signal: bool = False  # the last message says that everything is done
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    dialogs: list[dict[str, Any]] = field(default_factory=list)
    settles: bool = True  # false for versions without agent_settled
    working: bool = False
    clock: Callable[[], float] = time.monotonic
    called: dict[str, float] = field(default_factory=dict)  # the start of each tool call that has not ended
    _updates: dict[str, bytes] = field(default_factory=dict)  # the last one of each call, if it was not told yet
    _told: dict[str, float] = field(default_factory=dict)  # when a call's update was told last
    _compacting: float = 0.0  # since when
    _partial: bytearray = field(default_factory=bytearray)

    def read(self, line: bytes, complete: bool) -> list[Event]:
        """The events of a record. A very long record comes in pieces, which are put together first."""
        if not complete or self._partial:
            self._partial += line if len(self._partial) < LONGEST_RECORD else b""
            if not complete:
                return []
            line = bytes(self._partial)
            self._partial.clear()
        if update := _UPDATE.match(line):
            self._updates[update[1].decode("utf-8", "replace")] = line
            return self.updates()
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return [Output("out", line[:LONGEST_TEXT].decode("utf-8", "replace"))]
        return self._events(record) if isinstance(record, dict) else []

    def updates(self) -> list[Event]:
        """What running calls printed last, at most once a second for each of them.

        pi sends all that a call has printed with every update, so most updates are not even parsed.
        """
        now, events = self.clock(), list[Event]()
        for id in [id for id in self._updates if now >= self._told.get(id, 0) + _UPDATE_EVERY]:
            with contextlib.suppress(ValueError, RecursionError):
                content = table_in(json.loads(self._updates.pop(id)).get("partialResult")).get("content")
                if tail := text_in(content).rstrip()[-_LONGEST_UPDATE:]:
                    events.append(ToolUpdated(one_line(id), "\n".join(tail.splitlines()[-_UPDATE_LINES:])))
                    self._told[id] = now
        return events

    def _events(self, record: dict[str, Any]) -> list[Event]:
        match record.get("type"):
            case "response":
                self.responses[str(record.get("id", ""))] = record
                if record.get("command") == "get_state":
                    model = table_in(table_in(record.get("data")).get("model"))
                    window = int(number_in(model.get("contextWindow")))
                    return [Context(one_line(str(model.get("id") or ""), 100), window)]
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
                self._updates.pop(id, None)
                self._told.pop(id, None)
                result, failed = table_in(record.get("result")), record.get("isError") is True
                seconds, diff = round(now - self.called.pop(id, now), 3), table_in(result.get("details")).get("diff")
                text = text_in(result.get("content"))
                return [ToolEnded(id, name, text, failed, seconds, diff if isinstance(diff, str) else "")]
            case "auto_retry_start":
                attempt, most, wait = (number_in(record.get(name)) for name in ("attempt", "maxAttempts", "delayMs"))
                cause = pi_failure(str(record.get("errorMessage", ""))).message
                return [RetryBegan(int(attempt), int(most), wait / 1000, cause)]
            case "auto_retry_end":
                error = str(record.get("finalError", ""))
                if record.get("success") is False:
                    self.failure = pi_failure(error)
                    error = self.failure.message or "no attempt succeeded"
                return [RetryEnded(int(number_in(record.get("attempt"))), error)]
            case "compaction_start":
                self._compacting = self.clock()
                return [CompactionBegan(_line(record, "reason"))]
            case "compaction_end":
                return self._compacted(record, table_in(record.get("result")))
            case "entry_appended" if table_in(record.get("entry")).get("type") == "usage":  # a cache was kept warm
                return [_used({"usage": record["entry"].get("usage")}, turns=0)]
            case "extension_error":
                return [Notice(f"An extension of pi failed: {_line(record, 'error')}", "warning")]
            case "extension_ui_request" if record.get("method") in DIALOGS:
                self.dialogs.append(record)
            case "extension_ui_request" if record.get("method") == "notify":
                return [Notice(_line(record, "message"))]
        return []

    def _compacted(self, record: dict[str, Any], result: dict[str, Any]) -> list[Event]:
        error = _line(record, "errorMessage") or ("it was stopped" if record.get("aborted") is True else "")
        before, after = (int(number_in(result.get(name))) for name in ("tokensBefore", "estimatedTokensAfter"))
        seconds = round(self.clock() - (self._compacting or self.clock()), 3)
        ended = CompactionEnded(before, after, seconds, error)
        return [ended] if error else [_used(result, turns=0), ended]

    def _message_ended(self, message: dict[str, Any]) -> list[Event]:
        if message.get("role") == "toolResult" and "usage" in message:  # of models that the tool asked
            return [_used(message, turns=0)]
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
