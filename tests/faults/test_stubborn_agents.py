"""Agents that ignore TERM, stop themselves, leave processes behind, or die again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

import psutil
import pytest

from marathon.process import linux, tree
from tests.faults.sweep import nobody_left
from tests.process.driver import alive, until
from tests.support.world import World, chunk, finish, plan, research

Start = Callable[..., subprocess.Popen[str]]
GRACE = 5.0

DEAF = "trap '' TERM INT HUP; while :; do sleep 0.1; done"
STOPPED = "trap '' TERM; kill -STOP $$; while :; do sleep 0.1; done"
FAMILY = "trap '' TERM HUP; setsid sh -c \"trap '' TERM; while :; do sleep 0.1; done\" & (setsid sleep 1000 &) ; wait"


def args_for(world: World, script: str, *args: str) -> list[str]:
    """--task with this shell script as the agent."""
    return ["--task", "task", "--agent", "command", "--retries", "0", *args, "--", "sh", "-c", script]


@pytest.mark.parametrize("script", [DEAF, STOPPED, FAMILY], ids=["deaf", "stopped", "family"])
def test_an_agent_that_does_not_go_is_gone_after_the_grace(world: World, script: str) -> None:
    began = time.monotonic()
    done = world.cli(*args_for(world, script, "--session-timeout", "0.5s"))
    assert time.monotonic() - began < 0.5 + GRACE + 1 + 10  # the rest is for a loaded machine
    assert done.returncode == 1
    assert "the session timed out" in done.stdout
    assert nobody_left(world)
    assert world.records("session_ended")[0]["ending"] == "timeout"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_runner_told_to_go_takes_a_deaf_agent_with_it(world: World, signum: int) -> None:
    argv = world.argv(*args_for(world, f"touch ../agent/ready; {DEAF}"))
    runner = subprocess.Popen(
        argv, cwd=world.project, env=world.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    until(lambda: (world.agent / "ready").exists(), "the agent runs")
    runner.send_signal(signum)
    output, _ = runner.communicate(timeout=GRACE + 20)
    assert runner.returncode == 128 + signum
    assert "everything is saved. To continue: pi-marathon --task task" in output
    assert nobody_left(world)


def test_grandchildren_in_sessions_of_their_own_do_not_outlive_the_session(world: World) -> None:
    leave = (
        "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >> ../agent/pids; "
        "setsid sh -c '(sleep 1000 & echo $! >> ../agent/pids) ; exec sleep 1000' </dev/null >/dev/null 2>&1 & "
        "while [ $(wc -l < ../agent/pids) -lt 2 ]; do sleep 0.01; done"
    )
    world.script(research(run=leave), plan())
    done = world.run()
    assert done.returncode == 3
    assert "that the agent had left running" in done.stdout
    pids = [int(pid) for pid in (world.agent / "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)
    assert nobody_left(world)


def test_no_zombie_is_left_after_many_sessions(world: World, in_background: Start) -> None:
    many = 1000 if os.environ.get("MARATHON_FULL_SWEEP") else 40
    orphan = {"run": "(setsid true &); (sleep 0.01 &); true"}
    world.script(research(), plan(), *([chunk(**orphan)] * many), chunk(hold=True), finish())
    runner = in_background("--auto-approve", "--max-iterations", "0")
    until(lambda: world.holding(many + 3), "the last session", seconds=many)
    (guardian,) = (each for each in psutil.Process(runner.pid).children() if each.name() == linux.GUARDIAN)
    assert all(tree.is_alive(process) for process in guardian.children())
    assert len(os.listdir(f"/proc/{runner.pid}/fd")) < 30
    world.release(many + 3)
    output, _ = runner.communicate(timeout=60)
    assert runner.returncode == 0, output
    assert nobody_left(world)


def test_an_agent_that_dies_at_once_is_tried_with_growing_waits_and_then_a_gate_tells_why(world: World) -> None:
    world.script({"say": ["fatal: no such model"], "exit": 42})
    done = world.run("--retries", "3", "--retry-wait", "0.1s")
    assert done.returncode == 1
    assert world.sessions() == 4
    waits = [record["seconds"] for record in world.records("wait_started")]
    assert waits == sorted(waits)
    assert waits[0] == pytest.approx(0.1)
    assert waits[-1] >= 3 * waits[0]
    assert "Phase: research" in done.stdout
    assert "The agent failed 4 times in a row; last: exit code 42: fatal: no such model" in done.stdout
    assert [record["reason"] for record in world.records("gate_opened")] == ["failed"]


def test_a_storm_that_outlives_its_runner_is_not_forgotten(world: World, in_background: Start) -> None:
    world.script({"exit": 1})
    runner = in_background("--retries", "2", "--retry-wait", "30s")
    until(lambda: (world.task / ".marathon/journal.jsonl").exists() and world.records("wait_started"), "the first wait")
    runner.kill()
    runner.wait()
    again = in_background("--retries", "2", "--retry-wait", "30s")
    until(lambda: any("trying again" in line for line in again.stdout or ()), "it goes on waiting")
    assert world.sessions() == 1
    assert len(world.records("wait_started")) == 1


def test_a_good_session_ends_the_count_of_failures(world: World) -> None:
    fail = {"exit": 3}
    working = {"append": {"work.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
    world.script(fail, fail, working, fail, fail, research())
    done = world.run("--retries", "2", "--retry-wait", "0s", "--breaker", "same-error=0")
    assert done.returncode == 3
    assert world.sessions() == 6
    assert [record["reason"] for record in world.records("gate_opened")] == ["review"]
