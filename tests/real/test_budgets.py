"""A budget holds inside a session of the real pi, and a session that was killed is counted."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.process.driver import PATIENCE, Pty
from tests.real.model_server import Request, Turn, Work, bash, by_phase
from tests.real.real_world import RealWorld, pis

PI = "newest"
PRICE = 0.06  # of a turn: 20,000 tokens at $3 a million


def dear(text: str, *commands: str, hold: threading.Event | None = None) -> Turn:
    tools = [bash(command) for command in commands]
    return Turn(text, tools=tools, prompt_tokens=20_000, cached_tokens=0, completion_tokens=0, hold=hold)


def spending(real: RealWorld, turns: int = 33) -> Callable[[Request], Turn]:
    """Research that never ends: each turn costs and runs a command that leaves a trace."""
    log = real.task / "work.md"
    return by_phase({"research": [[dear(f"turn {n}", f"echo {n} >> '{log}'") for n in range(1, turns + 1)]]})


def at_the_gate(terminal: Pty) -> bytes:
    """Everything up to the limit's gate. The human leaves there."""
    try:
        seen = terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"q")
        assert terminal.wait() == 3
        return seen
    finally:
        terminal.close()


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_money_is_spent_up_to_one_turn_too_much(real: RealWorld, mode: str) -> None:
    real.plays(spending(real))
    seen = at_the_gate(getattr(real, mode)("--max-cost", "0.20"))
    assert b"The limit of $0.20 (--max-cost) is reached ($0.24 used)." in seen
    assert b"$0.18 of $0.20" in seen  # the warning, and in pi the widget
    assert len(real.server.requests) == 4
    assert real.read("work.md") == "1\n2\n3\n4\n"  # the running tool call came to its end
    [ended] = real.records("session_ended")
    assert (ended["ending"], ended["cause"]) == ("limit", "--max-cost is used up")
    assert ended["usage"]["cost"] == pytest.approx(4 * PRICE)
    assert ended["warned"] == ["max_cost"]
    log = (real.task / ".marathon/runs/001/events/001.jsonl").read_text()
    assert log.count("$0.18 of $0.20 (--max-cost) are used.") == 1
    # With more, it continues where it was cut off, and completes.
    real.plays(by_phase({"research": [Work(real.task).phase("research.md", "# Found\n\nAll of it.\n")]}))
    again = real.run("--max-cost", "+1")
    assert again.returncode == 3, again.stdout
    assert "The session before this one was cut off." in real.prompts()[1]


@pytest.mark.parametrize("mode", ["tui", pytest.param("stream", marks=pytest.mark.slow)])
def test_time_is_over_in_the_middle_of_a_turn(real: RealWorld, mode: str) -> None:
    real.plays([dear("I think about it.", hold=threading.Event())])
    seen = at_the_gate(getattr(real, mode)("--max-time", "2s"))
    assert b"2s of working time (--max-time) is reached" in seen
    [ended] = real.records("session_ended")
    assert (ended["ending"], ended["cause"]) == ("limit", "--max-time is used up")
    assert 2 <= ended["seconds"] < 9


@pytest.mark.slow
def test_a_session_that_ends_by_itself_is_a_good_one_whatever_it_cost(real: RealWorld) -> None:
    real.plays([Turn("That was all.")])
    assert real.run("--max-tokens", "1000").returncode == 4
    assert [record["ending"] for record in real.records("session_ended")] == ["ended"]


@pytest.mark.slow  # tests/runner/test_budgets.py does it with a program
def test_completion_is_judged_before_the_limit(real: RealWorld) -> None:
    def session(request: Request) -> list[Turn]:
        end = Work(real.task).end(request)
        write = bash(f"echo found > '{real.task}/research.md'")
        return [Turn(tools=[write, *end.tools]), Turn("Never said.")]

    real.plays(by_phase({"research": [session]}))
    ran = real.run("--max-tokens", "1000")
    assert [record["ending"] for record in real.records("session_ended")] == ["limit"]
    assert len(real.server.requests) == 1
    assert [record["reason"] for record in real.records("gate_opened")] == ["review"]
    assert ran.returncode == 3


def runner_of(real: RealWorld) -> int:
    return int(json.loads((real.task / ".marathon" / "lock").read_text())["pid"])


def third_turn_begins(real: RealWorld, terminal: Pty) -> None:
    """Two turns are paid for. What pi draws is read, so that it does not wait for us."""
    deadline = time.monotonic() + PATIENCE
    while len(real.server.requests) < 3:
        assert time.monotonic() < deadline, terminal.seen[-2000:]
        terminal._read(0.02)


@pytest.mark.parametrize("mode", [pytest.param("tui", marks=pytest.mark.slow), "stream"])
def test_what_a_session_used_counts_when_its_runner_was_killed(real: RealWorld, mode: str) -> None:
    log = real.task / "work.md"
    turns = [dear("one", f"echo 1 >> '{log}'"), dear("two", f"echo 2 >> '{log}'"), dear("", hold=threading.Event())]
    real.plays(by_phase({"research": [turns]}))
    terminal = getattr(real, mode)("--max-cost", "0.13")
    try:
        third_turn_begins(real, terminal)
        status = json.loads(real.cli("status", "task", "--json").stdout)
        os.kill(runner_of(real), signal.SIGKILL)
        terminal.wait()
    finally:
        terminal.close()
    assert status["session"]["usage"]["cost"] == pytest.approx(2 * PRICE)
    assert (status["session"]["last_tool"], status["session"]["last_line"]) == (f"bash echo 2 >> '{log}'", "two")
    assert status["budget"] == ["$0.12 of $0.13"]
    real.plays(by_phase({"research": [[dear("three", "true"), dear("four", "true")]]}))
    assert real.run().returncode == 4
    assert [record["ending"] for record in real.records("session_ended")] == ["lost", "limit"]
    # What was left of the budget was for one more turn.
    assert json.loads(real.cli("status", "task", "--json").stdout)["usage"]["cost"] == pytest.approx(3 * PRICE)


@pytest.mark.parametrize("mode", ["tui", pytest.param("stream", marks=pytest.mark.slow)])
def test_what_a_session_used_counts_when_pi_was_killed(real: RealWorld, mode: str) -> None:
    real.plays(by_phase({"research": [[dear("one", "true"), dear("two", "true"), dear("", hold=threading.Event())]]}))
    terminal = getattr(real, mode)("--retries", "0")
    try:
        third_turn_begins(real, terminal)
        for pid in pis(real):
            os.kill(pid, signal.SIGKILL)
        at_the_gate(terminal)
    finally:
        terminal.close()
    [killed] = real.records("session_ended")
    assert killed["ending"] == "crashed"
    assert killed["usage"]["cost"] == pytest.approx(2 * PRICE)


@pytest.mark.slow  # it takes the grace of a tool call
def test_a_tool_call_may_go_on_only_for_a_moment_when_the_time_is_over(real: RealWorld) -> None:
    real.plays([dear("I wait.", f"touch '{real.task}/begun'; sleep 60; touch '{real.task}/ended'")])
    ran = real.run("--max-time", "2s")
    assert ran.returncode == 4, ran.stdout
    [ended] = real.records("session_ended")
    assert ended["ending"] == "limit"
    assert 12 <= ended["seconds"] < 30
    assert (real.task / "begun").exists()
    assert not (real.task / "ended").exists()
