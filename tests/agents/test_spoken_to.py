"""What Claude, Codex and pi are started with and told, and what they answer; a small program speaks in their place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from marathon.agents import conversation
from marathon.agents.acp import AcpAgent
from marathon.agents.base import Agent, Host, Outcome
from marathon.agents.claude.stream import ClaudeStream
from marathon.agents.codex import CodexStream
from marathon.agents.meter import Meter
from marathon.agents.pi.stream import PiStream
from marathon.core.budgets import Allowance, Limits, Used
from marathon.core.events import Event
from marathon.core.life import Steer
from marathon.process.signals import Signals
from marathon.process.supervisor import run
from tests.process.driver import PATIENCE, until
from tests.support.world import World

# For each line that it hears, it says what stands beside the first words of its table that are in the line. "LATER"
# ends it if its input has ended by then: a program that was let go does no more.
SPEAKER = """
import json, pathlib, select, sys
here = pathlib.Path(sys.argv[1])
if sys.argv[2:] == ["--version"]:
    sys.exit(print("0.87.1"))
with (here / "started").open("a") as file:
    file.write(json.dumps(sys.argv[2:]) + "\\n")
answers = json.loads((here / "answers").read_text())
for line in iter(sys.stdin.readline, ""):
    with (here / "heard").open("a") as file:
        file.write(line)
    for said in next((each for words, each in answers if words in line), ()):
        if said == "LATER":
            if select.select([0], [], [], 0.5)[0]:
                sys.exit()
            continue
        print(json.dumps({**said, "id": json.loads(line).get("id")} if said.get("id") == "same" else said), flush=True)
"""
Said = dict[str, Any]


@dataclass
class Speaker:
    """The program, and a runner for it."""

    folder: Path
    signals: Signals
    events: list[Event] = field(default_factory=list)

    def answers(self, *table: tuple[str, Sequence[Said | str]]) -> None:
        (self.folder / "answers").write_text(json.dumps(table))

    def run(self, agent: Agent, *steering: Steer, allowance: Allowance | None = None) -> Outcome:
        prompt, waiting = self.folder / "prompt.md", list(steering)
        prompt.write_text("# The prompt\n")

        def new_steering() -> list[Steer]:
            taken = waiting[:]
            waiting.clear()
            return taken

        meter = Meter(self.events.append, allowance)
        return agent.run(
            Host(
                project=self.folder,
                prompt=str(prompt),
                env={
                    "PATH": str(self.folder),
                    "MARATHON_TASK_DIR": str(self.folder / "task"),
                    "MARATHON_RUNNER_ID": "r",
                },
                lock_fd=2,
                signals=self.signals,
                emit=meter.emit,
                on_tick=lambda: False,
                timeout=PATIENCE,
                start=run,
                mail=dict,
                new_steering=new_steering,
                steer=lambda text, later: None,
                meter=meter,
            )
        )

    def lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    @property
    def heard(self) -> list[Said]:
        return self.lines("heard")

    @property
    def started(self) -> list[list[str]]:
        return self.lines("started")


@pytest.fixture
def speaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Speaker]:
    (tmp_path / "speaker.py").write_text(SPEAKER)
    for name in ("claude", "codex", "pi"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{tmp_path}/speaker.py" "{tmp_path}" "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("MARATHON_PI", str(tmp_path / "pi"))
    with Signals() as signals:
        yield Speaker(tmp_path, signals)


# Claude

INIT: Said = {"type": "system", "subtype": "init", "session_id": "s"}
RESULT: Said = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn"}
TAKEN: Said = {"type": "user", "isReplay": True, "message": {"role": "user", "content": []}}


def test_a_message_that_comes_with_the_end_of_claudes_turn_is_still_worked_on(speaker: Speaker) -> None:
    second = {**RESULT, "stop_reason": "the second turn"}
    speaker.answers(("# The prompt", [INIT, TAKEN]), ("be quick", [RESULT, "LATER", TAKEN, second]))
    outcome = speaker.run(ClaudeStream(), Steer("1", "be quick"))
    assert (outcome.ending, outcome.stop_reason, outcome.steered) == ("ended", "the second turn", ("1",))


@pytest.mark.parametrize("agent", [CodexStream(), AcpAgent("acp", ("codex",))], ids=["codex", "acp"])
def test_a_program_that_never_answers_is_ended_with_a_sentence(
    speaker: Speaker, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "ANSWER_WITHIN", 0.3)
    speaker.answers()
    outcome = speaker.run(agent)
    said = "codex did not answer its first request within 0 seconds. Try it by hand."
    assert (outcome.ending, outcome.cause, outcome.permanent) == ("crashed", said, True)
    assert outcome.seconds < PATIENCE


@pytest.mark.parametrize(("used", "flag"), [(0.25, "0.7500"), (0.999, "0.0100")])
def test_claude_is_told_what_is_left_of_the_budget(speaker: Speaker, used: float, flag: str) -> None:
    speaker.answers(("# The prompt", [INIT, TAKEN, RESULT]))
    speaker.run(ClaudeStream(), allowance=Allowance(Limits(max_cost=1), Used(cost=used)))
    words = speaker.started[0]
    assert words[words.index("--max-budget-usd") + 1] == flag


def test_esc_ends_claudes_turn_though_it_never_took_the_last_message(world: World, speaker: Speaker) -> None:
    aborted = {**RESULT, "is_error": True, "terminal_reason": "aborted_streaming"}
    speaker.answers(('"subtype": "interrupt"', [aborted]), ("", [INIT]))
    path = f"{speaker.folder}{os.pathsep}{os.environ['PATH']}"
    terminal = world.typed("--task", "task", "--agent", "claude", "--mode", "stream", PATH=path)
    try:
        until(lambda: (speaker.folder / "heard").exists(), "the prompt is there")
        terminal.expect(b"claude")
        terminal.send(b"\x1b")
        terminal.expect(b"[q]      Quit marathon")
    finally:
        terminal.close()
    assert world.records("session_ended")[0]["ending"] == "left"


# Codex

THREAD: Said = {"id": "same", "result": {"thread": {"id": "t"}}}
BEGUN: Said = {"method": "turn/started", "params": {"turn": {"id": "u"}}}
OVER: Said = {"method": "turn/completed", "params": {"turn": {"id": "u", "status": "completed"}}}


def test_codex_works_in_its_sandbox_and_asks_before_it_leaves_it(speaker: Speaker) -> None:
    speaker.answers(("thread/start", [THREAD]), ("turn/start", [BEGUN, OVER]))
    assert speaker.run(CodexStream()).ending == "ended"
    words = speaker.started[0]
    assert {'sandbox_mode="workspace-write"', 'approval_policy="on-request"'} <= set(words)
    assert not [word for word in words if "danger" in word or "bypass" in word]


@pytest.mark.parametrize(
    ("method", "params", "denied"),
    [
        ("item/commandExecution/requestApproval", {"command": "git push"}, "git push"),
        ("item/fileChange/requestApproval", {}, "change files outside of the project"),
    ],
)
def test_what_codex_asks_for_is_declined_and_named(speaker: Speaker, method: str, params: Said, denied: str) -> None:
    asks = {"id": 77, "method": method, "params": params}
    speaker.answers(("thread/start", [THREAD]), ("turn/start", [BEGUN, asks]), ('"id": 77', [OVER]))
    outcome = speaker.run(CodexStream())
    assert speaker.heard[-1] == {"id": 77, "result": {"decision": "decline"}}
    assert f"Codex was not allowed to: {denied}." in outcome.denied


@pytest.mark.parametrize(("server", "action"), [("marathon", "accept"), ("github", "decline")])
def test_codex_may_use_our_tools_and_a_server_that_asks_is_named(speaker: Speaker, server: str, action: str) -> None:
    asks = {"id": 77, "method": "mcpServer/elicitation/request", "params": {"serverName": server, "threadId": "t"}}
    speaker.answers(("thread/start", [THREAD]), ("turn/start", [BEGUN, asks]), ('"id": 77', [OVER]))
    outcome = speaker.run(CodexStream())
    assert speaker.heard[-1]["result"]["action"] == action
    assert ("use the MCP server github" in outcome.denied) is (action == "decline")


@pytest.mark.parametrize(
    ("answer", "steered"), [({"result": {}}, ("1",)), ({"error": {"message": "no active turn to steer"}}, ())]
)
def test_only_steering_that_codex_took_counts_as_delivered(
    speaker: Speaker, answer: Said, steered: tuple[str, ...]
) -> None:
    """The answer comes after the end of the turn that the message came too late for."""
    late: list[Said | str] = [OVER, "LATER", {"id": "same", **answer}]
    speaker.answers(("turn/steer", late), ("thread/start", [THREAD]), ("turn/start", [BEGUN]))
    outcome = speaker.run(CodexStream(), Steer("1", "be quick"))
    assert (outcome.ending, outcome.steered) == ("ended", steered)


# pi

EMPTIED: Said = {"id": "same", "type": "response", "command": "new_session", "success": True, "data": {}}
TURN: list[Said] = [{"type": "agent_start"}, {"type": "agent_settled"}]


@pytest.mark.parametrize(
    ("answer", "programs"),
    [
        (EMPTIED, 1),
        ({**EMPTIED, "data": {"cancelled": True}}, 2),
        ({**EMPTIED, "success": False}, 2),
    ],
)
def test_a_second_session_of_pi_never_begins_in_the_context_of_the_first(
    speaker: Speaker, answer: Said, programs: int
) -> None:
    speaker.answers(("new_session", [answer]), ("# The prompt", TURN))
    pi = PiStream()
    try:
        assert [speaker.run(pi).ending, speaker.run(pi).ending] == ["ended", "ended"]
    finally:
        pi.close()
    told = [each["type"] for each in speaker.heard if each["type"] != "get_state"]
    assert told == ["prompt", "new_session", "prompt"]
    assert len(speaker.started) == programs
