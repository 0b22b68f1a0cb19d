"""Finding and ending processes, and leaving strangers alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from marathon.process import tree
from tests.process.driver import until

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str, **env: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **env})
        started.append(child)
        return child

    yield begin
    for child in started:
        child.kill()
        child.wait()
        assert child.stdout
        child.stdout.close()


def first_line(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout
    return child.stdout.readline().strip()


def test_a_process_is_there_until_it_is_reaped_and_alive_until_it_ends(start: Start) -> None:
    child = start("sleep", "60")
    process = tree.look(child.pid)
    assert process
    assert tree.is_alive(process)
    child.kill()
    until(lambda: not tree.is_alive(process), "it is dead")
    assert tree.look(child.pid)
    child.wait()
    assert tree.look(child.pid) is None


@pytest.mark.parametrize("pid", [-1, 2**22 + 1, 2**70])
def test_a_number_that_can_be_no_pid_names_no_one(pid: int) -> None:
    assert tree.look(pid) is None
    assert tree.ancestors(pid) == tree.descendants(pid) == []


def test_descendants_are_the_whole_tree(start: Start) -> None:
    child = start("sh", "-c", "setsid sh -c 'sleep 60 & echo $!; wait' & wait")
    deepest = int(first_line(child))
    found = tree.descendants(child.pid)
    assert deepest in [below.pid for below in found]
    assert child.pid not in [below.pid for below in found]
    assert tree.end(found, 5) == len(found) >= 2


def test_strays_are_found_by_what_they_were_started_with(start: Start) -> None:
    mark = f"mark-{os.getpid()}"
    child = start("sleep", "61", MARATHON_TEST_STRAY=mark)
    start("sleep", "61", MARATHON_TEST_STRAY=mark + "0")
    until(lambda: tree.find_by_environ("MARATHON_TEST_STRAY", mark), "the stray is found")
    (stray,) = tree.find_by_environ("MARATHON_TEST_STRAY", mark)
    assert (stray.pid, tree.command_of(stray)) == (child.pid, "sleep 61")


def test_neither_we_nor_our_ancestors_are_strays(start: Start) -> None:
    look = "from marathon.process import tree; print(len(tree.find_by_environ('MARATHON_TEST_OWN', 'x')))"
    child = start("sh", "-c", f'{sys.executable} -c "{look}"; :', MARATHON_TEST_OWN="x", PYTHONPATH=os.getcwd())
    assert first_line(child) == b"0"


def test_end_counts_those_that_were_there(start: Start) -> None:
    gone, child = start("true"), start("sleep", "60")
    over, there = psutil.Process(gone.pid), psutil.Process(child.pid)
    gone.wait()
    assert tree.end([over, there], 5) == 1
    assert child.wait() == -signal.SIGTERM


@pytest.mark.parametrize("trick", ["trap '' TERM", "kill -STOP $$"])
def test_end_ends_what_ignores_it_or_stands_still(start: Start, trick: str) -> None:
    child = start("sh", "-c", f"trap '' TERM; echo ready; {trick}; while :; do sleep 0.1; done")
    first_line(child)
    assert tree.end([psutil.Process(child.pid)], 0.3) == 1
    assert child.wait() == -signal.SIGKILL


# In a pid namespace of their own: what is older than it belongs to session 0, and pids can be handed out at will.
REUSED = """
first = subprocess.Popen(["sleep", "60"])
known = tree.look(first.pid)
first.kill(), first.wait()
time.sleep(0.05)  # more than the start times are exact to
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first.pid - 1))
stranger = subprocess.Popen(["sleep", "60"])
assert stranger.pid == first.pid, (stranger.pid, first.pid)
assert tree.end([known], 0.2) == 0
assert not tree.send(known, signal.SIGKILL)
"""
# A guardian that died before it had an agent has left nothing; no process is in the session of an agent that never was.
NO_AGENT = """
stranger = subprocess.Popen(["sleep", "60"])
assert os.getsid(stranger.pid) == 0
assert tree.strays("the mark of no tree", 0) == []
assert tree.session_of(tree.look(stranger.pid)) == 0
"""
# Nothing older than the runner can be of its tree, whatever session it is in.
OLDER = """
stranger = subprocess.Popen(["setsid", "sleep", "60"], env={"MARATHON_TREE": "x", "PATH": os.environ["PATH"]})
time.sleep(0.3)
assert os.getsid(stranger.pid) == stranger.pid
find = "from marathon.process import tree; print(tree.strays('x', int(__import__('sys').argv[1])))"
found = subprocess.run([sys.executable, "-c", find, str(stranger.pid)], capture_output=True, text=True, check=True)
assert found.stdout == "[]\\n", found.stdout
assert [each.pid for each in tree.strays("x", 0)] == [stranger.pid]
"""


@pytest.mark.parametrize("story", [REUSED, NO_AGENT, OLDER], ids=["pid used again", "no agent", "older"])
def test_a_stranger_is_never_taken_for_one_of_ours(story: str) -> None:
    begin = "import os, signal, subprocess, sys, time\nfrom marathon.process import tree\n"
    end = "assert stranger.poll() is None\nstranger.kill(), stranger.wait()\nprint('left alone')"
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", begin + story + end]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, text=True)
    if done.stderr.startswith("unshare") or "ns_last_pid" in done.stderr:
        pytest.skip("may not make a pid namespace here")
    assert done.stdout == "left alone\n", done.stderr
