"""Nothing a session started outlives it, whoever dies first."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.process import tree
from tests.process.driver import Log, Session, children, environment, harness, marked, until

# Daemons in sessions of their own: born of a double fork, one deaf to TERM, one standing still.
FAMILY = """
setsid sh -c 'sleep 61 & wait' &
(setsid setsid sleep 62 &)
setsid sh -c "trap '' TERM; touch deaf; while :; do sleep 0.1; done" &
setsid sh -c 'touch still; kill -STOP $$' &
until [ -e deaf ] && [ -e still ]; do sleep 0.02; done
echo ready $$
"""


def left(mark: str) -> list[str]:
    return [tree.command_of(process) for process in marked(mark)]


def test_grandchildren_in_their_own_sessions_are_ended(session: Session) -> None:
    ran = session.sh(FAMILY + "exit 4")
    assert left(session.mark) == []
    assert (ran.exit.code, ran.exit.reason) == (4, "exited")
    assert ran.exit.swept >= 4


def test_a_grandchild_that_holds_the_pipe_does_not_hold_us(session: Session) -> None:
    started = time.monotonic()
    ran = session.sh("setsid sleep 60 & echo over")
    assert ran.text() == b"over"
    assert time.monotonic() - started < 20


def test_somebody_outside_the_tree_who_holds_the_pipe_does_not_hold_us(session: Session) -> None:
    held: list[int] = []

    def grab(line: bytes) -> None:
        if line.isdigit():
            held.append(os.open(f"/proc/{int(line)}/fd/1", os.O_WRONLY))
            (session.cwd / "grabbed").touch()

    session.on_line = grab
    ran = session.sh("echo $$; until [ -e grabbed ]; do sleep 0.02; done; printf last")
    os.close(held[0])
    assert ran.lines[-1] == ("out", b"last", True)
    assert ran.exit.code == 0


def test_a_killed_guardian_takes_the_tree_with_it(session: Session) -> None:
    before = children()
    session.on_line = lambda line: os.kill(int(line), signal.SIGKILL) if line.isdigit() else None
    ran = session.sh(FAMILY + "echo $PPID; sleep 60")
    assert left(session.mark) == []
    assert (ran.exit.signal, ran.exit.reason) == (signal.SIGKILL, "exited")
    assert ran.exit.swept >= 4
    assert children() <= before


def test_a_stopped_guardian_is_woken(session: Session) -> None:
    ran = session.sh("kill -STOP $PPID; setsid sleep 60 & exit 3")
    assert left(session.mark) == []
    assert (ran.exit.code, ran.exit.swept) == (3, 1)


def test_a_guardian_that_is_stopped_again_and_again_does_not_save_the_tree(session: Session) -> None:
    ran = session.sh("trap '' TERM; while :; do kill -STOP $PPID; done", timeout=0.3, grace=0.5)
    assert left(session.mark) == []
    assert ran.exit.reason == "timeout"


def test_a_swarm_that_keeps_forking_is_ended(session: Session) -> None:
    swarm = "trap '' TERM; f() { (trap '' TERM; sleep 0.05; f) & }; f; f; sleep 0.3; exit 0"
    session.sh(swarm)
    assert left(session.mark) == []


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Log, str]]:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    log = Log(tmp_path / "log")
    argv = harness(log.path, "sh", "-c", FAMILY + "trap '' TERM; while :; do sleep 0.1; done")
    child = subprocess.Popen(argv, env=environment(MARATHON_TEST_MARK=mark), cwd=tmp_path)
    try:
        log.wait("output")
        yield child, log, mark
    finally:
        child.kill()
        child.wait()
        tree.end(marked(mark), 0.2)


def test_a_runner_killed_by_nine_takes_everything_with_it(
    runner: tuple[subprocess.Popen[bytes], Log, str],
) -> None:
    child, _, mark = runner
    assert len(left(mark)) >= 6
    child.kill()
    child.wait()
    until(lambda: not left(mark), "the tree is gone with its runner", 10)


def test_a_runner_that_dies_with_reports_unread_takes_everything_with_it(
    runner: tuple[subprocess.Popen[bytes], Log, str],
) -> None:
    child, log, mark = runner
    child.send_signal(signal.SIGSTOP)
    agent = int(log.wait("output")["line"].split()[1])
    os.kill(agent, signal.SIGKILL)
    until(lambda: tree.look(agent) is None, "the agent is reaped and reported")
    child.kill()
    child.wait()
    until(lambda: not left(mark), "the tree is gone with its runner", 10)


def test_a_killed_process_group_of_the_runner_does_not_include_the_guardian(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    log = Log(tmp_path / "log")
    argv = harness(log.path, "sh", "-c", FAMILY + "sleep 60")
    child = subprocess.Popen(argv, env=environment(MARATHON_TEST_MARK=mark), cwd=tmp_path, process_group=0)
    log.wait("output")
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    until(lambda: not left(mark), "the tree is gone with its runner", 10)


@pytest.mark.parametrize(("signum", "reason"), [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "hungup")])
def test_a_signal_to_the_runner_ends_the_tree(
    runner: tuple[subprocess.Popen[bytes], Log, str], signum: int, reason: str
) -> None:
    child, log, mark = runner
    child.send_signal(signum)
    assert log.wait("exit")["reason"] == reason
    assert child.wait() == 0
    assert left(mark) == []
