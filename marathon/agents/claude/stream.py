"""Claude Code in print mode with JSON lines both ways, so the human can steer it and its records say how it ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from marathon.agents.base import Host, Outcome, failed_outcome
from marathon.agents.conversation import OneSession
from marathon.agents.programs import Program, ProgramAgent
from marathon.agents.reading import Failure, failure_of, table_in, tables_in, text_in
from marathon.core.budgets import Usage, number_in, usage_in
from marathon.core.events import Context, Event, Notice, Text, ToolCalled, ToolEnded, Used
from marathon.core.life import Steer
from marathon.core.text import one_line, says_complete
from marathon.git.changes import folders_beside
from marathon.process.sandbox import WRAP
from marathon.store.files import read_regular
from marathon.store.places import states_folder

_LOG_IN = "start claude and type /login"
CLAUDE = Program("claude", "npm install -g @anthropic-ai/claude-code", ("auth", "status"), _LOG_IN, "2.1.325")
# Edits are accepted, and exactly these commands. Everything else needs the sandbox, or a flag of the human.
ALLOWED = (
    "Bash(pi-marathon wait:*)",
    "Bash(pi-marathon ask:*)",
    "Bash(pi-marathon status:*)",
    "Bash(git add:*)",
    "Bash(git commit:*)",
    # Our tools over MCP, as `claude mcp add marathon -- pi-marathon mcp` names them. None of them answers a gate.
    *(f"mcp__marathon__{name}" for name in ("marathon_wait", "human_feedback", "marathon_status")),
)
# Its tools, as the init record of 2.1.325 lists them, with those that come when others are denied. A name that Claude
# does not know it passes over, so we refuse it.
TOOLS = (
    *("Agent", "Bash", "CronCreate", "CronDelete", "CronList", "Edit", "EnterWorktree", "ExitWorktree", "Glob", "Grep"),
    *("ListAgents", "Monitor", "NotebookEdit", "Read", "RemoteTrigger", "ReportFindings", "ScheduleWakeup"),
    *("SendMessage", "Skill", "Task", "TaskStop", "ToolSearch", "WebFetch", "WebSearch", "Workflow", "Write"),
)
TOOL_NAMES = {  # as every phase may name them
    **{"bash": "Bash", "read": "Read", "write": "Write", "edit": "Edit"},
    **{"grep": "Grep", "find": "Glob", "web_search": "WebSearch"},
}
_ONLY, _NOT = "--tools", "--disallowedTools"
_JSON = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
_SPEAKS = (*_JSON, "--replay-user-messages", "--include-partial-messages")
_LONGEST_PAUSE = 60.0  # seconds that Claude may wait inside a session before it tries again
_TOKENS = {  # as a message and as the total of a model name them
    "input": ("input_tokens", "inputTokens"),
    "output": ("output_tokens", "outputTokens"),
    "cacheRead": ("cache_read_input_tokens", "cacheReadInputTokens"),
    "cacheWrite": ("cache_creation_input_tokens", "cacheCreationInputTokens"),
}


def has_sandbox() -> bool:
    return all(map(shutil.which, ("bwrap", "socat")))


def permissions(env: Mapping[str, str], project: Path, settings: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The arguments that let Claude work on the task: inside its sandbox where there is one."""
    beside = [str(each) for each in folders_beside(project, env)]
    sandbox = {
        "enabled": True,
        "autoAllowBashIfSandboxed": True,
        "enableWeakerNestedSandbox": WRAP in env,  # inside ours it cannot mount a process table of its own
        "filesystem": {"allowWrite": [str(states_folder()), *beside]},  # the first for pi-marathon wait and ask
    }
    given = {**(settings or {}), **({"sandbox": sandbox} if has_sandbox() else {})}
    return (
        *(word for each in beside for word in ("--add-dir", each)),
        *("--permission-mode", "acceptEdits", "--allowedTools", *ALLOWED),
        *(("--settings", json.dumps(given)) if given else ()),
    )


def tell_of_billing(agent: ProgramAgent, host: Host) -> None:
    """Claude takes a key before a subscription, and says so nowhere. Said once."""
    folder = host.env.get("CLAUDE_CONFIG_DIR") or host.env.get("HOME", "")
    account: object = None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        account = table_in(json.loads(read_regular(Path(folder) / ".claude.json") or b"")).get("oauthAccount")
    if account and host.env.get("ANTHROPIC_API_KEY") and not agent.told_of_billing:
        agent.told_of_billing = True
        host.emit(Notice("ANTHROPIC_API_KEY is set beside your Claude subscription: this bills the API.", "warning"))


class ClaudeStream(ProgramAgent):
    program = CLAUDE
    tells_cost = True
    tells_tokens = True

    def run(self, host: Host) -> Outcome:
        tell_of_billing(self, host)
        left = host.meter.left("cost")
        budget = () if left is None else ("--max-budget-usd", f"{max(left, 0.01):.4f}")
        return _Session(
            ("claude", "-p", *_SPEAKS, *permissions(host.env, host.project), *budget, *self.args), host
        ).run()


def in_spite(args: Sequence[str], offered: object) -> list[str]:
    """The tools that Claude says it has, although the arguments take them away."""
    given = {flag: set(words.split(",")) for flag, words in itertools.pairwise(args) if flag in (_ONLY, _NOT)}
    has = [each for each in offered if isinstance(each, str)] if isinstance(offered, list) else []
    without, only = given.get(_NOT, set()), given.get(_ONLY)
    beside = [each for each in has if only and each not in only and not each.startswith(("mcp__", "ToolSearch"))]
    return [each for each in has if each in without or each in beside]


@dataclass
class Reading:
    """What Claude's records say about one session."""

    args: tuple[str, ...] = ()
    clock: Callable[[], float] = time.monotonic
    session: str = ""
    working: bool = False
    taken: int = 0  # messages of ours that reached the model
    result: dict[str, Any] | None = None  # the last one; a message that came late begins another turn
    failure: Failure | None = None  # found before Claude itself gave up
    denied: list[str] = field(default_factory=list)
    said: str = ""  # the text of the last message
    _resets_at: float = 0
    _block: str = ""  # the kind of the part that is being written
    _calls: dict[str, ToolCalled] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)
    _inputs: dict[str, Any] = field(default_factory=dict)  # of the message that is being written
    _of_messages: dict[str, dict[str, int]] = field(default_factory=dict)  # the tokens that are counted
    _counted: Usage = field(default_factory=Usage)

    def events(self, record: dict[str, Any]) -> Iterable[Event]:
        match record.get("type"), record.get("subtype"):
            case "system", "init":
                if more := in_spite(self.args, record.get("tools")):
                    names = one_line(", ".join(more), 200)
                    self.failure = Failure(f"Claude has tools that this phase may not use: {names}", permanent=True)
                self.session, self.working = one_line(str(record.get("session_id", "")), 100), True
                return [Context(one_line(str(record.get("model") or ""), 100))]
            case "system", "api_retry":
                return self._retry(record)
            case "system", "permission_denied":
                call = self._calls.get(str(record.get("tool_use_id")))
                self.denied += rules(str(record.get("tool_name")), call.arguments if call else {})
            case "system", "compact_boundary":
                return [Notice("Claude compacted its context")]
            case "rate_limit_event", _:
                info = table_in(record.get("rate_limit_info"))
                self._resets_at = number_in(info.get("resetsAt")) if info.get("status") == "rejected" else 0
            case "stream_event", _ if record.get("parent_tool_use_id") is None:
                return self._stream(table_in(record.get("event")))
            case "assistant" | "user" as role, _:
                return self._message(role, record)
            case "result", _:
                self.result = record
                return self._total(table_in(record.get("modelUsage")))
        return []

    def ending(self) -> Outcome:
        if self.failure is not None:
            return failed_outcome(self.failure, _LOG_IN)
        result = self.result or {}
        reason = str(result.get("terminal_reason", ""))
        if reason == "budget_exhausted":
            return Outcome("limit", "--max-cost is used up", stop_reason=reason)
        if reason.startswith("aborted"):
            return Outcome("left", "stopped with Esc", stop_reason="aborted")
        if result.get("is_error") is True:
            said = str(result.get("result") or result.get("subtype") or "Claude ended with an error")
            status = int(number_in(result.get("api_error_status")))
            code = str(result.get("api_error_type") or "")
            return failed_outcome(failure_of(said, status=status, code=code, resets_at=self._resets_at), _LOG_IN)
        return Outcome("ended", stop_reason=str(result.get("stop_reason") or ""), signal=says_complete(self.said))

    def _retry(self, record: dict[str, Any]) -> Iterable[Event]:
        """Claude tries again by itself. What cannot help, or is far away, ends the session here."""
        status, delay = int(number_in(record.get("error_status"))), number_in(record.get("retry_delay_ms")) / 1000
        said = one_line(str(record.get("error") or "no answer"), 300)
        cause = failure_of(said, status=status, code=said)
        if cause.permanent:
            self.failure = cause
        elif delay > _LONGEST_PAUSE:
            self.failure = replace(cause, retry_after=delay, kind="outage" if cause.kind == "outage" else "limit")
        else:
            attempt = f"{record.get('attempt')}/{record.get('max_retries')}"
            return [Notice(f"Claude tries again ({attempt}) in {delay:.0f}s: {cause.message}", "warning")]
        return []

    def _stream(self, event: dict[str, Any]) -> Iterable[Event]:
        match event.get("type"):
            case "message_start":
                self.said = ""
                self._inputs = table_in(event.get("message"))
                return self._of_message(self._inputs, turns=1)
            case "content_block_start":
                self._block = str(table_in(event.get("content_block")).get("type"))
            case "content_block_delta" if self._block in ("text", "thinking"):
                delta = table_in(event.get("delta"))
                return [Text(str(delta.get(self._block, "")), thinking=self._block == "thinking")]
            case "content_block_stop" if self._block in ("text", "thinking"):
                return [Text("\n", thinking=self._block == "thinking")]
            case "message_delta":
                counts = {**table_in(self._inputs.get("usage")), **table_in(event.get("usage"))}
                return self._of_message({**self._inputs, "usage": counts})
        return []

    def _of_message(self, message: Mapping[str, Any], turns: int = 0) -> Iterable[Event]:
        """What a message used since it was last counted. One that is cut off has cost what went into it."""
        id, counts = str(message.get("id")), table_in(message.get("usage"))
        known = self._of_messages.setdefault(id, {})
        new = {
            ours: max(0, int(number_in(counts.get(theirs))) - known.get(ours, 0))
            for ours, (theirs, _) in _TOKENS.items()
        }
        self._of_messages[id] = {name: known.get(name, 0) + more for name, more in new.items()}
        if turns or any(new.values()):
            yield from self._used(usage_in({**new, "turns": turns, "model": message.get("model")}))

    def _message(self, role: str, record: dict[str, Any]) -> Iterable[Event]:
        content = table_in(record.get("message")).get("content")
        if record.get("isReplay") is True:
            self.taken += 1
            self.result = None
            return
        if role == "assistant" and record.get("parent_tool_use_id") is None:
            self.said += text_in(content)
        elif role == "assistant":  # of a subagent, whose message does not come in pieces
            yield from self._of_message({**table_in(record.get("message")), "model": ""})
        for part in tables_in(content):
            if part.get("type") == "tool_use":
                call = ToolCalled(_id(part, "id"), str(part.get("name")), table_in(part.get("input")))
                self._calls[call.id], self._began[call.id] = call, self.clock()
                yield call
            elif part.get("type") == "tool_result" and (called := self._calls.get(_id(part, "tool_use_id"))):
                text, failed = text_in(part.get("content")), part.get("is_error") is True
                yield ToolEnded(called.id, called.name, text, failed, round(self.clock() - self._began[called.id], 3))

    def _total(self, by_model: dict[str, Any]) -> Iterable[Event]:
        """What the messages did not tell: the cost, and what subagents used."""
        total = Usage()
        for model in map(table_in, by_model.values()):
            tokens = {ours: model.get(theirs) for ours, (_, theirs) in _TOKENS.items()}
            total = total.plus(usage_in({**tokens, "cost": model.get("costUSD")}))
        rest = {name: max(0, getattr(total, name) - getattr(self._counted, name)) for name in (*_TOKENS, "cost")}
        return self._used(usage_in(rest)) if any(rest.values()) else []

    def _used(self, usage: Usage) -> Iterable[Event]:
        self._counted = self._counted.plus(usage)
        return [Used(usage)]


def rules(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """The permission rules that would allow a call, as --allowedTools takes them: one for each command of a line."""
    found = []
    for words in map(str.split, re.split(r"&&|\|\|?|;|\n", str(arguments.get("command", "")))):
        second = words[1:2] if words[1:2] and words[1].isalpha() else []
        found += [f"Bash({' '.join([words[0], *second])}:*)"] if words else []
    return [each for each in found if each not in ALLOWED] if tool == "Bash" and found else [tool]


def denials(named: Iterable[str]) -> str:
    """What Claude was not allowed to use, and the flag that would allow it."""
    names = list(dict.fromkeys(one_line(name, 100) for name in named))
    flags = " ".join(f'"{name}"' for name in names)
    cure = f"To allow it, end the command with: -- --allowedTools {flags}"
    return f"Claude was not allowed to use: {', '.join(names)}. {cure}" if names else ""


def _id(part: dict[str, Any], name: str) -> str:
    return one_line(str(part.get(name, "")), 200)


class _Session(OneSession):
    program = "claude"

    def __init__(self, argv: tuple[str, ...], host: Host) -> None:
        super().__init__(argv, host)
        self._reading = Reading(argv)
        self._sent = 0

    def begin(self) -> None:
        self._say(Path(self.host.prompt).read_text(encoding="utf-8"))

    def events(self, record: dict[str, Any]) -> Iterable[Event]:
        yield from self._reading.events(record)
        self.hung_up = self._reading.failure is not None

    def is_over(self) -> bool:
        """A message that comes with the end of a turn begins another."""
        reading = self._reading
        return self.hung_up or (reading.result is not None and (self.stopped or reading.taken >= self._sent))

    def listens(self) -> bool:
        return self._reading.working

    def steer(self, steer: Steer) -> None:
        self._say(steer.text)

    def stop(self) -> None:
        self.send({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}})

    def ask_to_stop(self) -> bool:
        """Its cost comes with its result."""
        asks = self._reading.working and not self.is_over()
        if asks:
            self.stop()
        return asks

    def ending(self) -> Outcome:
        reading = self._reading
        return replace(reading.ending(), session=reading.session, denied=denials(reading.denied))

    def _say(self, text: str) -> None:
        self._sent += 1
        self.send({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}})
