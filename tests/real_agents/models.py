"""The scripted model as each agent asks for it: the APIs of Anthropic, OpenAI and Gemini on loopback."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import replace

from tests.real.model_server import Json, ModelServer, Request, ToolCall, Turn


class ClaudeRequest(Request):
    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", [])]

    @property
    def first_user_text(self) -> str:
        """Claude Code puts reminders before the prompt, as parts or messages of their own."""
        texts = [_all_text(message) for message in self.messages if message["role"] == "user"]
        return next((text for text in texts if "# Marathon: phase" in text), texts[0] if texts else "")


class Anthropic(ModelServer):
    """POST /v1/messages."""

    reads = ClaudeRequest

    def frames(self, turn: Turn) -> list[bytes]:
        return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in _message(turn)]


def _message(turn: Turn) -> Iterator[Json]:
    blocks: list[tuple[Json, Json]] = []
    if turn.text:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text}))
    for call in turn.tools:
        name, arguments = _for_claude(call)
        opened = {"type": "tool_use", "id": f"toolu_{secrets.token_hex(6)}", "name": name, "input": {}}
        blocks.append((opened, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
    usage = {
        "input_tokens": turn.prompt_tokens - turn.cached_tokens,
        "cache_read_input_tokens": turn.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message: Json = {
        "id": f"msg_{secrets.token_hex(6)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    for index, (opened, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = turn.finish or ("tool_use" if turn.tools else "end_turn")
    ended = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.completion_tokens}}
    yield {"type": "message_stop"}


def _for_claude(call: ToolCall) -> tuple[str, Json]:
    match call.name:
        case "write":
            return "Write", {"file_path": call.arguments["path"], "content": call.arguments["content"]}
        case "bash":
            return "Bash", {"command": call.arguments["command"], "description": "a step"}
    return call.name, call.arguments


class CodexRequest(Request):
    @property
    def messages(self) -> list[Json]:
        items: list[Json] = self.body["input"]
        return [item for item in items if item.get("type", "message") == "message"]

    @property
    def tools(self) -> list[str]:
        return [str(tool.get("name") or tool.get("type")) for tool in self.body.get("tools", [])]

    @property
    def first_user_text(self) -> str:
        texts = [_all_text(message) for message in self.messages if message["role"] == "user"]
        return next((text for text in texts if "# Marathon: phase" in text), texts[0] if texts else "")


class Responses(ModelServer):
    """POST /v1/responses."""

    reads = CodexRequest

    def frames(self, turn: Turn) -> list[bytes]:
        return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in _response(turn)]


def _response(turn: Turn) -> Iterator[Json]:
    answer = f"resp_{secrets.token_hex(6)}"
    yield {"type": "response.created", "response": {"id": answer}}
    if turn.text:
        content = [{"type": "output_text", "text": turn.text}]
        item = {"type": "message", "role": "assistant", "id": f"msg_{secrets.token_hex(6)}", "content": content}
        yield {"type": "response.output_item.done", "item": item}
    for call in turn.tools:
        name, arguments = _for_codex(call)
        called = {"call_id": f"call_{secrets.token_hex(6)}", "name": name, "arguments": json.dumps(arguments)}
        if name.startswith("mcp__"):  # of an MCP server, which is a namespace here
            called["namespace"], _, called["name"] = name.rpartition("__")
        yield {"type": "response.output_item.done", "item": {"type": "function_call", **called}}
    usage = {
        "input_tokens": turn.prompt_tokens,
        "input_tokens_details": {"cached_tokens": turn.cached_tokens},
        "output_tokens": turn.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.prompt_tokens + turn.completion_tokens,
    }
    yield {"type": "response.completed", "response": {"id": answer, "usage": usage}}


def _for_codex(call: ToolCall) -> tuple[str, Json]:
    match call.name:
        case "write":
            path, content = shlex.quote(call.arguments["path"]), call.arguments["content"]
            return "exec_command", {"cmd": f"printf %s {shlex.quote(content)} > {path}"}
        case "bash":
            return "exec_command", {"cmd": call.arguments["command"]}
    return call.name, call.arguments


def _all_text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


class GeminiRequest(Request):
    @property
    def messages(self) -> list[Json]:
        return [{**each, "content": each.get("parts", [])} for each in self.body["contents"]]

    @property
    def tools(self) -> list[str]:
        declared = [each for tool in self.body.get("tools", []) for each in tool.get("functionDeclarations", [])]
        return [str(each["name"]) for each in declared]

    @property
    def first_user_text(self) -> str:
        texts = [_all_text(message) for message in self.messages if message["role"] == "user"]
        return next((text for text in texts if "# Marathon: phase" in text), texts[0] if texts else "")


class Gemini(ModelServer):
    """POST /v1beta/models/MODEL:streamGenerateContent."""

    reads = GeminiRequest

    def frames(self, turn: Turn) -> list[bytes]:
        return [f"data: {json.dumps(each)}\n\n".encode() for each in _candidates(turn)]


def _candidates(turn: Turn) -> Iterator[Json]:
    parts: list[Json] = [{"text": turn.thinking, "thought": True}] if turn.thinking else []
    parts += [{"text": turn.text}] if turn.text else []
    parts += [{"functionCall": dict(zip(("name", "args"), _for_gemini(call), strict=True))} for call in turn.tools]
    usage = {
        "promptTokenCount": turn.prompt_tokens,
        "cachedContentTokenCount": turn.cached_tokens,
        "candidatesTokenCount": turn.completion_tokens,
        "totalTokenCount": turn.prompt_tokens + turn.completion_tokens,
    }
    for part in parts or [{"text": ""}]:
        yield {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
    ended = {"index": 0, "content": {"role": "model", "parts": []}, "finishReason": turn.finish or "STOP"}
    yield {"candidates": [ended], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}


def _for_gemini(call: ToolCall) -> tuple[str, Json]:
    match call.name:
        case "write":
            return "write_file", {"file_path": call.arguments["path"], "content": call.arguments["content"]}
        case "bash":
            return "run_shell_command", {"command": call.arguments["command"], "description": "a step"}
    return call.name, call.arguments


class Chat(ModelServer):
    """OpenAI's chat completions with the arguments that opencode's tools take."""

    def frames(self, turn: Turn) -> list[bytes]:
        return super().frames(replace(turn, tools=[_for_opencode(call) for call in turn.tools]))


def _for_opencode(call: ToolCall) -> ToolCall:
    match call.name:
        case "write":
            return ToolCall("write", {"filePath": call.arguments["path"], "content": call.arguments["content"]})
        case "bash":
            return ToolCall("bash", {**call.arguments, "description": "a step"})
    return call


class PromptRequest(Request):
    """Of a program that puts its own words around the prompt."""

    @property
    def first_user_text(self) -> str:
        texts = (_all_text(message) for message in self.messages)
        return next((text for text in texts if "# Marathon: phase" in text), "")


class AiderRequest(PromptRequest):
    tools = property(lambda self: ["edit"])  # it has none: what the model says is the edit


class Aider(ModelServer):
    """One request a session: all that the script writes comes in one answer, as files in full."""

    reads = AiderRequest

    def _take(self, request: Request) -> Turn:
        said = ""
        while (turn := super()._take(request)).tools:
            files = [(call.arguments["path"], call.arguments["content"]) for call in turn.tools]
            said += "\n".join([turn.text, *(f"\n{path}\n```\n{content}\n```\n" for path, content in files)])
        return replace(turn, text=said + turn.text)


class Mini(ModelServer):
    """A model that reads the prompt's file first, acts by the shell alone, and ends with mini's own command."""

    reads = PromptRequest

    def _take(self, request: Request) -> Turn:
        turn = Turn(tools=[ToolCall("bash", {"command": 'cat "$MARATHON_PROMPT_FILE"'})])
        turn = super()._take(request) if request.first_user_text or not callable(self.script) else turn
        return turn if turn.body else replace(turn, body=_completion(turn))


def _completion(turn: Turn) -> Json:
    commands = [_for_codex(call)[1]["cmd"] for call in turn.tools] or ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]
    functions = [{"name": "bash", "arguments": json.dumps({"command": command})} for command in commands]
    calls = [{"id": f"call_{secrets.token_hex(6)}", "type": "function", "function": each} for each in functions]
    message = {"role": "assistant", "content": turn.text, "tool_calls": calls}
    usage = {"prompt_tokens": turn.prompt_tokens, "completion_tokens": turn.completion_tokens}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    total = {**usage, "total_tokens": sum(usage.values())}
    return {"id": "turn", "object": "chat.completion", "created": 0, "choices": [choice], "usage": total}
