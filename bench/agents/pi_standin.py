"""Stands in for pi's RPC side: the same sessions as session.sh, told in pi's events.

Started as the runner starts pi; BENCH_PI holds session.sh's three arguments as JSON. In its busy session it sends 30
pieces of text a second, and every second a tool call whose output grows to 10 kB.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

USAGE = {"input": 800, "output": 40, "cacheRead": 200, "cacheWrite": 0, "totalTokens": 1040, "cost": {"total": 0.003}}
LINE = "tests/core/test_decide.py::test_completed_with_every_check_passed PASSED [ 42%]\n"


def tell(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}, separators=(",", ":")), flush=True)


def message(stop: str, *content: dict[str, Any]) -> dict[str, Any]:
    about = {"api": "openai-completions", "provider": "lab", "model": "scripted", "usage": USAGE, "stopReason": stop}
    return {"role": "assistant", "content": list(content), **about, "timestamp": 1794798615835}


def output(kilobytes: int) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": LINE * (kilobytes * 1000 // len(LINE))}]}


def one_second() -> None:
    tell("turn_start")
    tell("message_start", message=message("pending"))
    for number in range(30):
        event = {"type": "text_delta", "contentIndex": 0, "delta": f"word {number} "}
        tell("message_update", usage=USAGE, assistantMessageEvent=event)
        time.sleep(1 / 30)
    call = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "pytest -v"}}
    tell("message_end", message=message("toolUse", {"type": "text", "text": "word " * 30}, call))
    tool = {"toolCallId": "call_1", "toolName": "bash", "args": call["arguments"]}
    tell("tool_execution_start", **tool)
    for kilobytes in range(2, 10, 2):
        tell("tool_execution_update", **tool, partialResult=output(kilobytes))
    tell("tool_execution_end", **tool, result=output(10), isError=False)
    tell("turn_end", message=message("toolUse", call), toolResults=[])


def session(number: int, folder: Path, held: list[int], seconds: int) -> None:
    task = Path(os.environ["MARATHON_TASK_DIR"])
    with (task / "implement.md").open("a") as work:
        work.write("one chunk\n")
    (task / "STATE.json").write_text('{"state": "running", "phase": "implement"}')
    tell("agent_start")
    if number == held[-1]:
        for _ in range(seconds):
            one_second()
    if number in held:
        (folder / "agent").write_text(str(os.getpid()))
        (folder / f"holding-{number}").touch()
        while not (folder / f"go-{number}").exists():
            time.sleep(0.02)
    tell("message_end", message=message("stop", {"type": "text", "text": "More is left."}))
    tell("agent_end", messages=[], willRetry=False)
    tell("agent_settled")


def serve(folder: str, held: str, seconds: str) -> None:
    number = 0
    for line in sys.stdin:
        request = json.loads(line)
        tell("response", id=request["id"], command=request["type"], success=True)
        if request["type"] == "prompt":
            number += 1
            session(number, Path(folder), [int(word) for word in held.split()], int(seconds))


if __name__ == "__main__":
    if "--version" in sys.argv:
        print("0.87.1")
    elif "--list-models" in sys.argv:
        print("provider  model")
    else:
        serve(*json.loads(os.environ["BENCH_PI"]))
