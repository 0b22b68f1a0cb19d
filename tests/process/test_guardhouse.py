"""Guardians serve one agent after the other, and never outlive the runner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marathon.process.child import StartFailed
from tests.process.driver import OF_THE_C_LIBRARY, ROOT, Log, Session, alive, environment, harness, until

ONE_SESSION_AND_THEN = """
import sys, time
from pathlib import Path
from tests.process.driver import Session
print(Session(Path(".")).sh("echo $PPID").text().decode(), flush=True)
"""


def guardian_of(session: Session) -> int:
    return int(session.sh("echo $PPID").text())


def test_the_next_agent_has_the_same_guardian(session: Session) -> None:
    assert guardian_of(session) == guardian_of(session)


def test_a_program_that_cannot_start_costs_no_guardian(session: Session) -> None:
    before = guardian_of(session)
    with pytest.raises(StartFailed):
        session.run("no-such-program-anywhere")
    assert guardian_of(session) == before


def test_a_waiting_guardian_that_was_killed_is_replaced(session: Session) -> None:
    killed = guardian_of(session)
    os.kill(killed, signal.SIGKILL)
    until(lambda: not alive(killed), "it has gone")
    replaced = guardian_of(session)
    assert replaced != killed
    assert guardian_of(session) == replaced


def test_agents_that_live_at_once_have_guardians_of_their_own(session: Session) -> None:
    beside: list[int] = []
    session.on_line = lambda line: beside.append(guardian_of(Session(session.cwd, session.mark)))
    first = int(session.sh("echo $PPID").text())
    assert len({first, *beside}) == 2


@contextmanager
def runner(script: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that has run a session, and the guardian that waits in it."""
    argv = [sys.executable, "-c", ONE_SESSION_AND_THEN + script]
    with subprocess.Popen(argv, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_a_waiting_guardian_dies_with_a_runner_killed_by_nine() -> None:
    with runner("time.sleep(60)") as (process, guardian):
        assert alive(guardian)
        process.kill()
        until(lambda: not alive(guardian), "the guardian has gone")


def test_a_waiting_guardian_is_gone_when_the_runner_has_ended() -> None:
    with runner("sys.exit(3)") as (process, guardian):
        assert process.wait() == 3
        assert not alive(guardian)


def test_an_agent_dies_with_its_guardian_even_if_the_runner_sleeps(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    argv = harness(log.path, "sh", "-c", "echo $PPID $$; exec sleep 60")
    with subprocess.Popen(argv, env=environment(), cwd=tmp_path) as process:
        try:
            guardian, agent = map(int, log.wait("output")["line"].split())
            process.send_signal(signal.SIGSTOP)
            os.kill(guardian, signal.SIGKILL)
            until(lambda: not alive(agent), "the agent has gone")
        finally:
            process.kill()


def test_an_environment_larger_than_any_message_arrives(session: Session) -> None:
    session.env = {f"LONG_{number}": "x" * 100_000 for number in range(8)}
    assert int(session.sh("set | wc -c").text()) > 800_000


def test_inherited_files_keep_their_numbers_whatever_these_are(session: Session, tmp_path: Path) -> None:
    opened = [os.open(tmp_path / f"file-{number}", os.O_CREAT | os.O_RDWR) for number in range(12)]
    try:
        shown = session.sh("readlink " + " ".join(f"/proc/$$/fd/{fd}" for fd in opened), inherit=tuple(opened))
    finally:
        for fd in opened:
            os.close(fd)
    assert shown.text().split() == [os.fsencode(tmp_path / f"file-{number}") for number in range(12)]


def test_what_is_sent_to_a_guardian_does_not_end_it(session: Session) -> None:
    before = guardian_of(session)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP):
        os.kill(before, signum)
    assert guardian_of(session) == before
    masks = session.sh("grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2").text().split()
    assert [int(mask, 16) & ~OF_THE_C_LIBRARY for mask in masks] == [0, 0]


def test_the_guardian_loads_little() -> None:
    script = (
        f"import sys; sys.path.append({str(ROOT)!r}); import marathon.process.guardhouse\n"
        "print(*{'typing', 'dataclasses', 're', 'pathlib', 'subprocess', 'json', 'threading'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
