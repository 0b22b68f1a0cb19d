"""A guardian belongs to one tree, cannot be talked out of its work, and never outlives the runner."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from marathon.process import linux, tree
from marathon.process.start import StartFailed
from tests.process.driver import Log, Session, alive, children, environment, harness, marked, until


def guardian_of(session: Session) -> int:
    return int(session.sh("echo $PPID").text())


def test_a_guardian_is_gone_with_its_tree(session: Session) -> None:
    before = children()
    assert not alive(guardian_of(session))
    with pytest.raises(StartFailed):
        session.run("no-such-program-anywhere")
    assert children() <= before


def test_agents_that_live_at_once_have_guardians_of_their_own(session: Session) -> None:
    beside: list[int] = []
    session.on_line = lambda line: beside.append(guardian_of(Session(session.cwd, session.mark)))
    first = int(session.sh("echo $PPID; sleep 0.5").text())
    assert len({first, *beside}) == 2


@pytest.mark.skipif(not linux.HERE, reason="only Linux kills a child with its parent")
@pytest.mark.parametrize("runner_fate", [signal.SIGSTOP, signal.SIGKILL])
def test_an_agent_dies_with_its_guardian_whatever_the_runner_does(tmp_path: Path, runner_fate: int) -> None:
    log = Log(tmp_path / "log")
    argv = harness(log.path, "sh", "-c", "trap '' TERM HUP; echo $PPID $$; while :; do sleep 0.1; done")
    with subprocess.Popen(argv, env=environment(), cwd=tmp_path) as process:
        try:
            guardian, agent = map(int, log.wait("output")["line"].split())
            os.kill(process.pid, signal.SIGSTOP)  # so that neither can react to the other's end
            os.kill(guardian, signal.SIGSTOP)
            os.kill(process.pid, runner_fate)
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
    names = "TERM INT HUP QUIT PIPE ALRM USR1 USR2 TSTP TTIN TTOU"
    ran = session.sh(f"for name in {names}; do kill -$name $PPID; done; setsid sleep 60 & sleep 0.2; exit 3")
    assert (ran.exit.code, ran.exit.reason, ran.exit.swept) == (3, "exited", 1)
    assert marked(session.mark) == []


@pytest.mark.parametrize("escape", ["env -i setsid sleep 1234", "setsid env -i sh -c 'sleep 1234; :'"])
def test_what_hides_its_environment_is_ended_too(session: Session, escape: str) -> None:
    """In portable mode it is known by an earlier look of the guardian, while its parent lived."""
    found: list[int] = []

    def note(line: bytes) -> None:
        found.append(int(line))

    session.on_line = note
    wait = "while ! pgrep -P $! sleep; do :; done" if ":'" in escape else "echo $!"
    session.sh(f"{escape} & {wait}; sleep 2.5")
    assert found
    assert not any(alive(pid) for pid in found)


def test_a_process_without_the_mark_of_the_tree_is_a_stranger(session: Session) -> None:
    stranger = subprocess.Popen(["setsid", "sleep", "60"], env={**os.environ, "MARATHON_TREE": "another"})
    try:
        session.sh("setsid sleep 60 & exit 0")
        assert stranger.poll() is None
        assert tree.look(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()
