"""What a human chooses among agents and their tools, held by the real programs."""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.conformance.adapters import ADAPTERS, PATIENCE, ModelWorld, available
from tests.agents.conformance.test_conformance import research
from tests.real.model_server import ToolCall, Turn, bash, by_phase, coding_agent

pytestmark = pytest.mark.skipif(not available("claude"), reason="bin/test-agents has the real programs")


@pytest.fixture
def real(tmp_path: Path) -> Iterator[ModelWorld]:
    world = ModelWorld(tmp_path / "world", ADAPTERS["claude"])
    yield world
    world.close()


def test_codex_takes_over_when_claude_has_a_long_limit(real: ModelWorld) -> None:
    claude, limit = real.server, real.adapter.limited
    assert limit is not None
    claude.script = [limit(int(time.time()) + 3 * 3600)]
    with ADAPTERS["codex"].server(coding_agent(real.task)) as codex:
        real.server = codex
        real.extra |= ADAPTERS["codex"].env(real)
        real.server = claude
        both = ("--task", "task", "--agent", "claude,codex")
        first = real.cli(*both, timeout=PATIENCE)
        assert first.returncode == 3, first.stdout
        assert real.cli("approve", "task").returncode == 0
        assert real.cli(*both, timeout=PATIENCE).returncode == 3
    (takes_over,) = real.records("agent_takes_over")
    assert (takes_over["agent"], takes_over["after"]) == ("codex", "claude")
    assert [each["agent"] for each in real.records("session_started")] == ["claude", "codex", "codex"]
    assert [each["ending"] for each in real.records("session_ended")] == ["refused", "ended", "ended"]
    assert real.records("gate_opened")[-1]["phase"] == "plan"


@pytest.mark.parametrize("tools", ["!bash", "read,Write"])
def test_claude_gets_only_the_tools_of_the_phase(real: ModelWorld, tools: str) -> None:
    touched = real.project / "touched"
    real.plays(by_phase({"research": [research(real, Turn(tools=[bash(f"touch {touched}")]))]}))
    real.more = ("--allowedTools", "Bash")  # for the marathon, but not for this phase
    ran = real.run("--set", f"research.tools={tools}")
    assert ran.returncode == 3, ran.stdout
    assert real.records("gate_opened")[-1]["reason"] == "review", "it goes on with the tools that it has"
    assert not touched.exists()
    offered = {tool for request in real.server.requests for tool in request.tools if request.heading}
    assert "Write" in offered
    assert "Bash" not in offered
    assert ("Edit" in offered) is (tools == "!bash")


def test_our_tools_work_with_claude_as_the_documentation_adds_them(real: ModelWorld) -> None:
    line = "claude mcp add marathon -- pi-marathon mcp"
    assert f"    {line}\n" in (Path(__file__).parents[3] / "docs/agents.md").read_text()
    env = real.env()
    env["PATH"] += f":{Path(sys.executable).parent}"
    subprocess.run(shlex.split(line), cwd=real.project, env=env, check=True, capture_output=True, timeout=60)
    question = {"question": "Which database?"}
    calls = [
        Turn(tools=[ToolCall("ToolSearch", {"query": "select:mcp__marathon__human_feedback"})]),
        Turn(tools=[ToolCall("mcp__marathon__human_feedback", question)]),
    ]
    real.plays(by_phase({"research": [research(real, *calls, state="running")]}))
    asked = real.run()
    assert asked.returncode == 3, asked.stdout
    assert "Which database?" in asked.stdout
    assert real.records("gate_opened")[-1]["reason"] == "question"
    assert [each["denied"] for each in real.records("session_ended")] == [""]


def test_our_tools_work_with_codex_as_the_documentation_adds_them(tmp_path: Path) -> None:
    documented = (Path(__file__).parents[3] / "docs/agents.md").read_text()
    block = documented[documented.index("    [mcp_servers.marathon]") :].partition("\n\n")[0]
    real = ModelWorld(tmp_path / "world", ADAPTERS["codex"])
    try:
        with (real.folder / "codex" / "config.toml").open("a") as config:
            config.write("\n" + textwrap.dedent(block) + "\n")
        call = Turn(tools=[ToolCall("mcp__marathon__human_feedback", {"question": "Which database?"})])
        starts = Turn(tools=[bash("sleep 6")])  # Codex asks its model before the server has started
        real.plays(by_phase({"research": [research(real, starts, call, state="running")]}))
        path = f"{real.env()['PATH']}:{Path(sys.executable).parent}"
        asked = real.cli(*real.task_args(), timeout=PATIENCE, PATH=path)
        assert asked.returncode == 3, asked.stdout
        assert "Which database?" in asked.stdout
        assert real.records("gate_opened")[-1]["reason"] == "question"
    finally:
        real.close()
