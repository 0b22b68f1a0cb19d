"""pi 0.74.2, the oldest that is supported: it has neither `agent_settled` nor `ctx.mode`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marathon.agents.pi.find import LOOPS
from tests.real.desk import PROMPT, Desk, Rpc
from tests.real.install import PiInstall
from tests.real.model_server import ToolCall, Turn, ask, bash, server_error, wait
from tests.real.real_world import RealWorld
from tests.real.test_failures import SAME_TOOL

pytestmark = pytest.mark.slow
PI = "oldest"


@pytest.fixture
def desk(tmp_path: Path, pi_install: PiInstall) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(*script: Turn) -> Desk:
        made.append(Desk(tmp_path, pi_install, script))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_this_is_the_oldest(pi_install: PiInstall) -> None:
    manifest = json.loads((pi_install.cli.parents[1] / "package.json").read_text())
    assert manifest["version"] == "0.74.2"


def test_the_extension_loads_and_offers_commands_and_tools(desk: Callable[..., Desk]) -> None:
    at = desk(Turn("Done."))
    pi = at.rpc()
    commands = pi.ask(type="get_commands")["data"]["commands"]
    ours = {command["name"] for command in commands if command["source"] == "extension"}
    assert ours >= {"marathon-loop", "marathon-status", "marathon-steer", "marathon-pause"}
    pi.ask(type="prompt", message=PROMPT)
    pi.next("agent_end")
    assert at.model.requests[0].tools[-2:] == ["marathon_wait", "human_feedback"]
    assert pi.close() == 0


def test_the_tools_of_measured_loops_are_there_from_the_beginning(desk: Callable[..., Desk]) -> None:
    loop = {"lane": "perf", "mode": "research", "goal": "Faster", "runTag": "r1"}
    measured = ToolCall("multiloop_measure", {"lane": "perf", "measurements": [5]})
    at = desk(Turn(tools=[ToolCall("multiloop_start", loop)]), Turn(tools=[measured]), Turn("Done."))
    at.home.path = f"{os.environ['PATH']}:{Path(sys.executable).parent}"
    pi = Rpc(at.home.argv("-e", str(LOOPS), "--mode", "rpc"), at.project, at.env(""))
    at.opened.append(pi)
    pi.ask(type="prompt", message=PROMPT)
    assert pi.notice().startswith("perf/r1 does not go on: a pi before 0.80.4 does not say when a turn is over.")
    assert "multiloop_archive" in at.model.requests[0].tools  # it gets no new ones within a turn
    assert "Baseline of perf/r1: 5" in at.model.requests[2].last_text


def test_a_session_in_the_terminal_ends_by_itself(desk: Callable[..., Desk]) -> None:
    at = desk(Turn("I look.", tools=[bash("echo seen")]), Turn("Done."))
    pi = at.session()
    pi.expect("marathon: my-task │ research │ session 3 │ ".encode())
    assert pi.wait() == 0
    state = at.state()
    assert (state["sessionEnded"], state["stopReason"]) == (True, "stop")
    assert (state["usage"]["turns"], state["usage"]["output"]) == (2, 80)


def test_a_retry_does_not_end_the_session(desk: Callable[..., Desk]) -> None:
    at = desk(server_error(), server_error(), Turn("Done."))
    assert at.session().wait() == 0
    assert at.requests() == 3
    assert at.state()["stopReason"] == "stop"


@pytest.mark.parametrize(
    ("tool", "field", "recorded"),
    [(wait(2.5, "CI"), "waitSeconds", 150), (ask("Which database?"), "feedbackQuestion", "Which database?")],
)
def test_the_tools_record_and_end_the_run(
    desk: Callable[..., Desk], tool: ToolCall, field: str, recorded: object
) -> None:
    at = desk(Turn(tools=[tool]), Turn("Never."))
    assert at.session().wait() == 0
    assert (at.requests(), at.state()[field], at.state()["sessionEnded"]) == (1, recorded, True)


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_a_whole_marathon(real: RealWorld, mode: str) -> None:
    terminal = real.terminal("--mode", mode, "--auto-approve")
    try:
        terminal.resize(40, 120)
        terminal.expect(b"Completed", seconds=90)  # five starts of pi
        assert terminal.wait() == 0
    finally:
        terminal.close()
    assert real.read("work.md") == "chunk 1\nchunk 2\n"
    assert len(real.prompts()) == 5


def test_an_extension_with_the_same_tool_is_named_before_the_first_session(
    tmp_path: Path, pi_install: PiInstall
) -> None:
    world = RealWorld(tmp_path / "world", pi_install)
    try:
        path = world.extension("theirs.ts", SAME_TOOL)
        assert f"{path} also registers the tool human_feedback" in world.run().stderr
        assert not (world.task / ".marathon").exists()
    finally:
        world.close()
