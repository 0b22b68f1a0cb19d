"""What can happen while pi is asked for an empty context; a small program, slow or silent there, answers for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.process import tree
from tests.process.driver import until
from tests.support.world import World

# Speaks pi's RPC: every prompt is over at once. With a file `silent` it never answers new_session, else after 0.4 s;
# with a file `last` that is the last thing it does.
SLOW_PI = """
import json, os, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
if sys.argv[2] == "--version":
    sys.exit(print("0.87.1"))
if "--no-session" in sys.argv:  # the start that the runner makes to see whether pi works
    sys.exit()
with (here / "started").open("a") as file:
    file.write(f"{os.getpid()}\\n")

def say(**record):
    print(json.dumps(record), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "new_session":
        (here / "asked").touch()
        while (here / "silent").exists():
            time.sleep(0.02)
        time.sleep(0.4)
    say(id=asked["id"], type="response", command=asked["type"], success=True)
    if (here / "last").exists():
        (here / "last").unlink()
        break
    if asked["type"] == "prompt":
        say(type="agent_start")
        say(type="agent_settled")
"""


@pytest.fixture
def slow(world: World, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A marathon of two sessions with it, in the background."""
    script = tmp_path / "slow_pi.py"
    script.write_text(SLOW_PI)
    program = tmp_path / "pi"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{script}" "{tmp_path}" "$@"\n')
    program.chmod(0o755)
    runner = subprocess.Popen(
        world.argv("--task", "task", "--agent", "pi", "--mode", "stream", "--max-iterations", "2"),
        cwd=world.project,
        env=world.env(MARATHON_PI=str(program)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    yield runner
    if runner.poll() is None:
        below = tree.descendants(runner.pid)
        runner.kill()
        tree.end(below, 0.2)
    runner.wait()


def started(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "started").read_text().splitlines()]


def test_the_time_it_takes_counts_for_the_session_that_needs_it(
    world: World, tmp_path: Path, slow: subprocess.Popen[str]
) -> None:
    assert slow.wait(60) == 4
    assert len(started(tmp_path)) == 1
    second = world.task / ".marathon" / "runs" / "001" / "iterations" / "002.json"
    assert json.loads(second.read_text())["seconds"] >= 0.4


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_meanwhile_ends_the_marathon_and_starts_no_other_pi(
    world: World, tmp_path: Path, signum: int, code: int, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "silent").touch()
    slow: subprocess.Popen[str] = request.getfixturevalue("slow")
    until(lambda: (tmp_path / "asked").exists(), "pi is asked for an empty context")
    slow.send_signal(signum)
    assert slow.wait(60) == code
    (pid,) = started(tmp_path)
    assert tree.look(pid) is None
    assert world.records("session_ended")[-1]["ending"] == "interrupted"


def test_a_pi_that_dies_meanwhile_is_followed_by_a_new_one(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "silent").touch()
    slow: subprocess.Popen[str] = request.getfixturevalue("slow")
    until(lambda: (tmp_path / "asked").exists(), "pi is asked for an empty context")
    (pid,) = started(tmp_path)
    process = tree.look(pid)
    assert process is not None
    assert tree.send(process, signal.SIGKILL)
    assert slow.wait(60) == 4
    assert len(started(tmp_path)) == 2


@pytest.mark.parametrize("told", [True, False])
def test_a_pi_that_dies_with_its_answer_is_followed_by_a_new_one(
    tmp_path: Path, told: bool, request: pytest.FixtureRequest
) -> None:
    """The runner sleeps meanwhile, so that it hears of both at once. Or pi's guardian is late to tell it."""
    (tmp_path / "silent").touch()
    slow: subprocess.Popen[str] = request.getfixturevalue("slow")
    until(lambda: (tmp_path / "asked").exists(), "pi is asked for an empty context")
    (pid,) = started(tmp_path)
    process = tree.look(pid)
    assert process is not None
    slow.send_signal(signal.SIGSTOP)
    if not told:
        guardian = process.parent()
        assert guardian is not None
        guardian.suspend()
    (tmp_path / "last").touch()
    (tmp_path / "silent").unlink()
    until(lambda: not tree.is_alive(process), "pi is gone")
    if told:
        until(lambda: tree.look(pid) is None, "its guardian knows")
    slow.send_signal(signal.SIGCONT)
    assert slow.wait(60) == 4
    assert len(started(tmp_path)) == 2
