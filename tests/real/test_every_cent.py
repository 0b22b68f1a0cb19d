"""Every cent that pi spends is counted, and none is spent while a human is waited for."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from tests.process.driver import Pty
from tests.real.model_server import Request, ToolCall, Turn, bash, context_too_long
from tests.real.real_world import RealWorld, pis

PI = "newest"  # since 1.5.1 pi keeps prompt caches warm
PROMPT = 20_000  # tokens
# So dear that it pays to keep the cache warm even while nobody works, and that cache lives for a moment only.
WARM = {
    "cost": {"input": 30, "output": 15, "cacheRead": 0.3, "cacheWrite": 0},
    "promptCache": {"short": 11},  # seconds; pi asks again after one
}
# A tool that asks another model, as a user's extension or codemode does.
NESTED = """
import { Type } from "typebox";
const usage = {
  input: 1000, output: 2000, cacheRead: 30, cacheWrite: 4, totalTokens: 3034,
  cost: { input: 0.1, output: 0.5, cacheRead: 0.03, cacheWrite: 0.01, total: 0.64 },
};
export default function (pi: any) {
  pi.registerTool({
    name: "consult", label: "Consult", description: "Asks another model.", parameters: Type.Object({}),
    execute: async () => ({ content: [{ type: "text", text: "It depends." }], details: {}, usage }),
  });
}
"""


def turn(text: str, *tools: ToolCall) -> Turn:
    return Turn(text, tools=tools, prompt_tokens=PROMPT, cached_tokens=PROMPT // 2)


def keeps_warm(request: Request) -> bool:
    return 1 in (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))


def plays(real: RealWorld, *turns: Turn) -> None:
    """These turns; a request that keeps the cache warm, or sums up the conversation, takes none of them."""
    asked = iter(turns)

    def script(request: Request) -> Turn:
        return turn("So far.") if keeps_warm(request) or not request.tools else next(asked)

    real.plays(script)


def pis_own_sum(real: RealWorld) -> dict[str, Any]:
    """What pi says of the session when it is opened again."""
    (file,) = real.pi.agent_folder.glob("sessions/*/*.jsonl")
    asked = subprocess.run(
        [*real.pi.install.command, "--mode", "rpc", "--session", str(file)],
        cwd=real.project,
        env=real.env(),
        input='{"id":"s","type":"get_session_stats"}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    data = next(answer["data"] for answer in answers if answer.get("id") == "s")
    assert isinstance(data, dict)
    return data


def leave(terminal: Pty) -> None:
    terminal.send(b"q")
    assert terminal.wait() == 3


def read_for(terminal: Pty, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        terminal._read(0.1)


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_the_sum_is_that_of_pi_itself(real: RealWorld, mode: str) -> None:
    real.extension("nested.ts", NESTED)
    real.pi.has_model(**WARM)
    real.pi.has_settings(compaction={"keepRecentTokens": 300})
    plays(
        real,
        turn("I ask another. " * 400, ToolCall("consult", {})),
        turn("I work long. " * 400, bash("sleep 2.5; seq 400")),
        context_too_long(),
        turn("That was all."),
    )
    terminal = getattr(real, mode)("--max-iterations", "1")
    try:
        terminal.expect(b"[q]      Quit marathon")
        leave(terminal)
    finally:
        terminal.close()
    assert any(map(keeps_warm, real.server.requests))
    assert not all(request.tools for request in real.server.requests)  # it was summed up
    [ended] = real.records("session_ended")
    used, own = ended["usage"], pis_own_sum(real)
    assert used["cost"] == pytest.approx(own["cost"])
    assert used["cost"] > 0.64
    assert {name: used[name] for name in ("input", "output", "cacheRead", "cacheWrite")} == {
        name: amount for name, amount in own["tokens"].items() if name != "total"
    }
    assert used["toolCalls"] == own["toolCalls"] == 2
    told = json.loads(real.cli("status", "task", "--json").stdout)
    assert told["usage"]["cost"] == pytest.approx(own["cost"])


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_what_a_tool_spends_on_other_models_ends_the_session(real: RealWorld, mode: str) -> None:
    real.extension("nested.ts", NESTED)
    plays(real, *[Turn("I ask another.", tools=[ToolCall("consult", {})])] * 5)
    terminal = getattr(real, mode)("--max-cost", "0.2")
    try:
        assert b"The limit of $0.20 (--max-cost) is reached" in terminal.expect(b"[q]      Quit marathon")
        leave(terminal)
    finally:
        terminal.close()
    assert len(real.server.requests) == 1
    [ended] = real.records("session_ended")
    assert ended["ending"] == "limit"


def test_nothing_runs_at_a_gate(real: RealWorld) -> None:
    real.pi.has_model(**WARM)
    plays(real, turn("I looked."))
    terminal = real.stream("--max-iterations", "1")
    try:
        terminal.expect(b"[q]      Quit marathon")
        assert not pis(real)
        read_for(terminal, 3)  # pi would have asked twice
        assert not any(map(keeps_warm, real.server.requests))
        leave(terminal)
    finally:
        terminal.close()


def test_nothing_runs_in_a_wait(real: RealWorld) -> None:
    real.pi.has_model(**WARM)
    plays(real, turn("CI runs.", ToolCall("marathon_wait", {"minutes": 5, "reason": "CI"})))
    terminal = real.stream()
    try:
        terminal.expect(b"waiting: CI")
        read_for(terminal, 3)
        assert not pis(real)
        assert not any(map(keeps_warm, real.server.requests))
    finally:
        terminal.close()


def test_no_cache_is_kept_warm_while_pi_waits_for_the_human(real: RealWorld) -> None:
    """The session is over, but the human has begun to type."""
    real.pi.has_model(**WARM)
    go = real.project / "go"
    plays(real, turn("It runs.", bash(f"until [ -e '{go}' ]; do sleep 0.05; done")), turn("I looked."))
    terminal = real.tui()
    try:
        terminal.expect(b"until [ -e")
        terminal.send(b"wait, ")
        terminal.expect(b"wait,")
        go.touch()
        terminal.expect(b"The marathon continues when")
        before = len(real.server.requests)
        read_for(terminal, 3)
        assert len(real.server.requests) == before
    finally:
        terminal.close()
