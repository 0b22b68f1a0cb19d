"""kill -9 of the runner and of pi at random moments of one long marathon: nothing is lost, nothing is done twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time

import psutil
import pytest

from marathon.process import tree
from tests.process.driver import until
from tests.real.model_server import coding_agent
from tests.real.real_world import RealWorld, pis

KILLS = 10
CHUNKS = 50


def check_the_end(real: RealWorld) -> None:
    """The marathon is complete, every review was passed once and in order, every file is whole."""
    assert real.state()["state"] == "completed"
    assert real.read("result.md")
    moved = [record["phase"] for record in real.records("moved")]
    assert moved == ["plan", "implement"]
    opened = [record["phase"] for record in real.records("gate_opened") if record["reason"] == "review"]
    assert opened == ["research", "plan"]
    assert [record["by"] for record in real.records("gate_answered")] == ["auto", "auto"]


@pytest.mark.parametrize("times", [4, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_the_runner_killed_again_and_again(real: RealWorld, times: int) -> None:
    chance = random.Random(20260202)
    real.plays(coding_agent(real.task, chunks=CHUNKS))
    kills = 0
    while kills < times:
        runner = real.start("--auto-approve")
        try:
            runner.wait(chance.uniform(0.3, 3.0))
        except subprocess.TimeoutExpired:
            kills += 1
        else:
            break
        finally:
            runner.kill()
            runner.communicate()
        until(lambda: not left_over(real), "the agent dies with its runner")
    last = real.run("--auto-approve", timeout=120)
    assert last.returncode == 0, last.stdout
    assert kills >= times
    check_the_end(real)


@pytest.mark.slow  # test_failures.py kills one
def test_pi_killed_ten_times(real: RealWorld) -> None:
    chance = random.Random(20260203)
    real.plays(coding_agent(real.task, chunks=CHUNKS))
    every_time = ("--retries", "50", "--retry-wait", "0.1s", "--breaker", "same-error=0")
    runner = real.start("--auto-approve", *every_time)
    kills = 0
    try:
        while kills < KILLS and runner.poll() is None:
            time.sleep(chance.uniform(0.1, 1.2))
            for pid in pis(real):
                with contextlib.suppress(ProcessLookupError):  # it has just come to its own end
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
        said = runner.communicate(timeout=120)[0]
    finally:
        runner.kill()
    assert runner.returncode == 0, said
    assert kills >= KILLS
    check_the_end(real)


def left_over(real: RealWorld) -> list[psutil.Process]:
    return [process for process in tree.everyone() if str(real.program.parent) in environ_of(process.pid)]


def environ_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().decode("utf-8", "replace") if pid != os.getpid() else ""
    except OSError:
        return ""
