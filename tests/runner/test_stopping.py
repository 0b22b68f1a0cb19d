"""Asking a running marathon to stop: after the session, or in the middle of it; one runner at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.process.driver import ROOT, Pty, until
from tests.support.listing import listing
from tests.support.world import Entry, World, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
Background = Callable[..., subprocess.Popen[str]]


def test_stop_lets_the_session_end_and_starts_no_other(world: World, in_background: Background) -> None:
    world.script({**MORE, "hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    asked = world.cli("stop", "task")
    assert "To continue: pi-marathon --task task" in asked.stdout
    assert asked.returncode == 0
    assert f"pid {runner.pid}" in asked.stdout
    assert "after this session" in asked.stdout
    assert runner.poll() is None
    world.release(1)
    out, _ = runner.communicate(timeout=30)
    assert runner.returncode == 3
    assert "To continue: pi-marathon --task task" in out
    assert [record["ending"] for record in world.records("session_ended")] == ["ended"]
    assert (world.task / ".marathon/runs/001/iterations/001.json").exists()
    assert world.sessions() == 1
    assert world.run().returncode == 3
    assert world.sessions() == 2


def test_stop_now_ends_the_agent_at_once_and_the_session_is_recorded(world: World, in_background: Background) -> None:
    world.script({**MORE, "hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    assert world.cli("stop", "task", "--now").returncode == 0
    runner.communicate(timeout=30)
    assert runner.returncode == 3
    assert [record["ending"] for record in world.records("session_ended")] == ["stopped"]
    assert world.read("notes.md") == "1\n"
    assert world.run().returncode == 3
    assert "cut off" in world.prompt(2)


def test_stop_at_an_open_prompt_leaves_the_gate_open(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    world.cli("stop", "task")
    assert b"Answered" not in terminal.expect(b"Asked to stop from another shell.")
    assert terminal.wait() == 3
    assert terminal.cooked()
    assert not world.records("gate_answered")


def test_stop_with_nothing_running_says_so(world: World) -> None:
    world.script(research())
    world.run()
    before = listing(world.task)
    refused = world.cli("stop", "task")
    assert refused.returncode == 2
    assert "No marathon runs on task." in refused.stderr
    assert listing(world.task) == before


def everything_but_the_log(world: World) -> dict[str, tuple[int, int, bytes]]:
    """The log of a session belongs to its runner, who may write it at any time."""
    return {name: found for name, found in listing(world.task).items() if "/events/" not in name}


def test_a_second_runner_is_turned_away_with_the_name_of_the_first(world: World, in_background: Background) -> None:
    world.script(research(hold=True))
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    before = everything_but_the_log(world)
    second = world.run()
    assert second.returncode == 6
    assert f"pid {runner.pid} on " in second.stderr
    assert "pi-marathon stop task" in second.stderr
    assert everything_but_the_log(world) == before
    world.release(1)
    runner.communicate(timeout=30)
    assert runner.returncode == 3
    assert world.sessions() == 1


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_between_any_two_steps_ends_it(asked: signal.Signals) -> None:
    """Whatever the decision is, and even if it never comes to rest."""
    argv = [sys.executable, "-m", "tests.runner.restless"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout
        assert runner.stdout.readline() == "a step\n"
        runner.send_signal(asked)
        try:
            runner.communicate(timeout=20)
        finally:
            runner.kill()
    assert runner.returncode == 128 + asked
