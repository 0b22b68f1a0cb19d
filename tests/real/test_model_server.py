"""The scripted model: what a client sees of it, and what the real pi makes of its answers and faults."""

from __future__ import annotations

import http.client
import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from marathon.core.state import parse_state
from tests.real import model_server as model
from tests.real.install import PiInstall
from tests.real.model_server import ModelServer, Request, ToolCall, Turn
from tests.real.pi_home import PiHome


def post(server: ModelServer, text: str = "hello", timeout: float = 30) -> http.client.HTTPResponse:
    url = urlsplit(server.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=timeout)
    body = {"messages": [{"role": "user", "content": text}], "tools": [{"function": {"name": "bash"}}]}
    connection.request("POST", f"{url.path}/chat/completions", json.dumps(body))
    return connection.getresponse()


def events(answer: http.client.HTTPResponse) -> list[dict[str, Any]]:
    lines = answer.read().decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def said(answer: http.client.HTTPResponse) -> str:
    choices = [choice for event in events(answer) for choice in event["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def test_text_thinking_tool_calls_and_usage_are_streamed() -> None:
    turn = Turn("Some words.", thinking="Hm, hm.", tools=[ToolCall("bash", {"command": "echo hi"})])
    with ModelServer([turn]) as server:
        chunks = events(post(server))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert len([delta for delta in deltas if delta.get("content")]) > 1
    assert "".join(delta.get("content", "") for delta in deltas) == "Some words."
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm, hm."
    calls = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["name"] == "bash"
    assert json.loads("".join(call["arguments"] for call in calls)) == {"command": "echo hi"}
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 200}


def test_a_list_is_answered_in_order_and_its_last_turn_again_and_again() -> None:
    with ModelServer([model.rate_limited(7), Turn("a"), Turn("b")]) as server:
        refused = post(server)
        assert (refused.status, refused.headers["retry-after"]) == (429, "7")
        assert [said(post(server)) for _ in range(3)] == ["a", "b", "b"]
    assert [request.number for request in server.requests] == [1, 2, 3, 4]


def test_a_dropped_stream_breaks_off_and_a_hanging_one_says_nothing() -> None:
    with ModelServer([Turn("some words", fault="drop"), Turn("never", fault="hang")]) as server:
        with pytest.raises(http.client.IncompleteRead):
            post(server).read()
        with pytest.raises(TimeoutError):
            post(server, timeout=0.3)


def test_each_conversation_is_answered_by_its_phase() -> None:
    script = model.by_phase({"plan": [[Turn("p1"), Turn("p2")], [Turn("again")]], "implement": [[Turn("i1")]]})
    with ModelServer(script) as server:

        def say(phase: str, iteration: int) -> str:
            return said(post(server, f"# Marathon: phase {phase} (run 1, iteration {iteration})"))

        assert say("plan", 2) == "p1"
        assert say("implement", 4) == "i1"
        assert say("plan", 2) == "p2"
        assert say("plan, round 2", 3) == "again"


def test_a_script_that_fails_is_not_overlooked() -> None:
    with pytest.raises(AssertionError, match="no marathon's prompt"), ModelServer(model.by_phase({})) as server:
        assert post(server).status == 500


# With the real pi


class Played:
    def __init__(self, folder: Path, install: PiInstall, server: ModelServer, **settings: Any) -> None:
        self.home = PiHome(folder, install, server.url, **settings)
        self.project = folder / "project"
        self.project.mkdir()

    def say(self, *prompts: str) -> list[dict[str, Any]]:
        """The events of one pi that is told this, one after the other."""
        done = subprocess.run(
            self.home.argv("--mode", "json", *prompts),
            cwd=self.project,
            env=self.home.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return [json.loads(line) for line in done.stdout.splitlines()]


FAULTS = {
    "rate limit": (model.rate_limited(600), "429: ", True),
    "quota": (model.quota_used_up(), "429: ", False),
    "server error": (model.server_error(), "500: ", True),
    "wrong key": (model.wrong_key(), "401: ", False),
    "drop": (Turn("some words", fault="drop"), "terminated", True),
    "no finish": (Turn("some words", fault="no_finish"), "Stream ended without finish_reason", True),
    "hang": (Turn("never", fault="hang"), "Request timed out.", True),
    "hang midway": (Turn("some words", fault="hang_midway"), "terminated", True),
}


def test_what_pi_makes_of_each_fault(tmp_path: Path, pi_install: PiInstall) -> None:
    met: set[str] = set()

    def answer(request: Request) -> Turn:
        fault = request.last_text
        first = fault not in met
        met.add(fault)
        return FAULTS[fault][0] if first else Turn("Done.")

    with ModelServer(answer) as server:
        events = Played(tmp_path, pi_install, server, httpIdleTimeoutMs=1000).say(*FAULTS)
    ends = [event for event in events if event["type"] in ("message_end", "agent_settled")]
    for name, (_, error, retried) in FAULTS.items():
        settled = next(place for place, event in enumerate(ends) if event["type"] == "agent_settled")
        messages = [event["message"] for event in ends[:settled]]
        answers = [message for message in messages if message["role"] == "assistant"]
        ends = ends[settled + 1 :]
        assert [message["stopReason"] for message in answers] == (["error", "stop"] if retried else ["error"]), name
        assert answers[0]["errorMessage"].startswith(error), name


def test_pis_own_tools_play_the_sessions_of_a_marathon(tmp_path: Path, pi_install: PiInstall) -> None:
    task = tmp_path / "project" / "task"
    with ModelServer(model.coding_agent(task, chunks=1)) as server:
        played = Played(tmp_path, pi_install, server)
        git = ["git", "-C", str(played.project), "-c", "init.defaultBranch=main"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "config", "user.email", "agent@example.com"], check=True)
        subprocess.run([*git, "config", "user.name", "agent"], check=True)
        left = []
        for iteration, phase in enumerate(["research", "plan", "implement", "implement"], 1):
            played.say(f"# Marathon: phase {phase} (run 1, iteration {iteration})")
            state = parse_state((task / "STATE.json").read_bytes())
            left.append((state.state, state.phase, state.iteration))
    assert left == [
        ("paused", "research", 1),
        ("paused", "plan", 2),
        ("running", "implement", 3),
        ("completed", "done", 4),
    ]
    assert sorted(path.name for path in task.glob("*.md")) == ["plan.md", "research.md", "result.md", "work.md"]
    log = subprocess.run([*git, "log", "--format=%s"], check=True, capture_output=True, text=True).stdout
    assert log == "chunk 1\n"
