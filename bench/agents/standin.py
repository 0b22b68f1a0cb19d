"""Stands in for an agent's program: the same sessions as session.sh, told in the records of that program.

Started as the runner starts the program, with its name before the other arguments. BENCH_AGENT holds session.sh's
three arguments as JSON. In its busy session it sends 30 pieces of text a second, and every second a tool call with
10 kB of output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
COMMAND = {"command": "pytest -v"}
OF_PI = {"input": 800, "output": 40, "cacheRead": 200, "cacheWrite": 0, "totalTokens": 1040, "cost": {"total": 0.003}}
OF_CLAUDE = {"input_tokens": 800, "output_tokens": 40, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 0}
LINE = "tests/core/test_decide.py::test_completed_with_every_check_passed PASSED [ 42%]\n"


def output(kilobytes: int = 10) -> str:
    return LINE * (kilobytes * 1000 // len(LINE))


def text_part(text: str) -> Record:
    return {"type": "text", "text": text}


class Program:
    """How a program tells its work. `prompt` is the field of a request, and its value, that begins a session."""

    prompt: tuple[str, str]

    def answers(self, request: Record) -> Iterable[Record]:
        return ()

    def begins(self, request: Record) -> Iterable[Record]:
        return ()

    def writes(self) -> Iterable[Record]:
        return ()

    def piece(self, text: str) -> Record:
        raise NotImplementedError

    def calls(self, said: str) -> Iterable[Record]:
        raise NotImplementedError

    def ends(self, request: Record) -> Iterable[Record]:
        raise NotImplementedError


class Pi(Program):
    prompt = "type", "prompt"

    def answers(self, request: Record) -> Iterable[Record]:
        yield {"type": "response", "id": request["id"], "command": request["type"], "success": True}

    def begins(self, request: Record) -> Iterable[Record]:
        yield {"type": "agent_start"}

    def writes(self) -> Iterable[Record]:
        yield {"type": "turn_start"}
        yield {"type": "message_start", "message": self.message("pending")}

    def piece(self, text: str) -> Record:
        event = {"type": "text_delta", "contentIndex": 0, "delta": text}
        return {"type": "message_update", "usage": OF_PI, "assistantMessageEvent": event}

    def calls(self, said: str) -> Iterable[Record]:
        call = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": COMMAND}
        yield {"type": "message_end", "message": self.message("toolUse", text_part(said), call)}
        tool = {"toolCallId": "call_1", "toolName": "bash", "args": COMMAND}
        yield {"type": "tool_execution_start", **tool}
        for kilobytes in range(2, 10, 2):
            result = {"content": [text_part(output(kilobytes))]}
            yield {"type": "tool_execution_update", **tool, "partialResult": result}
        yield {"type": "tool_execution_end", **tool, "result": {"content": [text_part(output())]}, "isError": False}
        yield {"type": "turn_end", "message": self.message("toolUse", call), "toolResults": []}

    def ends(self, request: Record) -> Iterable[Record]:
        yield {"type": "message_end", "message": self.message("stop", text_part("More is left."))}
        yield {"type": "agent_end", "messages": [], "willRetry": False}
        yield {"type": "agent_settled"}

    def message(self, stop: str, *content: Record) -> Record:
        about = {"api": "openai-completions", "provider": "lab", "model": "scripted", "usage": OF_PI}
        return {"role": "assistant", "content": [*content], **about, "stopReason": stop, "timestamp": 1794798615835}


class Claude(Program):
    prompt = "type", "user"

    def begins(self, request: Record) -> Iterable[Record]:
        yield {"type": "system", "subtype": "init", "session_id": "session", "tools": [], "model": "scripted"}
        yield {**request, "isReplay": True}

    def writes(self) -> Iterable[Record]:
        yield self.event("message_start", message={"model": "scripted", "usage": OF_CLAUDE})
        yield self.event("content_block_start", index=0, content_block=text_part(""))

    def piece(self, text: str) -> Record:
        return self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    def calls(self, said: str) -> Iterable[Record]:
        yield self.event("content_block_stop", index=0)
        yield self.event("message_delta", delta={"stop_reason": "tool_use"}, usage=OF_CLAUDE)
        call = {"type": "tool_use", "id": "call_1", "name": "Bash", "input": COMMAND}
        yield {"type": "assistant", "message": {"content": [text_part(said), call], "usage": OF_CLAUDE}}
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": output()}
        yield {"type": "user", "message": {"content": [result]}}

    def ends(self, request: Record) -> Iterable[Record]:
        yield {"type": "assistant", "message": {"content": [text_part("More is left.")], "usage": OF_CLAUDE}}
        total = {"scripted": {"inputTokens": 800, "outputTokens": 40, "costUSD": 0.003}}
        yield {
            "subtype": "success",
            "is_error": False,
            "stop_reason": "end_turn",
            "modelUsage": total,
            "type": "result",
        }

    def event(self, kind: str, **fields: Any) -> Record:
        return {"type": "stream_event", "event": {"type": kind, **fields}, "parent_tool_use_id": None}


class Codex(Program):
    prompt = "method", "turn/start"

    def answers(self, request: Record) -> Iterable[Record]:
        if "id" in request:
            yield {
                "id": request["id"],
                "result": {"thread": {"id": "t"}} if request["method"] == "thread/start" else {},
            }

    def begins(self, request: Record) -> Iterable[Record]:
        yield {"method": "turn/started", "params": {"turn": {"id": "turn"}}}

    def piece(self, text: str) -> Record:
        return {"method": "item/agentMessage/delta", "params": {"itemId": "message", "delta": text}}

    def calls(self, said: str) -> Iterable[Record]:
        item = {"type": "agentMessage", "id": "message", "text": said}
        yield {"method": "item/completed", "params": {"item": item}}
        item = {"type": "commandExecution", "id": "call_1", **COMMAND}
        yield {"method": "item/started", "params": {"item": item}}
        for _ in range(2):
            yield {"method": "item/commandExecution/outputDelta", "params": {"itemId": "call_1", "delta": output(5)}}
        done = {**item, "aggregatedOutput": output(), "exitCode": 0, "status": "completed", "durationMs": 9}
        yield {"method": "item/completed", "params": {"item": done}}
        total = {"inputTokens": 1000, "cachedInputTokens": 200, "outputTokens": 40}
        yield {"method": "thread/tokenUsage/updated", "params": {"tokenUsage": {"total": total}}}

    def ends(self, request: Record) -> Iterable[Record]:
        item = {"type": "agentMessage", "id": "last", "text": "More is left."}
        yield {"method": "item/completed", "params": {"item": item}}
        yield {"method": "turn/completed", "params": {"turn": {"id": "turn", "status": "completed"}}}


class Acp(Program):
    prompt = "method", "session/prompt"

    def answers(self, request: Record) -> Iterable[Record]:
        able: Record = {"sessionCapabilities": {"close": {}}}
        known = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": able},
            "session/new": {"sessionId": "session"},
        }
        if request["method"] in known:
            yield {"jsonrpc": "2.0", "id": request["id"], "result": known[request["method"]]}

    def piece(self, text: str) -> Record:
        return self.update("agent_message_chunk", content=text_part(text))

    def calls(self, said: str) -> Iterable[Record]:
        call = {"toolCallId": "call_1", "kind": "execute", "title": COMMAND["command"]}
        yield self.update("tool_call", **call, status="in_progress", rawInput=COMMAND)
        content = [{"type": "content", "content": text_part(output())}]
        yield self.update("tool_call_update", toolCallId="call_1", status="completed", content=content)

    def ends(self, request: Record) -> Iterable[Record]:
        yield self.piece("More is left.")
        usage = {"inputTokens": 1000, "outputTokens": 40}
        yield {"jsonrpc": "2.0", "id": request["id"], "result": {"stopReason": "end_turn", "usage": usage}}

    def update(self, kind: str, /, **fields: Any) -> Record:
        params = {"sessionId": "session", "update": {"sessionUpdate": kind, **fields}}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}


PROGRAMS = {"pi": Pi(), "claude": Claude(), "codex": Codex(), "acp": Acp()}


def tell(records: Iterable[Record]) -> None:
    for record in records:
        print(json.dumps(record, separators=(",", ":")), flush=True)


def session(program: Program, request: Record, number: int) -> None:
    place, sessions, seconds = json.loads(os.environ["BENCH_AGENT"])
    folder, held = Path(place), [int(word) for word in sessions.split()]
    task = Path(os.environ["MARATHON_TASK_DIR"])
    with (task / "implement.md").open("a") as work:
        work.write("one chunk\n")
    (task / "STATE.json").write_text('{"state": "running", "phase": "implement"}')
    tell(program.begins(request))
    for _ in range(int(seconds) if number == held[-1] else 0):
        tell(program.writes())
        for piece in range(30):
            tell([program.piece(f"word {piece} ")])
            time.sleep(1 / 30)
        tell(program.calls("word " * 30))
    if number in held:
        (folder / "agent").write_text(str(os.getpid()))
        (folder / f"holding-{number}").touch()
        while not (folder / f"go-{number}").exists():
            time.sleep(0.02)
    tell(program.ends(request))


def serve(program: Program) -> None:
    number = int(os.environ["MARATHON_ITERATION"])
    for line in sys.stdin:
        request = json.loads(line)
        tell(program.answers(request))
        if request.get(program.prompt[0]) == program.prompt[1]:
            session(program, request, number)
            number += 1  # a program that is kept has the environment of its first session


if __name__ == "__main__":
    if "--version" in sys.argv:
        print("0.87.1")
    elif "--list-models" in sys.argv:
        print("provider  model")
    else:
        serve(PROGRAMS[sys.argv[1]])
