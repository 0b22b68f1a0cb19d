"""Reads pi's RPC records: what to show, what was used, how the run ended. Pure; judged from structured fields only."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from marathon.agents.pi.failures import Failure, failure_of
from marathon.core.events import Event, Said, Told, ToolEnded, ToolStarted
from marathon.core.text import one_line, says_complete
from marathon.core.usage import Usage

LONGEST_RECORD = 64 * 1024 * 1024
DIALOGS = ("select", "confirm", "input", "editor")
_TELLING_ARGUMENTS = ("command", "path", "file_path", "pattern", "query", "url")


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
    _partial: bytearray = field(default_factory=bytearray)

    def read(self, line: bytes, complete: bool) -> tuple[bytes | None, list[Event]]:
        """A whole record, once it is whole, and what it shows; pieces of an overlong line are put together first."""
        if not complete or self._partial:
            self._partial += line if len(self._partial) < LONGEST_RECORD else b""
            if not complete:
                return None, []
            line = bytes(self._partial)
            self._partial.clear()
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return line, []
        reader = _READERS.get(str(record.get("type"))) if isinstance(record, dict) else None
        return line, reader(self, record) if reader else []


def _response(run: Run, record: dict[str, Any]) -> list[Event]:
    run.responses[str(record.get("id", ""))] = record
    return []


def _message_update(run: Run, record: dict[str, Any]) -> list[Event]:
    update = _table(record.get("assistantMessageEvent"))
    match update.get("type"):
        case "text_delta":
            return [Said(str(update.get("delta", "")))]
        case "thinking_delta":
            return [Said(str(update.get("delta", "")), thinking=True)]
        case "text_end" | "thinking_end":
            return [Said("\n", thinking=update.get("type") == "thinking_end")]
    return []


def _message_end(run: Run, record: dict[str, Any]) -> list[Event]:
    message = _table(record.get("message"))
    if message.get("role") != "assistant":
        return []
    run.stop_reason = str(message.get("stopReason", ""))
    run.usage = run.usage.plus(_usage(message.get("usage"), turns=1, model=str(message.get("model", ""))))
    run.failure = failure_of(str(message.get("errorMessage", ""))) if run.stop_reason == "error" else None
    run.aborted = run.stop_reason == "aborted"
    run.signal = run.stop_reason == "stop" and says_complete(_text(message.get("content")))
    return []


def _tool_start(run: Run, record: dict[str, Any]) -> list[Event]:
    run.usage = run.usage.plus(Usage(toolCalls=1))
    return [ToolStarted(str(record.get("toolName", "")), _arguments(record.get("args")))]


def _tool_end(run: Run, record: dict[str, Any]) -> list[Event]:
    text = _text(_table(record.get("result")).get("content"))
    return [ToolEnded(str(record.get("toolName", "")), text, failed=record.get("isError") is True)]


def _retry(run: Run, record: dict[str, Any]) -> list[Event]:
    seconds = _number(record.get("delayMs")) / 1000
    attempt = f"{record.get('attempt')}/{record.get('maxAttempts')}"
    cause = failure_of(str(record.get("errorMessage", ""))).message
    return [Told(f"pi tries again ({attempt}) in {seconds:.0f}s: {cause}", "warning")]


def _retry_end(run: Run, record: dict[str, Any]) -> list[Event]:
    if record.get("success") is False:
        run.failure = failure_of(str(record.get("finalError", "")))
    return []


def _compaction(run: Run, record: dict[str, Any]) -> list[Event]:
    return [Told(f"pi compacts its context ({one_line(str(record.get('reason', '')), 40)})")]


def _compaction_end(run: Run, record: dict[str, Any]) -> list[Event]:
    run.usage = run.usage.plus(_usage(_table(record.get("result")).get("usage"), turns=0, model=""))
    return []


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
    return [Told(f"An extension of pi failed: {one_line(str(record.get('error', '')), 200)}", "warning")]


def _ui_request(run: Run, record: dict[str, Any]) -> list[Event]:
    if record.get("method") in DIALOGS:
        run.dialogs.append(record)
    elif record.get("method") == "notify":
        return [Told(one_line(str(record.get("message", "")), 400))]
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


def _usage(raw: Any, *, turns: int, model: str) -> Usage:
    used = _table(raw)
    return usage_in({**used, "cost": _table(used.get("cost")).get("total"), "turns": turns, "model": model})


def usage_in(used: dict[str, Any]) -> Usage:
    """A usage out of an untrusted table; what is no number counts as nothing."""
    counted = ("input", "output", "cacheRead", "cacheWrite", "turns", "toolCalls")
    counts = {name: int(_number(used.get(name))) for name in counted}
    return Usage(**counts, cost=_number(used.get("cost")), model=one_line(str(used.get("model") or ""), 100))


def _arguments(args: Any) -> str:
    """A tool's arguments on one line: the one that tells most, or all of them as JSON."""
    table = _table(args)
    for key in _TELLING_ARGUMENTS:
        if isinstance(table.get(key), str):
            return one_line(table[key], 200)
    return one_line(json.dumps(table, ensure_ascii=False), 200) if table else ""


def _text(content: Any) -> str:
    """The text of a message; what it thinks, calls and shows is not said."""
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    """A number that can be added up; anything else, infinity included, is 0."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if fits else 0.0
