"""One runner per task: the second one is told who has the task, and the death of the holder frees it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.errors import DiskFailed
from marathon.store.lock import Held, TaskLock, holder_of, last_holder
from tests.process.driver import until
from tests.store.tools import Other, all_at_once, mode_of, umask

TASK = Path("docs/tasks/one")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def hold(path: Path, runner: str = "other") -> None:
    """Has the lock until it is killed."""
    TaskLock(path, path.parent, TASK, runner, "pi-marathon --task one")
    signal.pause()


@pytest.fixture
def holder(path: Path) -> Iterator[Other]:
    with Other(lambda: hold(path)) as other:
        until(lambda: (held := holder_of(path)) and held.pid == other.pid, "the other process has the lock")
        yield other


def test_the_second_is_told_who_has_it(path: Path, holder: Other) -> None:
    note = path.read_bytes()
    with pytest.raises(Held) as held:
        TaskLock(path, path.parent, TASK, "mine")
    assert held.value.exit_code == 6
    assert held.value.holder is not None
    assert (held.value.holder.pid, held.value.holder.runner) == (holder.pid, "other")
    assert re.search(rf"pid {holder.pid} on {re.escape(socket.gethostname()[:60])}, for \d+s", str(held.value))
    assert f"pi-marathon stop {TASK}" in str(held.value)
    assert path.read_bytes() == note


def test_of_fifty_at_once_exactly_one_gets_it_and_the_others_name_it(tmp_path: Path, path: Path) -> None:
    done = tmp_path / "done"
    done.mkdir()

    def compete(number: int) -> None:
        try:
            TaskLock(path, path.parent, TASK, f"runner-{number}")
        except Held as held:
            (done / str(number)).write_text(str(held.holder and held.holder.pid))
        else:
            (done / f"winner-{number}").write_text(str(os.getpid()))
            until(lambda: len(os.listdir(done)) == 50, "all have tried")

    all_at_once(50, compete)
    (winner,) = done.glob("winner-*")
    named = {other.read_text() for other in done.iterdir()}
    assert named - {"None"} == {winner.read_text()}  # one that looked before the note was written can name no one


def test_a_killed_holder_leaves_no_stale_lock(path: Path, holder: Other) -> None:
    holder.kill()
    lock = TaskLock(path, path.parent, TASK, "mine")
    assert lock.before is not None
    assert (lock.before.pid, lock.before.runner) == (holder.pid, "other")
    note = holder_of(path)
    assert note is not None
    assert (note.pid, note.runner) == (os.getpid(), "mine")
    lock.release()


def test_a_process_that_inherited_it_keeps_it(tmp_path: Path, path: Path) -> None:
    pids = tmp_path / "pids"

    def runner() -> None:
        lock = TaskLock(path, path.parent, TASK, "runner")
        child = Other(signal.pause)
        assert lock.fd >= 0
        pids.with_suffix(".new").write_text(str(child.pid))
        pids.with_suffix(".new").rename(pids)
        signal.pause()

    with Other(runner) as other:
        agent = int(until(lambda: pids.exists() and pids.read_text(), "runner and agent are there"))
        try:
            other.kill()
            with pytest.raises(Held) as held:
                TaskLock(path, path.parent, TASK, "mine")
            assert held.value.holder is not None
            assert (held.value.holder.pid, held.value.holder.runner) == (other.pid, "runner")
        finally:
            os.kill(agent, signal.SIGKILL)

    def is_free() -> bool:
        with contextlib.suppress(Held):
            TaskLock(path, path.parent, TASK, "mine").release()
            return True
        return False

    until(is_free, "the agent's death frees it")


def test_released_it_is_free_and_who_had_it_is_still_known(path: Path) -> None:
    TaskLock(path, path.parent, TASK, "mine", "pi-marathon --task one", Path("/home/user/project")).release()
    assert holder_of(path) is None
    last = last_holder(path)
    assert last is not None
    assert (last.pid, last.runner, last.resume, last.cwd) == (
        os.getpid(),
        "mine",
        "pi-marathon --task one",
        "/home/user/project",
    )


def test_a_look_makes_nothing_and_takes_nothing(path: Path, holder: Other) -> None:
    assert holder_of(path.with_name("none")) is None
    assert last_holder(path.with_name("none")) is None
    assert not path.with_name("none").exists()
    note = holder_of(path)
    assert note is not None
    assert note.pid == holder.pid
    assert note.since == pytest.approx(time.time(), abs=60)


def test_looking_never_makes_a_starting_runner_fail(path: Path) -> None:
    TaskLock(path, path.parent, TASK, "first").release()

    def look_all_the_time() -> None:
        while True:
            holder_of(path)

    with Other(look_all_the_time), Other(look_all_the_time):
        for number in range(100):
            TaskLock(path, path.parent, TASK, f"runner-{number}").release()


def test_a_shorter_note_leaves_nothing_of_a_longer_one(path: Path) -> None:
    TaskLock(path, path.parent, TASK, "long" * 20, "pi-marathon " + "x" * 500).release()
    lock = TaskLock(path, path.parent, TASK, "short")
    assert json.loads(path.read_text())["runner"] == "short"
    assert path.read_text() == path.read_text().rstrip()
    lock.release()


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"null", b'{"pid": "x"}', b"\xff", b"9" * 5000])
def test_a_note_that_no_one_can_read_does_not_matter(path: Path, note: bytes) -> None:
    path.write_bytes(note)
    assert last_holder(path) is None
    lock = TaskLock(path, path.parent, TASK, "mine")
    assert lock.before is None
    path.write_bytes(note)
    assert holder_of(path) is not None
    with pytest.raises(Held, match="Another runner has this task"):
        TaskLock(path, path.parent, TASK, "second")
    lock.release()


def test_a_symlink_is_no_lock(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    with pytest.raises(DiskFailed) as refused:
        TaskLock(path, path.parent, TASK, "mine")
    assert str(path) in str(refused.value)
    assert holder_of(path) is None
    assert target.read_bytes() == b"precious"


def test_the_lock_is_private(path: Path) -> None:
    with umask(0):
        TaskLock(path, path.parent, TASK, "mine").release()
    assert mode_of(path) == 0o600
