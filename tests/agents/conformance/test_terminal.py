"""Agents in their own interface: the terminal is handed over, and taken back when STATE.json is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.process import tree
from tests.agents.conformance.adapters import ADAPTERS, ModelWorld, available
from tests.process.driver import Pty, until
from tests.real.model_server import Turn, write


@pytest.fixture(params=[name for name in ("claude", "codex") if available(name)])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModelWorld]:
    world = ModelWorld(tmp_path / "world", ADAPTERS[request.param])
    world.mode = "tui"
    yield world
    world.close()


def test_it_closes_by_itself_and_the_review_comes(real: ModelWorld) -> None:
    state = {"state": "paused", "phase": "research", "iteration": 1, "note": "found"}
    held = [Turn("I look.")] if real.adapter.agent == "claude" else []  # its Stop hook reminds it once
    turns = [
        *held,
        Turn(
            tools=[
                write(real.task / "research.md", "# Found\n\nAll of it.\n"),
                write(real.task / "STATE.json", json.dumps(state)),
            ]
        ),
        Turn("That was my part."),
    ]
    real.plays(lambda request: turns[min(request.number, len(turns)) - 1] if request.tools else Turn("A title"))
    terminal = real.terminal()
    terminal.resize(40, 120)
    try:
        until(lambda: _answered(terminal) and real.server.requests, "the agent asks the model", 60)
        terminal.expect(b"[q]      Quit marathon", 60)
        terminal.send(b"q")
        assert terminal.wait() == 3
        assert terminal.cooked()
    finally:
        terminal.close()
    assert [each["ending"] for each in real.records("session_ended")] == ["ended"]
    assert not tree.find_by_environ("MARATHON_TASK_DIR", str(real.task))
    assert not (real.home / ".claude").exists()


def _answered(terminal: Pty) -> bool:
    terminal._read(0.1)
    return True
