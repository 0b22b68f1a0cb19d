"""A small coding agent for --agent command: it asks the scripted model, writes, runs commands, and reports usage."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("write", "bash")]
Call = tuple[str, dict[str, str]]


def ask(messages: list[dict[str, str]]) -> tuple[str, list[Call], dict[str, Any]]:
    """The text and the tool calls of the model's next message, and what it used."""
    body = json.dumps({"model": "scripted", "messages": messages, "tools": TOOLS}).encode()
    request = urllib.request.Request(os.environ["MODEL_URL"] + "/chat/completions", body)
    text = ""
    calls: dict[int, dict[str, str]] = {}
    used: dict[str, int] = {}
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            used = chunk.get("usage") or used
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls", []):
                    known = calls.setdefault(call["index"], {"name": "", "arguments": ""})
                    known["name"] += call["function"].get("name", "")
                    known["arguments"] += call["function"].get("arguments", "")
    counted = {"input": used["prompt_tokens"], "output": used["completion_tokens"], "cost": 0.01, "model": "scripted"}
    return text, [(call["name"], json.loads(call["arguments"])) for call in calls.values()], counted


def run(name: str, given: dict[str, str]) -> str:
    if name == "write":
        pathlib.Path(given["path"]).write_text(given["content"])
        return "written"
    done = subprocess.run(["sh", "-c", given["command"]], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main() -> None:
    messages = [{"role": "user", "content": sys.stdin.read()}]
    try:
        while True:
            said, calls, used = ask(messages)
            print(json.dumps({"marathon_usage": used}), flush=True)
            print(said, flush=True)
            messages.append({"role": "assistant", "content": said})
            if not calls:
                break
            for name, given in calls:
                messages.append({"role": "tool", "content": run(name, given)})
    except urllib.error.HTTPError as error:
        reason = json.loads(error.read())["error"]["message"]
        sys.exit(f"{error.code}: {reason}")


if __name__ == "__main__":
    main()
