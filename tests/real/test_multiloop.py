"""Measured loops inside the real pi: the model calls multiloop_* tools, which are commands of the real program."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from marathon.agents.pi.find import EXTENSIONS, LOOPS
from tests.real.desk import Rpc, Terminal
from tests.real.install import PiInstall
from tests.real.model_server import ModelServer, Request, ToolCall, Turn, bash
from tests.real.pi_home import PiHome
from tests.real.real_world import RealWorld
from tests.support.world import ROOT

PI = "newest"
GUARD = {"name": "tests", "passed": True, "command": "make test", "evidence": "12 passed"}


def call(verb: str, **given: Any) -> Turn:
    return Turn(tools=[ToolCall(f"multiloop_{verb}", given)])


START = call(
    "start",
    lane="perf",
    mode="optimize",
    goal="--faster, please",
    verifyCommand="./bench",
    guardCommand="make test",
    runTag="r1",
    metricName="ms",
    metricDirection="lower",
    scope="only src/",
    acceptancePolicy="faster and green",
)


class Lab:
    """A project in which pi was started by a human, with our extensions."""

    def __init__(self, folder: Path, install: PiInstall, turns: list[Turn]) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        self.model = ModelServer([*turns, Turn("Done.")])
        self.model.__enter__()
        self.home = PiHome(folder, install, self.model.url)
        self.opened: list[Rpc | Terminal] = []

    def env(self) -> dict[str, str]:
        env = self.home.env(PYTHONPATH=str(ROOT))
        return {**env, "PATH": f"{self.project.parent}:{env['PATH']}:{Path(sys.executable).parent}"}

    def argv(self, *args: str) -> list[str]:
        return [*self.home.install.command, *EXTENSIONS, *args]

    def rpc(self, **env: str) -> Rpc:
        self.opened.append(Rpc(self.argv("--mode", "rpc"), self.project, {**self.env(), **env}))
        assert isinstance(self.opened[-1], Rpc)
        return self.opened[-1]

    def said(self) -> list[str]:
        """What each tool call was answered, as the model saw it."""
        return [request.last_text for request in self.model.requests[1:]]

    def run(self) -> Path:
        return self.project / ".multiloop" / "active" / "perf" / "r1"

    def close(self) -> None:
        for opened in self.opened:
            opened.close()
        self.model.__exit__()


@pytest.fixture
def lab(tmp_path: Path, pi_install: PiInstall) -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(*turns: Turn) -> Lab:
        made.append(Lab(tmp_path, pi_install, list(turns)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_an_iteration_by_tools_with_refusals(lab: Callable[..., Lab]) -> None:
    at = lab(
        START,
        call("decide", lane="perf", action="keep", measurements=[1]),  # there is no baseline yet
        call("measure", lane="perf", measurements=[120.5], checks=[GUARD]),
        call("iterate", lane="perf", runTag="r1", hypothesis="cache the table", changes="a dict"),
        call("measure", lane="perf", measurements=[98, 97, 99]),  # without the guard's verdict
        call("measure", lane="perf", measurements=[98, 97, 99], checks=[GUARD]),
        call("decide", lane="perf", action="revert", measurements=[98, 97, 99]),
        call("decide", lane="perf", action="keep", measurements=[98, 97, 99]),
    )
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    said = at.said()
    assert "Started perf/r1 (optimize, lower is better, keep-revert)" in said[0]
    assert "has no baseline yet" in said[1]
    assert "record the baseline: multiloop_measure perf" in said[1]
    assert "Baseline of perf/r1: 120.5" in said[2]
    assert "To beat: 120.5" in said[3]
    assert "Next: multiloop_decide perf revert" in said[4]
    assert "Next: multiloop_decide perf keep" in said[5]
    assert "revert is against the measurement, which leads to keep" in said[6]
    assert "✓ keep" in said[7]
    assert "pi-marathon loop" not in "".join(said)
    rows = [json.loads(line) for line in (at.run() / "results.jsonl").read_text().splitlines()]
    assert [row["action"] for row in rows] == ["baseline", "keep"]
    assert rows[1]["checks"][0]["evidence"] == "12 passed"
    assert (rows[1]["hypothesis"], rows[1]["changes"]) == ("cache the table", "a dict")
    state = json.loads((at.run() / "state.json").read_text())
    assert (state["goal"], state["scope"]) == ("--faster, please", "only src/")
    assert (state["acceptancePolicy"], state["measuredBy"]) == ("faster and green", "agent")


def test_the_life_of_a_loop_by_tools(lab: Callable[..., Lab]) -> None:
    at = lab(
        call("start", lane="notes", mode="research", goal="Compare", runTag="r1"),
        call("measure", lane="notes", measurements=[5]),
        call("log", lane="notes", metric=4, note="--a better one"),
        call("status"),
        call("pause", target="notes"),
        call("resume"),
        call("stop", target="notes/r1"),
        call("archive", target="notes/r1"),
    )
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    said = at.said()
    assert "Iteration 1 · log 4," in said[2]
    assert "best 4 (baseline 5)" in said[3]
    assert "Paused: notes/r1" in said[4]
    assert "notes/r1 is running" in said[5]
    assert "Stopped: notes/r1" in said[6]
    assert "Archived: notes/r1" in said[7]
    (archived,) = (at.project / ".multiloop" / "archive").iterdir()
    row = json.loads((archived / "results.jsonl").read_text().splitlines()[-1])
    assert (row["action"], row["metric"], row["reason"]) == ("log", 4, "--a better one")


def test_refusals_are_errors_and_the_status_line_names_running_loops(lab: Callable[..., Lab]) -> None:
    at = lab(START, call("decide", lane="perf", action="keep", measurements=[1]), call("iterate", lane="perf"))
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")

    def status(pi: Rpc) -> tuple[str, str]:
        shown = pi.next("extension_ui_request")
        return shown["statusKey"], shown["statusText"]

    assert status(pi) == ("multiloop", "multiloop: perf#0")
    assert pi.next("tool_execution_end")["isError"] is False
    assert pi.next("tool_execution_end")["isError"] is True
    assert status(pi) == ("multiloop", "multiloop: perf#1")
    pi.next("agent_settled")
    assert status(at.rpc()) == ("multiloop", "multiloop: perf#1")  # a pi that starts later


def told_to_go_on(at: Lab) -> list[str]:
    """What the agent was told after its turns."""
    said = [text for text in at.said() if " is running. Next: " in text and "\nGo on until" in text]
    return [text.splitlines()[0] for text in said]


def test_after_each_turn_the_agent_is_told_what_comes_next_also_after_one_that_used_no_tool_of_the_loop(
    lab: Callable[..., Lab],
) -> None:
    at = lab(
        START,
        Turn("It is started."),
        Turn(tools=[bash("echo I make it faster")]),
        Turn("It is faster now."),
        call("measure", lane="perf", measurements=[120.5], checks=[GUARD]),
    )
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    for _ in range(4):
        pi.next("agent_settled")
    tries = "perf/r1 is running. Next: multiloop_try perf"
    iterate = "perf/r1 is running. Next: multiloop_iterate perf"
    assert told_to_go_on(at)[:3] == [tries, tries, iterate]


def test_a_loop_that_the_agent_leaves_alone_stops_and_says_so(lab: Callable[..., Lab]) -> None:
    at = lab(START)
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    assert pi.notice() == "perf/r1 does not go on: 3 turns did nothing for it. To go on: /multiloop resume"
    assert len(told_to_go_on(at)) == 3
    pi.send(type="prompt", message="/multiloop resume")
    assert "perf/r1 is running" in pi.notice()
    pi.next("agent_settled")
    assert len(told_to_go_on(at)) > 3


def test_what_the_human_says_ends_it_unless_the_agent_works_on_the_loop_then(lab: Callable[..., Lab]) -> None:
    never = threading.Event()
    at = lab(START, Turn("It is", hold=never), Turn("I see."))
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("tool_execution_end")
    pi.next("message_update")
    pi.ask(type="prompt", message="What is the cache for?", streamingBehavior="followUp")
    never.set()
    pi.next("agent_settled")
    pi.ask(type="prompt", message="And the table?")
    assert pi.notice() == "perf/r1 does not go on: you said something else. To go on: /multiloop resume"
    assert not [text for text in at.said() if text.startswith("perf/r1")][1:]


def test_calls_that_are_refused_again_and_again_end_it(lab: Callable[..., Lab]) -> None:
    refused = [call("decide", lane="perf", action="keep", measurements=[1]), Turn("It was refused.")]
    at = lab(START, Turn("It is started."), *refused * 4)
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    assert "3 turns did nothing for it" in pi.notice()
    assert len(told_to_go_on(at)) == 3


def test_a_loop_that_was_ended_elsewhere_is_left_alone(lab: Callable[..., Lab]) -> None:
    at = lab(START, Turn("It is started."), Turn(tools=[bash("pi-marathon loop pause perf")]), Turn("I paused it."))
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    pi.next("agent_settled")
    assert pi.ask(type="get_state")["data"]["isStreaming"] is False
    assert len(told_to_go_on(at)) == 1


def test_a_turn_that_the_human_cuts_off_is_the_last_one(lab: Callable[..., Lab]) -> None:
    never = threading.Event()
    at = lab(START, Turn("It is started, and", hold=never))
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("tool_execution_end")
    pi.next("message_update")
    pi.send(type="abort")
    assert pi.notice() == "perf/r1 does not go on: you stopped the turn. To go on: /multiloop resume"
    never.set()
    pi.send(type="prompt", message="/multiloop stop perf")
    assert "Stopped: perf/r1" in pi.notice()
    pi.send(type="prompt", message="/multiloop resume nothing")
    assert "nothing" in pi.notice()
    assert len(at.model.requests) == 2


def multiloop(request: Request) -> list[str]:
    return [name.removeprefix("multiloop_") for name in request.tools if name.startswith("multiloop_")]


def test_the_tools_that_need_a_loop_come_with_one_and_stay_in_that_conversation(lab: Callable[..., Lab]) -> None:
    at = lab(START, call("pause", target="perf"), Turn("Done."))
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    every = ["start", "status", "try", "iterate", "measure", "decide", "log", "resume", "pause", "stop", "archive"]
    assert [multiloop(request) for request in at.model.requests] == [["start", "status"], every, every]
    file = pi.ask(type="get_state")["data"]["sessionFile"]
    pi.ask(type="new_session")
    pi.ask(type="prompt", message="Something else.")
    pi.next("agent_settled")
    assert multiloop(at.model.requests[-1]) == ["start", "status"]
    pi.ask(type="switch_session", sessionPath=file)
    pi.ask(type="prompt", message="Go on.")
    pi.next("agent_settled")
    assert sorted(multiloop(at.model.requests[-1])) == sorted(every)


def test_a_goal_is_given_to_the_agent_and_loops_can_be_seen_and_ended(lab: Callable[..., Lab]) -> None:
    at = lab(START, call("pause", target="perf"))
    pi = at.rpc()
    pi.send(type="prompt", message="/multiloop make it faster")
    pi.next("agent_settled")
    assert at.model.requests[0].last_text.startswith("Work towards this goal with a measured loop: make it faster\n")
    assert len(at.model.requests) == 3  # a paused loop does not go on
    for words, told in {"": "--faster, please", "ls": "perf/r1  paused"}.items():
        pi.send(type="prompt", message=f"/multiloop {words}")
        assert told in pi.notice()
    later = at.rpc()
    later.send(type="prompt", message="/multiloop resume perf")
    assert "perf/r1 is running" in later.notice()
    assert "Measured loops to go on with: perf/r1" in at.rpc().notice()


def test_a_session_of_a_marathon_has_the_tools_of_a_marathon_only(real: RealWorld) -> None:
    tools: list[list[str]] = []

    def script(request: Request) -> Turn:
        tools.append(request.tools)
        return Turn("Done.")

    real.plays(script)
    real.run("--mode", "stream", "--max-iterations", "1", "--auto-approve")
    assert tools[0][4:] == ["marathon_wait", "human_feedback"]
    sizes = {tool["function"]["name"]: len(json.dumps(tool)) for tool in real.server.requests[0].body["tools"]}
    assert sum(sizes[name] for name in tools[0][4:]) < 1000
    real.task.rename(real.project / "elsewhere")
    tools.clear()
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "start"], cwd=real.project, check=True)
    real.cli("loop", "start", "Faster", "--lane", "perf", "--verify", "echo 5", "--measured-by", "runner")
    real.cli("loop", "run", "perf", "--trust", "--mode", "stream", "--max-iterations", "1")
    assert tools
    assert not [name for name in tools[0] if name.startswith("multiloop_")]


def test_beside_another_extension_with_these_tools_pi_still_starts(lab: Callable[..., Lab]) -> None:
    """Such as pi-multiloop itself, or an installed copy of ours: its tools are used, and none is there twice."""
    at = lab()
    installed = at.home.agent_folder / "extensions"
    installed.mkdir()
    (installed / "multiloop.ts").write_bytes(LOOPS.read_bytes())
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    assert at.model.requests[0].tools.count("multiloop_start") == 1


def test_without_the_program_the_tool_says_so(lab: Callable[..., Lab]) -> None:
    at = lab(START)
    pi = at.rpc(PATH="/usr/bin:/bin")
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    assert "pi-marathon is not on the PATH of this pi" in at.said()[0]


def test_a_change_is_measured_by_the_runner_after_the_human_agreed_to_its_commands(lab: Callable[..., Lab]) -> None:
    """The model cannot report a number, so it cannot report a wrong one."""
    at = lab(
        call("start", lane="perf", mode="optimize", goal="Faster", verifyCommand="cat speed", runTag="r1"),
        Turn(tools=[bash("echo 90 > speed")]),
        call("try", lane="perf", hypothesis="sleep less"),
        Turn(tools=[bash("echo 120 > speed")]),
        call("try", lane="perf"),
        call("pause", target="perf"),
    )
    identity = "git -c user.name=a -c user.email=b"
    script = f"echo 100 > speed; git init -q -b main; git add -A; {identity} commit -qm first"
    subprocess.run(["sh", "-ec", script], cwd=at.project, check=True)
    pi = at.rpc()
    pi.ask(type="prompt", message="hello")
    while (asked := pi.next("extension_ui_request"))["method"] != "confirm":
        pass
    assert "verify: cat speed" in asked["message"]
    pi.send(type="extension_ui_response", id=asked["id"], confirmed=True)
    pi.next("agent_settled")
    said = at.said()
    assert "Next: multiloop_try perf" in said[0]
    assert "Baseline 100" in said[2]
    assert "keep 90, -10 (-10.0 %), improved" in said[2]
    assert "revert 120" in said[4]
    assert (at.project / "speed").read_text() == "90\n"
    rows = [json.loads(line) for line in (at.run() / "results.jsonl").read_text().splitlines()]
    assert [(row["action"], row.get("hypothesis")) for row in rows] == [("keep", "sleep less"), ("revert", None)]
