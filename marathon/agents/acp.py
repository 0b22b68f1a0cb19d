"""Agents that speak the Agent Client Protocol: JSON-RPC on standard input and output.

A program that can close a session is kept for the next one. Another one is started anew for each session.

A new agent is a row of `ROWS`. Without a row, any program that speaks the protocol runs with `--agent acp -- PROGRAM`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from marathon import __version__
from marathon.agents import our_tools
from marathon.agents.acp_reading import ALLOW, Reading, denials, failure_in, request_of
from marathon.agents.base import Host, Outcome, failed_outcome, interruption, tell_swept
from marathon.agents.conversation import Conversation
from marathon.agents.permissions import ALLOWED, Request, allows, explained
from marathon.agents.programs import Program
from marathon.agents.reading import Failure, Records, table_in, tables_in
from marathon.core.events import LONGEST_TEXT, Event, HumanNeeded, Notice, Output
from marathon.core.life import Steer
from marathon.core.text import one_line, says_complete
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.git.changes import folders_beside, identity
from marathon.process.input_line import Typed
from marathon.process.sandbox import wall_of
from marathon.process.start import Command
from marathon.process.supervisor import Resident

_VERSION = 1  # of the protocol
_STEER = "_session/steering"
_STAYS_INSIDE = ("codex-acp",)  # measured: it cannot write the task's folder from a worktree, whatever it is told
_ANSWERS = {"y": "allow_once", "yes": "allow_once", "n": "reject_once", "no": "reject_once"}
_MOST_GO_ONS = 10  # in a session
_GO_ON = "That was not allowed. Go on without it. If you cannot, write STATE.json with a question for the human."


@dataclass(frozen=True)
class Row:
    """What is special about one agent."""

    program: Program
    argv: tuple[str, ...]
    mode: str = ""  # of a session, where edits inside the project need no question
    tells_cost: bool = False
    tells_tokens: bool = False
    counts_last: bool = False  # the tokens it tells are those of the last request
    folders: str = ""  # the flag that names a folder beside the one it works in
    hides_identity: bool = False  # its shell does not see the user's configuration of git
    joins: bool = False  # a second prompt reaches the model while the first is worked on
    env: Mapping[str, str] = field(default_factory=dict)


ROWS = {
    "gemini": Row(
        Program(
            "gemini",
            "npm install -g @google/gemini-cli",
            ("--skip-trust", "--list-sessions"),
            "start gemini and type /auth, or set GEMINI_API_KEY",
            "0.61.0",
        ),
        ("--acp", "--skip-trust"),
        mode="autoEdit",
        folders="--include-directories",
        hides_identity=True,
        tells_tokens=True,
        env={"GEMINI_CLI_NO_RELAUNCH": "true"},  # else a second process with the same memory
    ),
    "opencode": Row(
        Program(
            "opencode",
            "npm install -g opencode-ai",
            ("auth", "list"),
            "type: opencode auth login",
            "1.18.33",
            logged_in=r"[1-9]\d* (credential|environment)",
        ),
        ("acp",),
        tells_cost=True,
        counts_last=True,
        joins=True,
    ),
}


class AcpAgent:
    has_tools = False

    def __init__(self, name: str, args: tuple[str, ...]) -> None:
        self.name = name
        row = ROWS.get(name)
        self.allowed: tuple[str, ...] = ALLOWED
        while ALLOW in (args if row else args[:1]):  # before a program of its own; that one may have such a flag too
            at = args.index(ALLOW)
            self.allowed, args = (*self.allowed, *args[at + 1 : at + 2]), (*args[:at], *args[at + 2 :])
        self.tail = () if row else args  # what has to stand at the end of the command
        self.row = row or Row(Program(args[0] if args else "", "", (), "log in with the program itself"), args[1:])
        self.argv = (self.row.program.name, *self.row.argv, *(args if row else ()))
        self.stays_inside = any(os.path.basename(word) in _STAYS_INSIDE for word in self.argv)
        self.tells_cost, self.tells_tokens = self.row.tells_cost, self.row.tells_tokens
        self.can_be_steered = self.row.joins
        self.doubt = ""  # about its version
        self.process: Resident | None = None
        self.numbers = itertools.count(1)
        self.greeting: dict[str, Any] = {}  # what the program said about itself
        self.gets_tools: bool | None = None  # ours, over MCP

    def check(self) -> None:
        if self.name in ROWS:
            self.doubt = self.row.program.doubt(self.row.program.version())
        elif not self.argv[0]:
            raise WrongUsage("The acp agent needs a program: pi-marathon --task DIR --agent acp -- PROGRAM")
        elif shutil.which(self.argv[0]) is None:
            raise AgentUnavailable(f"{self.argv[0]!r} was not found or is not executable. Check the name after --.")

    def run(self, host: Host) -> Outcome:
        if self.gets_tools is None:
            self.gets_tools = our_tools.prepare(lambda text: host.emit(Notice(text)))
        if self.process is not None and self.process.wall != wall_of(host.env):
            self.close()  # another phase may write elsewhere
        if self.process is None:
            beside = folders_beside(host.project, host.env) if self.row.folders else []
            argv = (*self.argv, *(word for each in beside for word in (self.row.folders, str(each))))
            env = {**(identity(host.project) if self.row.hides_identity else {}), **self.row.env, **host.env}
            self.process = Resident(Command(argv, host.project, env, inherit=(host.lock_fd,)))
            self.greeting = {}
        session = _Session(self, self.process, host)
        outcome = session.run()
        if session.exit is not None:
            self.process = None
            return outcome
        our_tools.end_servers(host.env)
        tell_swept(host, self.process.sweep())
        if not session.can_be_closed:
            self.close()
        return outcome

    def close(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None


class _Session(Conversation):
    def __init__(self, agent: AcpAgent, process: Resident, host: Host) -> None:
        super().__init__(process, host)
        self.program = agent.argv[0]
        self.can_be_closed = False  # else the program would keep what it started for this session, such as MCP servers
        self._agent = agent
        self._reading = Reading()
        self._records = Records()
        self._open: dict[int, tuple[str, str]] = {}  # our requests without a response: method, and the steering sent
        self._session = ""
        self._failure: Failure | None = None
        self._reason = ""  # why the turn ended
        self._questions: list[tuple[object, dict[str, Any], Request]] = []  # to the human, with their ids
        self._asked_at = 0.0
        self._denied: list[Request] = []
        self._went_on = 0

    def run(self) -> Outcome:
        if self._agent.greeting:
            self._new_session()
        else:
            able = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
            about = {"name": "pi-marathon", "version": __version__}
            self._request("initialize", protocolVersion=_VERSION, clientCapabilities=able, clientInfo=about)
        self.converse(self.is_over)
        able = table_in(table_in(self._agent.greeting.get("agentCapabilities")).get("sessionCapabilities"))
        self.can_be_closed = bool(self._session) and "close" in able
        if self.exit is None and self.can_be_closed:
            self._request("session/close", sessionId=self._session)  # it goes out with the next session
        return replace(self._ending(), seconds=self.seconds, steered=tuple(self.steered), session=self._session)

    def _ending(self) -> Outcome:
        exit, denied = self.exit, denials(self._agent.name, self._denied, self._agent.tail)
        if exit is not None and not self.mute and (stopped := interruption(exit)):
            return stopped
        if exit is not None and not self.is_over():
            return self.crashed(exit)
        if self.stopped or self._reason == "cancelled":
            return Outcome("left", "stopped with Esc", stop_reason="aborted", denied=denied)
        if self._failure is not None:
            return replace(failed_outcome(self._failure, self._agent.row.program.log_in), denied=denied)
        signal = says_complete(self._reading.said)
        return Outcome("ended", stop_reason=self._reason, signal=signal, denied=denied)

    # What the program's messages mean

    def read(self, line: bytes, complete: bool) -> Iterable[Event]:
        for record in self._records.take(line, complete):
            if record is None:
                yield Output("out", line[:LONGEST_TEXT].decode("utf-8", "replace"))
                continue
            method, params = str(record.get("method", "")), table_in(record.get("params"))
            if not method:
                yield from self._answered(record)
            elif method == "session/update" and params.get("sessionId") == self._session and self._prompts():
                yield from self._reading.events(table_in(params.get("update")))
            elif method == "session/request_permission":
                yield from self._asked(record.get("id"), params)
            elif "id" in record:
                self._reply(record["id"], error={"code": -32601, "message": f"{method} is not offered"})

    def is_over(self) -> bool:
        return self._failure is not None or bool(self._reason and not self._prompts())

    def has_answered(self) -> bool:
        return bool(self._agent.greeting)

    def listens(self) -> bool:
        return bool(self._prompts()) and self.can_be_steered()

    def can_be_steered(self) -> bool:
        offered = table_in(self._agent.greeting.get("_meta")).get("steering")
        return self._agent.row.joins or table_in(offered).get("supported") is True

    def steer(self, steer: Steer) -> None:
        text = [{"type": "text", "text": steer.text}]
        if self._agent.row.joins:
            self._request("session/prompt", steer.id, sessionId=self._session, prompt=text)
        else:
            meta = {"steering": {"idleBehavior": "promptRequired"}}
            self._request(_STEER, steer.id, sessionId=self._session, prompt=text, _meta=meta)

    def ask_to_stop(self) -> bool:
        """What a prompt used comes with its answer."""
        asks = bool(self._prompts())
        if asks:
            self.stop()
        return asks

    def stop(self) -> None:
        for id, _, _ in self._questions:
            self._reply(id, result={"outcome": {"outcome": "cancelled"}})
        self._questions.clear()
        self.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}})

    def _answered(self, response: dict[str, Any]) -> Iterable[Event]:
        method, steering = self._open.pop(response.get("id", 0), ("", ""))
        result, error = table_in(response.get("result")), table_in(response.get("error"))
        if steering and (error or result.get("outcome") == "promptRequired"):  # too late: it is for the next session
            self.steered.remove(steering)
        elif error and method in ("initialize", "session/new", "session/prompt"):
            self._failure = failure_in(error)
        elif method == "initialize":
            self._agent.greeting = result
            if result.get("protocolVersion") == _VERSION:
                self._new_session()
            else:
                other = one_line(str(result.get("protocolVersion")), 20)
                said = f"{self.program} speaks version {other} of the Agent Client Protocol, and we speak {_VERSION}."
                self._failure = Failure(f"{said} Install another version of it.", permanent=True)
        elif method == "session/new":
            self._session = one_line(str(result.get("sessionId", "")), 100)
            options = {each.get("id"): each for each in tables_in(result.get("configOptions"))}
            self._reading.model = str(options.get("model", {}).get("currentValue") or "")
            modes = [mode.get("id") for mode in tables_in(table_in(result.get("modes")).get("availableModes"))]
            if self._agent.row.mode in modes:
                self._request("session/set_mode", sessionId=self._session, modeId=self._agent.row.mode)
            self._prompt(Path(self.host.prompt).read_text(encoding="utf-8"))
        elif method == "session/prompt":
            self._reason = str(result.get("stopReason") or "end_turn")
            yield from self._reading.end(result, sums=not self._agent.row.counts_last)
            ended_by_refusal = self._reading.refused and not self._prompts() and not self.stopped
            if ended_by_refusal and self._went_on < _MOST_GO_ONS:
                self._reading.refused = False
                self._went_on += 1
                self._prompt(_GO_ON)

    # Permissions

    def _asked(self, id: object, params: dict[str, Any]) -> Iterable[Event]:
        call = self._reading.call_of(table_in(params.get("toolCall")))
        request = request_of(call, self.host.project)
        roots = [os.path.realpath(each) for each in (self.host.project, self.host.env["MARATHON_TASK_DIR"])]
        allowed = our_tools.is_ours(request) or allows(request, roots, self._agent.allowed)
        request = request if allowed else explained(request, roots)
        question = {**params, "shown": request.shown}
        yield from self._reading.ends_part()
        if allowed:
            self._decide(id, question, "allow_once")
        elif self.host.attended:
            self._questions.append((id, question, request))
            if len(self._questions) == 1:
                self._asked_at = time.monotonic()
                yield from self._question()
        else:
            yield self._deny(id, question, request)

    def _question(self) -> Iterable[Event]:
        about = self._questions[0][1]["shown"]
        yield Notice(f"? May {self._agent.name} do this: {about} (y or n, then Enter)", "warning")
        task = one_line(os.path.basename(self.host.env["MARATHON_TASK_DIR"]), 100)
        yield HumanNeeded(f"{task} waits for your yes or no: may {self._agent.name} do this: {about}")

    def _deny(self, id: object, question: dict[str, Any], request: Request) -> Event:
        self._denied.append(request)
        self._decide(id, question, "reject_once")
        return Notice(f"{self._agent.name} was not allowed to: {question['shown']}", "warning")

    def updates(self) -> Iterable[Event]:
        """While the human thinks, the session's clock stands still. One who has left is asked no more."""
        if self._questions:
            before, self._asked_at = self._asked_at, time.monotonic()
            self.process.not_counted(self._asked_at - before)
        while self._questions and not self.host.attended:
            yield self._deny(*self._questions.pop(0))

    def _decide(self, id: object, question: dict[str, Any], kind: str) -> None:
        options = tables_in(question.get("options"))
        chosen = next((each.get("optionId") for each in options if each.get("kind") == kind), None)
        outcome = {"outcome": "selected", "optionId": chosen} if chosen is not None else {"outcome": "cancelled"}
        self._reading.refused = kind == "reject_once"
        self._reply(id, result={"outcome": outcome})

    def obey(self, typed: Typed) -> None:
        """Only y and n answer a question. Other words are for the agent, as always, and the question stays."""
        answer = _ANSWERS.get(typed.text.lower()) if typed.key == "enter" else None
        if not self._questions or answer is None:
            super().obey(typed)
        else:
            id, question, request = self._questions.pop(0)
            if answer == "reject_once":
                self._denied.append(request)
            self._decide(id, question, answer)
        if self._questions and self.host.attended and typed.key != "esc":
            for event in self._question():
                self.host.emit(event)

    # Messages to the program

    def _request(self, method: str, steering: str = "", /, **params: Any) -> None:
        number = next(self._agent.numbers)
        self._open[number] = method, steering
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def _reply(self, id: object, **answer: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, **answer})

    def _new_session(self) -> None:
        servers = [our_tools.server(self.host.env)] if self._agent.gets_tools else []
        able = table_in(table_in(self._agent.greeting.get("agentCapabilities")).get("sessionCapabilities"))
        beside = folders_beside(self.host.project, self.host.env) if "additionalDirectories" in able else []
        more = {"additionalDirectories": [str(each) for each in beside]} if beside else {}
        self._request("session/new", cwd=str(self.host.project), mcpServers=servers, **more)

    def _prompt(self, text: str) -> None:
        self._request("session/prompt", sessionId=self._session, prompt=[{"type": "text", "text": text}])

    def _prompts(self) -> int:
        """How many prompts wait for their answer."""
        return sum(method == "session/prompt" for method, _ in self._open.values())
