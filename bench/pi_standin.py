"""Stands in for pi's RPC side where only our reading is measured: prints as many MB of its events as it can.

Started as the runner starts pi. With PI_STANDIN naming a folder and an amount ("FOLDER:MB") it stops before and
after the flood until somebody has looked (holding-N, go-N), and leaves the seconds the flood took in `seconds`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = "0.87.1"
COST = {"input": 0.0024, "output": 0.0006, "cacheRead": 0.00006, "cacheWrite": 0, "total": 0.00306}
USAGE = {
    "input": 800,
    "output": 40,
    "cacheRead": 200,
    "cacheWrite": 0,
    "reasoning": 0,
    "totalTokens": 1040,
    "cost": COST,
}
LINE = "tests/core/test_decide.py::test_completed_with_every_check_passed PASSED [ 42%]\n"
SAID = "The reading of a record that comes in pieces has to keep them until it is whole. " * 50
MESSAGES = 100  # in the one long record at the end


def events(megabytes: int) -> Iterator[bytes]:
    """Turns of a busy session: text word by word, a tool with growing output; then one very long record."""
    turn = b"".join(map(_line, _turn()))
    for _ in range(megabytes * 1_000_000 // len(turn) + 1):
        yield turn
    yield _line({"type": "agent_end", "messages": [_result(40)] * MESSAGES, "willRetry": False})


def _turn() -> Iterator[dict[str, Any]]:
    words = [f"{word} " for word in SAID.split()]
    yield {"type": "turn_start"}
    yield {"type": "message_start", "message": _message([], "pending")}
    for kind in ("thinking", "text"):
        for word in words[: 100 if kind == "thinking" else None]:
            yield _update(kind + "_delta", delta=word)
        yield _update(kind + "_end", content=SAID)
    call = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "pytest -v"}}
    yield _update("toolcall_delta", delta='{"command": "pytest -v"}')
    yield {"type": "message_end", "message": _message([{"type": "text", "text": SAID}, call], "toolUse")}
    tool = {"toolCallId": "call_1", "toolName": "bash", "args": call["arguments"]}
    yield {"type": "tool_execution_start", **tool}
    for kilobytes in range(4, 40, 4):
        yield {"type": "tool_execution_update", **tool, "partialResult": {"content": _output(kilobytes)}}
    yield {"type": "tool_execution_end", **tool, "result": {"content": _output(40)}, "isError": False}
    yield {"type": "message_end", "message": _result(40)}
    yield {"type": "turn_end", "message": _message([call], "toolUse"), "toolResults": [_result(40)]}


def _update(kind: str, **more: Any) -> dict[str, Any]:
    event = {"type": kind, "contentIndex": 0, **more}
    return {"type": "message_update", "usage": USAGE, "assistantMessageEvent": event}


def _message(content: list[Any], stop_reason: str) -> dict[str, Any]:
    head = {
        "role": "assistant",
        "content": content,
        "api": "openai-completions",
        "provider": "lab",
        "model": "scripted",
    }
    return {**head, "usage": USAGE, "stopReason": stop_reason, "timestamp": 1794798615835, "responseId": "turn"}


def _result(kilobytes: int) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": "call_1", "toolName": "bash", "content": _output(kilobytes)}


def _output(kilobytes: int) -> list[dict[str, str]]:
    return [{"type": "text", "text": LINE * (kilobytes * 1000 // len(LINE))}]


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _hold(folder: Path, number: int) -> None:
    (folder / f"holding-{number}").touch()
    while not (folder / f"go-{number}").exists():
        time.sleep(0.01)


def _serve(folder: Path, megabytes: int) -> None:
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        out.write(_line({"id": request["id"], "type": "response", "command": request["type"], "success": True}))
        if request["type"] == "prompt":
            out.write(_line({"type": "agent_start"}))
            out.flush()
            _hold(folder, 1)
            began = time.monotonic()
            for piece in events(megabytes):
                out.write(piece)
            out.flush()
            (folder / "seconds").write_text(str(time.monotonic() - began))
            _hold(folder, 2)
            out.write(_line({"type": "message_end", "message": _message([], "stop")}))
            out.write(_line({"type": "agent_settled"}))
        out.flush()


if __name__ == "__main__":
    if "--version" in sys.argv:
        print(VERSION)
    elif "--list-models" in sys.argv:
        print("provider  model")
    else:
        folder, _, amount = os.environ["PI_STANDIN"].rpartition(":")
        _serve(Path(folder), int(amount))
