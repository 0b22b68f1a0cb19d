"""What the messages of the Agent Client Protocol mean."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from marathon.agents.permissions import Request
from marathon.agents.reading import Failure, failure_of, table_in, tables_in, text_in
from marathon.core.budgets import number_in, usage_in
from marathon.core.events import LONGEST_TEXT, Context, Event, Text, ToolCalled, ToolEnded, Used
from marathon.core.text import one_line

ALLOW = "--allow"  # before the program's own arguments
_NEEDS_LOGIN = -32000
_MODE_UPDATE = "[MODE_UPDATE] "  # gemini puts this into its answer when we choose the mode


@dataclass
class Reading:
    """What the updates of one session say."""

    model: str = ""
    said: str = ""  # the last message
    refused: bool = False  # the last thing that happened
    _part: tuple[str, object] = ("", None)  # the kind and the message of the text that is being written
    _calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)
    _cost: float = 0

    def events(self, update: dict[str, Any]) -> Iterable[Event]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" as kind:
                text = text_in([update.get("content")])
                if text.startswith(_MODE_UPDATE):
                    return
                yield from self.ends_part(kind, update.get("messageId"))
                self.said += text if kind == "agent_message_chunk" else ""
                self.refused = False
                yield Text(text, thinking=kind == "agent_thought_chunk")
            case "tool_call" | "tool_call_update":
                yield from self.ends_part()
                yield from self._call(update)
            case "usage_update":
                size, used = (int(number_in(update.get(name))) for name in ("size", "used"))
                yield Context(self.model, size, used)
                cost = number_in(table_in(update.get("cost")).get("amount"))
                if cost > self._cost:
                    yield Used(usage_in({"cost": cost - self._cost, "model": self.model}))
                    self._cost = cost

    def end(self, result: dict[str, Any], *, sums: bool) -> Iterable[Event]:
        """A prompt was answered. `sums` says whether the usage is that of the whole turn."""
        yield from self.ends_part()
        quota, usage = table_in(table_in(result.get("_meta")).get("quota")), table_in(result.get("usage"))
        counts = table_in(quota.get("token_count"))
        tokens = {
            "input": number_in(counts.get("input_tokens")) or number_in(usage.get("inputTokens")),
            "output": number_in(counts.get("output_tokens")) or number_in(usage.get("outputTokens")),
            "cacheRead": number_in(usage.get("cachedReadTokens")),
            "cacheWrite": number_in(usage.get("cachedWriteTokens")),
        }
        models = [each.get("model") for each in tables_in(quota.get("model_usage"))]
        yield Used(usage_in({**(tokens if sums else {}), "turns": 1, "model": self.model or next(iter(models), "")}))

    def call_of(self, update: dict[str, Any]) -> dict[str, Any]:
        """What is known of a tool call, with what an update adds to it."""
        id = one_line(str(update.get("toolCallId", "")), 200)
        known = self._calls.setdefault(id, {"id": id})
        known.update({name: value for name, value in update.items() if value})
        return known

    def ends_part(self, kind: str = "", message: object = None) -> Iterable[Event]:
        before, self._part = self._part, (kind, message)
        if before != self._part and before[0]:
            yield Text("\n", thinking=before[0] == "agent_thought_chunk")
        if before != self._part and kind == "agent_message_chunk":
            self.said = ""

    def _call(self, update: dict[str, Any]) -> Iterable[Event]:
        call = self.call_of(update)
        id, status = call["id"], call.get("status")
        if status not in ("in_progress", "completed", "failed"):
            return
        called = tool_called(call)
        if id not in self._began:
            self._began[id] = time.monotonic()
            yield called
        if status != "in_progress":
            parts = tables_in(call.get("content"))
            text = text_in([part.get("content") for part in parts])
            diff = "\n".join(_diff(part) for part in parts if part.get("type") == "diff")
            seconds = round(time.monotonic() - self._began[id], 3)
            yield ToolEnded(id, called.name, text, status == "failed", seconds, diff)
            self._calls.pop(id)


def tool_called(call: dict[str, Any]) -> ToolCalled:
    """A call as the log tells it. Its arguments are what the agent gives, else what it shows to humans."""
    kind, title = str(call.get("kind") or "other"), one_line(str(call.get("title") or ""), 300)
    paths = ", ".join(dict.fromkeys(_paths(call)))
    shown = {"command": title} if kind == "execute" else {"path": paths} if paths else {}
    name = {"execute": "shell", "other": title.split(" ")[0] or "tool"}.get(kind, kind)
    return ToolCalled(call["id"], name, {**shown, **table_in(call.get("rawInput"))})


_WHERE = ("workdir", "cwd", "dir_path", "directory")  # as agents name the folder that a command runs in


def request_of(call: dict[str, Any], project: Path) -> Request:
    """What a call would do, as the policy judges it."""
    given = table_in(call.get("rawInput"))
    folders = [folder for name in _WHERE if isinstance(folder := given.get(name), str) and folder]
    paths = tuple(os.path.realpath(project / path.replace("\0", "�")) for path in (*_paths(call), *folders))
    title, command = str(call.get("title") or call.get("kind")), given.get("command")
    return Request(str(call.get("kind")), paths, command if isinstance(command, str) else title)


def denials(agent: str, requests: Iterable[Request], tail: Sequence[str] = ()) -> str:
    """What an agent was not allowed to do, and the flags that would allow its commands, before its own arguments."""
    names = list(dict.fromkeys(request.shown for request in requests))
    rules = dict.fromkeys(rule for request in requests if (rule := request.rule))
    words = [*(word for rule in rules for word in (ALLOW, rule)), *tail]
    cure = f" To allow it, end the command with: -- {shlex.join(words)}"
    return f"{agent} was not allowed to: {', '.join(names)}.{cure if rules else ''}" if names else ""


def _paths(call: dict[str, Any]) -> list[str]:
    places = [*tables_in(call.get("locations")), *tables_in(call.get("content"))]
    return [path.replace("\0", "�") for place in places if isinstance(path := place.get("path"), str)]


def _diff(part: dict[str, Any]) -> str:
    old, new = (str(part.get(name) or "")[:LONGEST_TEXT].splitlines() for name in ("oldText", "newText"))
    return "\n".join([*unified_diff(old, new, n=2, lineterm="")][2:])


def failure_in(error: dict[str, Any]) -> Failure:
    """An error as the agents tell it: an HTTP status as the code, or a kind among the data."""
    number, data = int(number_in(error.get("code"))), table_in(error.get("data"))
    kind = str(data.get("errorKind") or data.get("codexErrorInfo") or "")
    if error.get("code") == _NEEDS_LOGIN:
        kind = "authentication_error"
    said = str(error.get("message") or "Internal error").removeprefix("Internal error: ")
    if said == "Internal error":  # the reason is among the data
        reasons = (data.get("message"), data.get("details"), said)
        said = next(reason for reason in reasons if isinstance(reason, str) and reason)
    return failure_of(said, status=number if 400 <= number < 600 else 0, code=kind)
