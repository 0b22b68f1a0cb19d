"""A model that answers from a script: an OpenAI-compatible streaming server on loopback, with usage and faults.

`ModelServer` serves; `Turn` and the fault functions say what one request is answered with; `by_phase` and
`coding_agent` choose turns by the phase the prompt names, so that one server plays a whole marathon.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
HEADING = re.compile(r"# Marathon: phase (\S+?)(?:, round \d+)? \(run (\d+), iteration (\d+)\)")


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: Json


@dataclass(frozen=True)
class Turn:
    """What one request is answered with. `hold` keeps the second half back until it is set."""

    text: str = ""
    thinking: str = ""
    tools: Sequence[ToolCall] = ()
    prompt_tokens: int = 1000
    cached_tokens: int = 200
    completion_tokens: int = 40
    finish: str | None = None
    fault: Literal["", "drop", "hang", "hang_midway", "no_finish"] = ""
    hold: threading.Event | None = None
    status: int = 200
    body: Json = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def refused(status: int, message: str, code: str = "", **headers: str) -> Turn:
    """An error answer before any stream; header names are written with underscores."""
    error = {"message": message, "type": code or "error", "code": code or None}
    return Turn(
        status=status,
        body={"error": error},
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def rate_limited(retry_after: int = 1) -> Turn:
    return refused(429, "Rate limit reached", "rate_limit_exceeded", retry_after=str(retry_after))


def quota_used_up() -> Turn:
    return refused(429, "You exceeded your current quota", "insufficient_quota")


def server_error() -> Turn:
    return refused(500, "The server had an error", "server_error")


def wrong_key() -> Turn:
    return refused(401, "Incorrect API key provided", "invalid_api_key")


def context_too_long() -> Turn:
    return refused(400, "This model's maximum context length is exceeded", "context_length_exceeded")


@dataclass(frozen=True)
class Request:
    """One request as pi sent it; `number` counts those of its conversation, from 1."""

    body: Json
    number: int = 1

    @property
    def messages(self) -> list[Json]:
        found = self.body["messages"]
        assert isinstance(found, list)
        return found

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]

    @property
    def first_user_text(self) -> str:
        return next((_text(message) for message in self.messages if message["role"] == "user"), "")

    @property
    def last_text(self) -> str:
        return _text(self.messages[-1])

    @property
    def heading(self) -> tuple[str, int, int] | None:
        """Phase, run and iteration, where the conversation began with a marathon's prompt."""
        found = HEADING.search(self.first_user_text)
        return (found[1], int(found[2]), int(found[3])) if found else None


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


Script = Sequence[Turn] | Callable[[Request], Turn]


class ModelServer:
    """Serves while it is entered. A list answers the requests in order, its last turn again and again.

    `script` may be changed while it serves; a script that fails is answered as an error and raised on leaving.
    """

    reads: type[Request] = Request

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.failure: Exception | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._away = False

    def __enter__(self) -> ModelServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                if server._away:
                    raise ConnectionAbortedError
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server._answer(self, server._take(server.reads(body)))

            def handle(self) -> None:
                # A pi that was aborted or killed hangs up in the middle.
                with suppress(ConnectionError):
                    super().handle()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._handler = Handler
        self._serve(0)
        return self

    def _serve(self, port: int) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler)
        self._http.daemon_threads = True
        # Daemon threads end with us; joining one that hangs on purpose would hang as well.
        self._http.block_on_close = False
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def go_away(self) -> None:
        """No one listens at this port any more, and connections that stand end without an answer."""
        self._away = True
        self._http.shutdown()
        self._http.server_close()

    def come_back(self) -> None:
        self._away = False
        self._serve(self._http.server_address[1])

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        if self.failure is not None:
            raise self.failure

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def _answer(self, handler: BaseHTTPRequestHandler, turn: Turn) -> None:
        if turn.fault == "hang":
            self._wait()
        if turn.body or turn.status != 200:
            return _send_whole(handler, turn)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        frames = self.frames(turn)
        for position, frame in enumerate(frames):
            if position == len(frames) // 2 and not self._midway(turn):
                handler.close_connection = True
                return
            _send_chunk(handler, frame)
        _send_chunk(handler, b"")

    def frames(self, turn: Turn) -> list[bytes]:
        """The answer as the provider's API streams it."""
        data = [json.dumps(chunk) for chunk in _chunks(turn)] + ([] if turn.fault == "no_finish" else ["[DONE]"])
        return [f"data: {each}\n\n".encode() for each in data]

    def _take(self, request: Request) -> Turn:
        with self._lock:
            same = [known for known in self.requests if known.first_user_text == request.first_user_text]
            request = replace(request, number=len(same) + 1)
            self.requests.append(request)
            try:
                if callable(self.script):
                    return self.script(request)
                return self.script[min(len(self.requests), len(self.script)) - 1]
            except Exception as failure:
                self.failure = failure
                return refused(500, f"the script failed: {failure!r}")

    def _midway(self, turn: Turn) -> bool:
        """Whether the second half is to be sent."""
        if turn.hold is not None:
            while not turn.hold.wait(0.05) and not self._closing.is_set():
                pass
        if turn.fault == "hang_midway":
            self._wait()
        return turn.fault != "drop"

    def _wait(self) -> None:
        self._closing.wait(600)
        raise ConnectionAbortedError


def _send_whole(handler: BaseHTTPRequestHandler, turn: Turn) -> None:
    data = json.dumps(turn.body).encode()
    handler.send_response(turn.status)
    for name, value in {**turn.headers, "Content-Type": "application/json", "Content-Length": str(len(data))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def _send_chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()


def _chunks(turn: Turn) -> Iterator[Json]:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "turn", "object": "chat.completion.chunk", "created": int(time.time()), "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(turn.thinking):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(turn.text):
        yield chunk({"content": piece})
    for index, call in enumerate(turn.tools):
        function: Json = {"name": call.name, "arguments": ""}
        opened = {"index": index, "id": f"call_{secrets.token_hex(6)}", "type": "function", "function": function}
        yield chunk({"tool_calls": [opened]})
        for piece in _pieces(json.dumps(call.arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if turn.fault == "no_finish":
        return
    yield chunk({}, turn.finish or ("tool_calls" if turn.tools else "stop"))
    yield {
        "id": "turn",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "choices": [],
        "usage": {
            "prompt_tokens": turn.prompt_tokens,
            "completion_tokens": turn.completion_tokens,
            "total_tokens": turn.prompt_tokens + turn.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
        },
    }


def _pieces(text: str) -> list[str]:
    """Four deltas or fewer."""
    size = max(1, -(-len(text) // 4))
    return [text[start : start + size] for start in range(0, len(text), size)]


Session = Sequence[Turn] | Callable[[Request], Sequence[Turn]]


def by_phase(sessions: Mapping[str, Sequence[Session]]) -> Callable[[Request], Turn]:
    """The n-th conversation about a phase gets the n-th of its sessions (the last again and again), turn by turn.

    A request without tools is pi summing up a conversation; it gets a summary.
    """
    begun: dict[str, list[str]] = {phase: [] for phase in sessions}

    def answer(request: Request) -> Turn:
        if not request.tools:
            return Turn("The conversation so far, in short.")
        assert request.heading is not None, f"no marathon's prompt: {request.first_user_text[:200]!r}"
        phase = request.heading[0]
        if request.first_user_text not in begun[phase]:
            begun[phase].append(request.first_user_text)
        index = min(begun[phase].index(request.first_user_text), len(sessions[phase]) - 1)
        session = sessions[phase][index]
        turns = session(request) if callable(session) else session
        return turns[min(request.number, len(turns)) - 1]

    return answer


def write(path: Path, content: str) -> ToolCall:
    return ToolCall("write", {"path": str(path), "content": content})


def bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command})


def wait(minutes: float, reason: str) -> ToolCall:
    return ToolCall("marathon_wait", {"minutes": minutes, "reason": reason})


def ask(question: str) -> ToolCall:
    return ToolCall("human_feedback", {"question": question})


@dataclass(frozen=True)
class Work:
    """Sessions in which pi's own tools do the work of a phase of the task in `folder`."""

    folder: Path

    def phase(self, output: str, text: str, **state: Any) -> Session:
        """Writes the output, then STATE.json, then says so; `state` overrides what STATE.json says."""

        def turns(request: Request) -> Sequence[Turn]:
            return [
                Turn(f"I write {output}.", tools=[write(self.folder / output, text)]),
                self.end(request, **state),
                Turn("That was my part."),
            ]

        return turns

    def chunk(self, line: str, **state: Any) -> Session:
        """Adds a line to work.md and commits it, then leaves the phase running."""

        def turns(request: Request) -> Sequence[Turn]:
            log = self.folder / "work.md"
            commit = f"echo '{line}' >> '{log}' && git add -f '{log}' && git commit -qm '{line}'"
            return [
                Turn("One chunk.", thinking="The next box of the plan.", tools=[bash(commit)]),
                self.end(request, **{"state": "running", "note": None, **state}),
                Turn("Chunk done."),
            ]

        return turns

    def end(self, request: Request, **state: Any) -> Turn:
        assert request.heading is not None
        phase, _, iteration = request.heading
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        proposal = {
            "state": "paused",
            "phase": phase,
            "iteration": iteration,
            "updatedAt": now,
            "note": "done",
            **state,
        }
        return Turn(tools=[write(self.folder / "STATE.json", json.dumps(proposal))])


def coding_agent(folder: Path, chunks: int = 2) -> Callable[[Request], Turn]:
    """A whole marathon: research, plan, implement in some chunks, and the result."""
    work = Work(folder)
    finish = work.phase("result.md", "# Result\n\nIt works.\n", state="completed", phase="done", note="all done")
    return by_phase(
        {
            "research": [work.phase("research.md", "# Research\n\nWhat is there.\n")],
            "plan": [work.phase("plan.md", "# Plan\n\n- [ ] 1. a step\n")],
            "implement": [*[work.chunk(f"chunk {number + 1}") for number in range(chunks)], finish],
        }
    )
