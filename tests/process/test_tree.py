"""Finding and ending processes, and leaving strangers alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

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


def process(pid: int) -> tree.Process:
    found = tree.look(pid)
    assert found
    return found


def first_line(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout
    return child.stdout.readline().strip()


def test_identity_tells_a_process_from_a_later_one(start: Start) -> None:
    child = start("sleep", "60")
    pid, begun = tree.identity(child.pid) or (0, 0)
    assert pid == child.pid
    assert begun > (tree.identity(1) or (0, 0))[1]
    child.kill()
    child.wait()
    assert tree.identity(child.pid) is None


def test_a_name_with_spaces_and_brackets_is_read_right(start: Start) -> None:
    child = start(
        sys.executable, "-c", "open('/proc/self/comm', 'w').write('a) S 1 (b'); print(1, flush=True); input()"
    )
    first_line(child)
    assert process(child.pid).parent == os.getpid()


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
    assert (stray.pid, stray.command) == (child.pid, "sleep 61")


def test_neither_we_nor_our_ancestors_are_strays(start: Start) -> None:
    look = "from marathon.process import tree; print(len(tree.find_by_environ('MARATHON_TEST_OWN', 'x')))"
    child = start("sh", "-c", f'{sys.executable} -c "{look}"; :', MARATHON_TEST_OWN="x", PYTHONPATH=os.getcwd())
    assert first_line(child) == b"0"


def test_end_counts_those_that_were_there(start: Start) -> None:
    gone, child = start("true"), start("sleep", "60")
    over, there = process(gone.pid), process(child.pid)
    gone.wait()
    assert tree.end([over, there], 5) == 1
    assert child.wait() == -signal.SIGTERM


@pytest.mark.parametrize("trick", ["trap '' TERM", "kill -STOP $$"])
def test_end_ends_what_ignores_it_or_stands_still(start: Start, trick: str) -> None:
    child = start("sh", "-c", f"trap '' TERM; echo ready; {trick}; while :; do sleep 0.1; done")
    first_line(child)
    assert tree.end([process(child.pid)], 0.3) == 1
    assert child.wait() == -signal.SIGKILL


def test_a_stranger_with_the_same_pid_is_not_signalled(start: Start) -> None:
    child = start("sleep", "60")
    found = process(child.pid)
    stranger = tree.Process(found.pid, 1, found.parent, found.state, found.command)
    assert tree.end([stranger], 0.2) == 0
    assert not tree.send(stranger, signal.SIGKILL)
    assert child.poll() is None


def test_the_children_are_found_whichever_thread_started_them(start: Start) -> None:
    first = start("sleep", "60")
    with ThreadPoolExecutor(1) as other_thread:
        second = other_thread.submit(start, "sleep", "60").result()
        assert {child.pid for child in tree.children(os.getpid())} >= {first.pid, second.pid}
    assert tree.children(first.pid) == []
