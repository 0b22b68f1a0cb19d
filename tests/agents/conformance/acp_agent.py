"""A small coding agent that speaks ACP: it asks before every call, takes steering and tools, and can be cancelled.

In ACP_LACKS are the names of what it cannot do: close a session, go on after a refusal, our version
of the protocol, or room for a long answer.
"""

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import urllib.error
from typing import Any

from model_agent import ask, run  # type: ignore[import-not-found]  # it lies beside this file

numbers = itertools.count(1)
answers: queue.Queue[dict[str, Any]] = queue.Queue()
steering: list[str] = []
cancelled = threading.Event()
lock = threading.Lock()
lacks = os.environ.get("ACP_LACKS", "")
working: list[tuple[int, dict[str, int]]] = []  # the prompt that is worked on, and what it has used
offered: list[dict[str, Any]] = []  # the MCP servers of the session


def use(tool: str, given: dict[str, Any]) -> str:
    """Call a tool of the MCP server, started as strict clients do: apart, and with only PATH and HOME of our own."""
    (server,) = offered
    env = {name: os.environ[name] for name in ("PATH", "HOME")}
    env |= {each["name"]: each["value"] for each in server["env"]}
    argv, pipe = [server["command"], *server["args"]], subprocess.PIPE
    process = subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "scripted", "version": "1"}}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("initialize", about),
        ("tools/call", {"name": tool, "arguments": given}),
    ]
    for number, (method, params) in enumerate(calls):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        print(json.dumps(request), file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline())
        if not number:
            print('{"jsonrpc": "2.0", "method": "notifications/initialized"}', file=process.stdin, flush=True)
    return str(answer["result"]["content"][0]["text"])


def send(**message: Any) -> None:
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, kind: str, /, **fields: Any) -> None:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
    send(method="session/update", params=params)


def may(session: str, call: dict[str, Any]) -> bool:
    options = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
    params = {"sessionId": session, "toolCall": call, "options": options}
    send(id=f"ask-{next(numbers)}", method="session/request_permission", params=params)
    return bool(answers.get()["result"]["outcome"].get("optionId") == "yes")


def end(reason: str) -> None:
    while working:
        id, total = working.pop()
        send(id=id, result={"stopReason": reason, "usage": total})


def work(id: int, session: str, prompt: str) -> None:
    try:
        answer(id, session, prompt)
    except Exception as error:
        print(f"crashed: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)


def answer(id: int, session: str, prompt: str) -> None:
    messages = [{"role": "user", "content": prompt}]
    total = {"inputTokens": 0, "outputTokens": 0}
    working.append((id, total))
    cost = 0.0
    try:
        while True:
            messages += [{"role": "user", "content": steering.pop(0)} for _ in steering[:]]
            said, calls, used = ask(messages)
            cost += used["cost"]
            total["inputTokens"] += used["input"]
            total["outputTokens"] += used["output"]
            update(session, "usage_update", used=0, size=1, cost={"amount": cost, "currency": "USD"})
            update(session, "agent_message_chunk", content={"type": "text", "text": said})
            messages.append({"role": "assistant", "content": said})
            refused = False
            if not calls or cancelled.is_set():
                break
            for name, given in calls:
                place = [{"path": given["path"]}] if name == "write" else []
                kind = {"write": "edit", "bash": "execute"}.get(name, "other")
                title = given["command"] if kind == "execute" else name
                call = {"toolCallId": f"call-{next(numbers)}", "kind": kind, "title": title, "locations": place}
                update(session, "tool_call", **call, status="pending")
                if not may(session, call):
                    messages.append({"role": "tool", "content": "not allowed"})
                    refused = True
                    continue
                result = use(name, given) if kind == "other" else run(name, given)
                content = [{"type": "content", "content": {"type": "text", "text": result}}]
                update(session, "tool_call_update", toolCallId=call["toolCallId"], status="completed", content=content)
                messages.append({"role": "tool", "content": result})
            if refused and "go_on" in lacks:
                break
        end("cancelled" if cancelled.is_set() else "max_tokens" if "room" in lacks else "end_turn")
    except urllib.error.HTTPError as error:
        said = json.loads(error.read())["error"]["message"]
        limited = {"code": -32603, "message": f"Internal error: {said}", "data": {"errorKind": "rate_limit"}}
        send(id=id, error=limited if error.code == 429 else {"code": error.code, "message": said})
    except urllib.error.URLError as error:
        send(id=id, error={"code": -32603, "message": "Internal error", "data": {"details": str(error.reason)}})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        params, id = message.get("params", {}), message.get("id")
        match message.get("method"):
            case None:
                answers.put(message)
            case "initialize":
                able: dict[str, Any] = {"sessionCapabilities": {} if "close" in lacks else {"close": {}}}
                steered = {"steering": {"supported": True}}
                send(
                    id=id,
                    result={
                        "protocolVersion": 2 if "version" in lacks else 1,
                        "agentCapabilities": able,
                        "_meta": steered,
                    },
                )
            case "session/new":
                model, session = {"id": "model", "currentValue": "scripted"}, f"session-{next(numbers)}"
                offered[:] = params["mcpServers"]
                send(id=id, result={"sessionId": session, "configOptions": [model]})
            case "session/prompt":
                cancelled.clear()
                arguments = (id, params["sessionId"], params["prompt"][0]["text"])
                threading.Thread(target=work, args=arguments, daemon=True).start()
            case "_session/steering":
                steering.append(params["prompt"][0]["text"])
                send(id=id, result={"outcome": "injected"})
            case "session/cancel":
                cancelled.set()
                end("cancelled")


if __name__ == "__main__":
    main()
