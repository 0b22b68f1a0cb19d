"""What every adapter owes its session's log: a begin, what the agent did, what it used, and an end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import pytest

from marathon.core.budgets import Usage
from marathon.core.events import (
    GateOpened,
    Logged,
    Output,
    SessionBegan,
    SessionEnded,
    Text,
    ToolCalled,
    ToolEnded,
    Used,
    encode,
    usage_of,
)
from marathon.store.events import follow, read_events
from tests.real.model_server import Turn, Work, bash, by_phase
from tests.real.real_world import RealWorld
from tests.support.world import World, research

LOG = ".marathon/runs/001/events/001.jsonl"
GATE = b"[q]      Quit marathon"
Kind = TypeVar("Kind", bound=Logged)
AGENTS = ["command", "rehearsal", "pi stream", "pi tui"]


@pytest.fixture(params=AGENTS)
def ran(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, World]:
    """An agent, and a task whose first session it has done, as far as the review."""
    agent = str(request.param)
    if agent.startswith("pi"):
        real: RealWorld = request.getfixturevalue("real")
        _with_two_tools_at_once(real)
        if agent == "pi stream":
            assert real.run("--mode", "stream").returncode == 3
        else:
            terminal = real.tui()
            terminal.expect(GATE)
            terminal.send(b"q")
            assert terminal.wait() == 3
            terminal.close()
        return agent, real
    world = World(tmp_path / "plain")
    world.script(research(say=["I look around"]))
    args = world.task_args() if agent == "command" else ["--task", "task", "--agent", "rehearsal"]
    assert world.cli(*args).returncode == 3
    return agent, world


def _with_two_tools_at_once(real: RealWorld) -> None:
    done = Work(real.task).phase("research.md", "# Found\n\nAll of it.\n")
    assert callable(done)
    both = Turn("I look.", thinking="Where?", tools=[bash("sleep 0.5; echo slow"), bash("echo quick")])
    real.plays(by_phase({"research": [lambda request: [both, *done(request)]]}))


def test_the_log_tells_the_whole_session(ran: tuple[str, World]) -> None:
    agent, world = ran
    log = world.task / LOG
    events = list(follow(log))
    assert len(events) == len(log.read_text().splitlines()), "a line is no event"
    began, end, gate = _only(events, SessionBegan), _only(events, SessionEnded), _only(events, GateOpened)
    assert events[0] is began
    assert (began.run, began.iteration, began.phase, began.agent) == (1, 1, "research", agent.split()[0])
    assert (end.iteration, end.phase, end.ending, end.seconds > 0) == (1, "research", "ended", True)
    assert gate.phase == "research"
    assert events.index(end) < events.index(gate)
    between = events[1 : events.index(end)]
    assert any(isinstance(event, Output | Text) for event in between)
    times = [event.at for event in events]
    assert times == sorted(times)
    assert log.stat().st_mode & 0o777 == 0o600
    assert "token" not in json.dumps([vars(gate)])
    facts = json.loads((world.task / ".marathon/runs/001/iterations/001.json").read_text())
    used = Usage(**facts["usage"]) if facts["usage"] else None
    assert end.usage == used
    assert usage_of(follow(log)) == (used or Usage())
    if agent.startswith("pi"):
        _tells_of_tools_and_usage(between)


def _tells_of_tools_and_usage(events: list[Logged]) -> None:
    said = "".join(event.text for event in events if isinstance(event, Text) and not event.thinking)
    thought = "".join(event.text for event in events if isinstance(event, Text) and event.thinking)
    assert said == "I look.\nI write research.md.\nThat was my part.\n"
    assert thought == "Where?\n"
    calls = {event.id: event for event in events if isinstance(event, ToolCalled)}
    results = {event.id: event for event in events if isinstance(event, ToolEnded)}
    assert calls.keys() == results.keys()
    by_command = {call.summary: results[id] for id, call in calls.items() if call.name == "bash"}
    assert by_command["sleep 0.5; echo slow"].text == "slow\n"
    assert by_command["echo quick"].text == "quick\n"
    # The runner counts from when it heard of a call, which may be a little late.
    assert by_command["sleep 0.5; echo slow"].seconds > by_command["echo quick"].seconds
    assert [event.usage.turns for event in events if isinstance(event, Used)] == [1, 1, 1, 1]
    assert all(event.usage.cost > 0 and event.usage.model for event in events if isinstance(event, Used))


def test_the_log_can_be_followed_line_by_line(ran: tuple[str, World], tmp_path: Path) -> None:
    """As somebody sees it who attaches while it grows, in whatever pieces it comes."""
    whole = (ran[1].task / LOG).read_bytes()
    growing, offset = tmp_path / "growing.jsonl", 0
    seen: list[Logged] = []
    for end in [*range(0, len(whole), 700), len(whole)]:
        growing.write_bytes(whole[:end])
        events, offset = read_events(growing, offset)
        seen += events
    assert [encode(event, event.at) for event in seen] == [
        encode(event, event.at) for event in follow(ran[1].task / LOG)
    ]


def _only(events: list[Logged], kind: type[Kind]) -> Kind:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found
