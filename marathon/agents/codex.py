"""Codex through its app server on standard input and output: it can be steered, and it tells tokens and reset times.

`codex exec --json` would be simpler, but it takes no messages while it works and gives a reset only as a clock time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from marathon import __version__
from marathon.agents.base import Host, Outcome, failed_outcome
from marathon.agents.conversation import OneSession
from marathon.agents.programs import Program, ProgramAgent
from marathon.agents.reading import Failure, failure_of, table_in, tables_in, text_in
from marathon.core.budgets import Usage, number_in, usage_in
from marathon.core.events import Context, Event, Notice, Text, ToolCalled, ToolEnded, Used
from marathon.core.life import Steer
from marathon.core.text import one_line, says_complete
from marathon.git.changes import git_folders
from marathon.process.sandbox import may_write
from marathon.store.places import states_folder

CODEX = Program("codex", "npm install -g @openai/codex", ("login", "status"), "type: codex login", "0.166.0")
_MODEL = ("-m", "--model")
_LONGEST_OUTAGE = 60.0  # seconds that Codex may try to reach its provider; it would go on until the session times out
_DECLINED = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"


def settings(project: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Codex works in its sandbox, where the project, its git folder and our channel are writable.

    Its sandbox does not start in a folder that ours makes read-only. Then ours stands alone.
    """
    writable = [*git_folders(project), states_folder(), Path(env["MARATHON_TASK_DIR"])]
    given = {
        "sandbox_mode": "workspace-write" if may_write(env, project) else "danger-full-access",
        "sandbox_workspace_write.writable_roots": [str(path) for path in writable],
        "approval_policy": "on-request",  # what it asks for is declined and named at the gate
        "allow_login_shell": False,  # a login shell would set another PATH, without pi-marathon
    }
    return tuple(word for name, value in given.items() for word in ("-c", f"{name}={json.dumps(value)}"))


class CodexStream(ProgramAgent):
    program = CODEX
    tells_tokens = True

    def run(self, host: Host) -> Outcome:
        ours = settings(host.project, host.env)
        env = {"RUST_LOG": "off", **host.env}  # its log on standard error is not for people
        return _Session(("codex", "app-server", *ours, *for_server(self.args)), replace(host, env=env)).run()


def for_server(args: Sequence[str]) -> tuple[str, ...]:
    """The human's arguments as the app server takes them: it knows -c, but not --model."""
    words = []
    for before, word in zip(("", *args), args, strict=False):
        named = before in _MODEL
        words.append(f"model={json.dumps(word)}" if named else "-c" if word in _MODEL else word)
    return tuple(words)


@dataclass
class Reading:
    """What Codex's messages say about one session."""

    clock: Callable[[], float] = time.monotonic
    thread: str = ""
    turn: str = ""
    over: bool = False
    status: str = ""
    failure: Failure | None = None
    denied: list[str] = field(default_factory=list)
    said: str = ""  # the last message
    _resets_at: float = 0
    _away_since: float | None = None
    _model: str = ""
    _streamed: set[str] = field(default_factory=set)  # messages that came in pieces
    _counted: Usage = field(default_factory=Usage)

    def events(self, method: str, params: dict[str, Any]) -> Iterable[Event]:
        item = table_in(params.get("item"))
        if method.startswith("item/"):  # the provider answers
            self._away_since = None
        match method:
            case "thread/started":
                self._model = str(table_in(params.get("thread")).get("model") or "")
            case "turn/started":
                self.turn = str(table_in(params.get("turn")).get("id"))
            case "turn/completed":
                turn = table_in(params.get("turn"))
                self.over, self.status = True, str(turn.get("status"))
                if self.status == "failed":
                    self.failure = self._failure(table_in(turn.get("error")))
            case "error":
                return self._error(table_in(params.get("error")), params.get("willRetry") is True)
            case "account/rateLimits/updated":
                limits = table_in(params.get("rateLimits"))
                windows = [table_in(limits.get(name)) for name in ("primary", "secondary")]
                used_up = [each for each in windows if number_in(each.get("usedPercent")) >= 100]
                self._resets_at = max((number_in(each.get("resetsAt")) for each in used_up), default=0)
            case "thread/tokenUsage/updated":
                usage = table_in(params.get("tokenUsage"))
                window = int(number_in(usage.get("modelContextWindow")))
                tokens = int(number_in(table_in(usage.get("last")).get("totalTokens")))
                return [*self._used(table_in(usage.get("total"))), Context(self._model, window, tokens)]
            case "item/agentMessage/delta":
                self._streamed.add(str(params.get("itemId")))
                return [Text(str(params.get("delta", "")))]
            case "item/reasoning/summaryTextDelta":
                return [Text(str(params.get("delta", "")), thinking=True)]
            case "item/started" if call := called(item):
                return [call]
            case "item/completed":
                return self._completed(item)
        return []

    def ending(self) -> Outcome:
        if self.failure is not None:
            return failed_outcome(self.failure, CODEX.log_in)
        if self.status == "interrupted":
            return Outcome("left", "stopped with Esc", stop_reason="aborted")
        return Outcome("ended", stop_reason=self.status, signal=says_complete(self.said))

    def _completed(self, item: dict[str, Any]) -> Iterable[Event]:
        if item.get("type") == "agentMessage":
            self.said = str(item.get("text", ""))
            return [Text("\n" if item.get("id") in self._streamed else f"{self.said}\n")]
        if item.get("type") == "reasoning":
            return [Text("\n", thinking=True)]
        if not (call := called(item)):
            return []
        failed = item.get("status") in ("failed", "declined") or item.get("exitCode") not in (None, 0)
        answer = text_in(table_in(item.get("result")).get("content"))  # of an MCP tool
        text = str(item.get("aggregatedOutput") or table_in(item.get("error")).get("message") or answer)
        return [ToolEnded(call.id, call.name, text, failed, number_in(item.get("durationMs")) / 1000)]

    def _error(self, error: dict[str, Any], tries_again: bool) -> Iterable[Event]:
        failure = self._failure({**error, "message": error.get("additionalDetails") or error.get("message")})
        if failure.kind == "outage" and self._away_since is None:
            self._away_since = self.clock()
        away = self.clock() - self._away_since if self._away_since is not None else 0
        if tries_again and not failure.permanent and away < _LONGEST_OUTAGE:
            return [Notice(f"Codex tries again: {failure.message}", "warning")]
        self.failure = failure
        return []

    def _failure(self, error: Mapping[str, Any]) -> Failure:
        info = error.get("codexErrorInfo")
        status = max((number_in(table_in(each).get("httpStatusCode")) for each in table_in(info).values()), default=0)
        code = info if isinstance(info, str) else next(iter(table_in(info)), "")
        resets_at = self._resets_at if code == "usageLimitExceeded" else 0
        return failure_of(str(error.get("message")), status=int(status), code=code, resets_at=resets_at)

    def _used(self, total: dict[str, Any]) -> Iterable[Event]:
        cached, counted = number_in(total.get("cachedInputTokens")), self._counted
        sums = {
            "input": number_in(total.get("inputTokens")) - cached,
            "output": number_in(total.get("outputTokens")),
            "cacheRead": cached,
            "cacheWrite": number_in(total.get("cacheWriteInputTokens")),
        }
        new = {name: max(0.0, value - getattr(counted, name)) for name, value in sums.items()}
        usage = usage_in({**new, "turns": 1, "model": self._model})
        self._counted = counted.plus(usage)
        return [Used(usage)]


def called(item: dict[str, Any]) -> ToolCalled | None:
    """The tool call that an item is about."""
    id = one_line(str(item.get("id", "")), 200)
    match item.get("type"):
        case "commandExecution":
            return ToolCalled(id, "shell", {"command": command_of(item)})
        case "fileChange":
            paths = [str(each.get("path")) for each in tables_in(item.get("changes"))]
            return ToolCalled(id, "edit", {"path": ", ".join(paths)})
        case "mcpToolCall":
            return ToolCalled(id, f"{item.get('server')}.{item.get('tool')}", table_in(item.get("arguments")))
        case "webSearch":
            return ToolCalled(id, "web_search", {"query": str(item.get("query", ""))})
    return None


def command_of(table: dict[str, Any]) -> str:
    """A command without the shell that Codex wraps around it."""
    actions = [each.get("command") for each in tables_in(table.get("commandActions"))]
    return " && ".join(map(str, filter(None, actions))) or str(table.get("command") or "")


class _Session(OneSession):
    program = "codex"

    def __init__(self, argv: tuple[str, ...], host: Host) -> None:
        super().__init__(argv, host)
        self._reading = Reading()
        self._open: dict[int, str] = {}  # our requests without a response, each with the steering it sends
        self._number = 0
        self._answers = 0

    def begin(self) -> None:
        self._request("initialize", clientInfo={"name": "pi-marathon", "version": __version__})
        self.send({"method": "initialized"})
        self._request("thread/start", cwd=str(self.host.project))

    def events(self, record: dict[str, Any]) -> Iterable[Event]:
        method, params = str(record.get("method", "")), table_in(record.get("params"))
        if not method:
            self._answered(record)
        elif "id" in record:
            self._asked(record["id"], method, params)
        else:
            yield from self._reading.events(method, params)
        self.hung_up = not self._reading.over and self._reading.failure is not None

    def is_over(self) -> bool:
        """A message that was refused because the turn had ended is for the next session."""
        return self.hung_up or (self._reading.over and not any(self._open.values()))

    def has_answered(self) -> bool:
        return self._answers > 0

    def listens(self) -> bool:
        return bool(self._reading.turn) and not self._reading.over

    def steer(self, steer: Steer) -> None:
        turn = {"threadId": self._reading.thread, "expectedTurnId": self._reading.turn}
        self._request("turn/steer", steer.id, **turn, input=[{"type": "text", "text": steer.text}])

    def stop(self) -> None:
        self._request("turn/interrupt", threadId=self._reading.thread, turnId=self._reading.turn)

    def ending(self) -> Outcome:
        names = ", ".join(dict.fromkeys(one_line(name, 100) for name in self._reading.denied))
        cure = "To allow everything, end the command with: -- -c sandbox_mode=danger-full-access"
        denied = f"Codex was not allowed to: {names}. {cure}"
        return replace(self._reading.ending(), session=self._reading.thread, denied=denied if names else "")

    def _request(self, method: str, steering: str = "", /, **params: Any) -> None:
        self._number += 1
        self._open[self._number] = steering
        self.send({"id": self._number, "method": method, "params": params})

    def _answered(self, response: dict[str, Any]) -> None:
        self._answers += 1
        reading, steering = self._reading, self._open.pop(response.get("id", 0), "")
        error = table_in(response.get("error"))
        if steering and error:
            self.steered.remove(steering)
        elif error and not reading.turn:
            reading.failure = failure_of(str(error.get("message")))
        elif thread := table_in(table_in(response.get("result")).get("thread")).get("id"):
            reading.thread = one_line(str(thread), 100)
            text = Path(self.host.prompt).read_text(encoding="utf-8")
            self._request("turn/start", threadId=reading.thread, input=[{"type": "text", "text": text}])

    def _asked(self, id: object, method: str, params: dict[str, Any]) -> None:
        """No one is there to be asked, so every request of Codex is declined."""
        if method in _DECLINED:
            what = command_of(params) or params.get("reason") or "change files outside of the project"
            self._reading.denied.append(str(what))
            self.send({"id": id, "result": {"decision": "decline"}})
        elif method == "mcpServer/elicitation/request":  # another answer would end the server's tools for this session
            ours = params.get("serverName") == "marathon"
            if not ours:
                self._reading.denied.append(f"use the MCP server {params.get('serverName')}")
            answer = {"action": "accept", "content": {}} if ours else {"action": "decline"}
            self.send({"id": id, "result": answer})
        else:
            self.send({"id": id, "error": {"code": -32601, "message": "no one is there to be asked"}})
