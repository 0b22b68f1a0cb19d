"""A task's home: found by the task's path, taken along after a move, and shown by a link that no one follows."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.core.records import Begun, Record, Remark
from marathon.errors import DiskFailed, NotAdopted, TaskBusy
from marathon.store.file_store import FileStore
from marathon.store.home import Home, home_of, homes
from marathon.store.journal import read_journal
from marathon.store.lock import Held, holder_of
from marathon.store.task import Task
from tests.store.tools import Other, mode_of, umask

BEGUN = Begun(workflow="rpi", path=[("rpi", 0)], phase="research", id="0123456789abcdef")
RECORDS: list[Record] = [BEGUN, Remark(text="one"), Remark(text="two 漢字 \u2028"), Remark(text="three")]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A task with four records, whose runner has ended."""
    made = Task(tmp_path / "task")
    made.folder.mkdir()
    append(made, *RECORDS)
    return made


def store_of(task: Task, *, adopt: bool = False) -> FileStore:
    return FileStore(task, lambda: datetime(2026, 2, 2, 14, 30, tzinfo=UTC), adopt=adopt)


def append(task: Task, *records: Record, adopt: bool = False) -> list[Record]:
    """As a runner: what was there, and what is added."""
    store = store_of(task, adopt=adopt)
    lease = store.lease(task.folder, "m-1", "", Path("/"))
    try:
        return [*store.replay(), *(store.append(record) for record in records)]
    finally:
        lease.release()


def plain(records: list[Record]) -> list[Record]:
    return [replace(record, n=0, at="") for record in records]


def test_the_home_is_private_and_outside_of_the_project(tmp_path: Path) -> None:
    task = Task(tmp_path / "task")
    task.folder.mkdir()
    with umask(0):
        append(task, *RECORDS)
    assert not task.own.is_relative_to(tmp_path / "task")
    assert mode_of(task.own) == 0o700
    assert mode_of(task.journal_path) == 0o600
    assert sorted(path.name for path in task.folder.iterdir()) == [".gitignore", ".marathon"]
    assert os.readlink(task.folder / ".marathon") == str(task.own)
    assert (task.folder / ".gitignore").read_text() == "/.marathon\n/.gitignore\n"


def test_a_gitignore_of_the_human_stays_as_it_is(tmp_path: Path) -> None:
    task = Task(tmp_path / "task")
    task.folder.mkdir()
    (task.folder / ".gitignore").write_text("mine\n")
    append(task, *RECORDS)
    assert (task.folder / ".gitignore").read_text() == "mine\n"


def test_a_task_reached_by_another_path_has_the_same_home(task: Task, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(task.folder)
    assert home_of(tmp_path / "link") == home_of(tmp_path / "x" / ".." / "task") == task.own


# What others do to the link


def forged(task: Task) -> None:
    (task.folder / ".marathon").unlink()
    (task.folder / ".marathon").mkdir()
    (task.folder / ".marathon" / "journal.jsonl").write_text('{"n":1,"at":"","type":"remark","text":"forged"}\n')


def led_elsewhere(task: Task) -> None:
    (task.folder / ".marathon").unlink()
    (task.folder / ".marathon").symlink_to(task.folder.parent)


def removed(task: Task) -> None:
    (task.folder / ".marathon").unlink()


@pytest.mark.parametrize("harm", [forged, led_elsewhere, removed])
def test_what_is_done_to_the_link_changes_nothing_and_is_told(task: Task, harm) -> None:  # type: ignore[no-untyped-def]
    harm(task)
    store = store_of(task)
    lease = store.lease(task.folder, "m-1", "", Path("/"))
    assert plain(store.replay()) == RECORDS
    assert len(store.news()) == 1
    harm(task)
    store.append(Remark(text="next"))
    assert len(store.news()) == 1
    assert plain(read_journal(task.journal_path)) == [*RECORDS, Remark(text="next")]
    assert os.readlink(task.folder / ".marathon") == str(task.own)
    lease.release()


def test_what_was_put_in_the_place_of_the_link_is_kept(task: Task) -> None:
    forged(task)
    append(task)
    assert "forged" in (task.folder / ".marathon.found-20260202-143000" / "journal.jsonl").read_text()


# What others do to the journal


def test_what_others_add_while_a_runner_lives_counts_for_nothing(task: Task) -> None:
    store = store_of(task)
    lease = store.lease(task.folder, "m-1", "", Path("/"))
    store.replay()
    with (task.folder / ".marathon" / "journal.jsonl").open("a") as journal:  # the agent has the same user
        journal.write('{"n":5,"at":"","type":"remark","text":"forged"}\n')
    store.append(Remark(text="next"))
    assert plain(read_journal(task.journal_path)) == [*RECORDS, Remark(text="next")]
    (told,) = store.news()
    (kept,) = task.own.glob("journal.jsonl.added-*")
    assert str(kept) in told
    assert "forged" in kept.read_text()
    lease.release()


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:100])])
def test_a_journal_that_was_cut_while_a_runner_lives_gets_no_further_record(task: Task, harm) -> None:  # type: ignore[no-untyped-def]
    store = store_of(task)
    lease = store.lease(task.folder, "m-1", "", Path("/"))
    store.replay()
    harm(task.journal_path)
    with pytest.raises(DiskFailed, match="cut or removed"):
        store.append(Remark(text="next"))
    lease.release()


# Locks


def test_an_agent_that_lets_go_of_what_it_inherited_lets_no_second_runner_in(task: Task) -> None:
    lease = store_of(task).lease(task.folder, "m-1", "", Path("/"))

    def an_agent() -> None:
        import fcntl

        fcntl.flock(lease.fd, fcntl.LOCK_UN)
        (task.folder / ".marathon").unlink()

    assert Other(an_agent).wait() == 0
    with pytest.raises(Held) as held:
        store_of(task).lease(task.folder, "m-2", "", Path("/"))
    assert held.value.holder is not None
    assert (held.value.holder.pid, held.value.holder.runner) == (os.getpid(), "m-1")
    lease.release()


def test_two_homes_never_run_one_task(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = store_of(task).lease(task.folder, "m-1", "", Path("/"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(Held):
        store_of(Task(task.folder)).lease(task.folder, "m-2", "", Path("/"))
    lease.release()
    store_of(Task(task.folder)).lease(task.folder, "m-2", "", Path("/")).release()


# Another place


def test_a_task_that_was_moved_takes_its_record_along_after_a_yes(task: Task, tmp_path: Path) -> None:
    moved = Task(Path(shutil.move(task.folder, tmp_path / "moved")))
    moved.inbox.put("steer", text="words of a human who did not wait")
    with pytest.raises(NotAdopted, match="--adopt") as refused:
        append(moved)
    assert str(task.folder) in str(refused.value)
    assert task.journal_path.exists()
    assert plain(append(moved, adopt=True)) == RECORDS
    assert [message.text for message in moved.inbox.messages()] == ["words of a human who did not wait"]
    assert plain(append(moved)) == RECORDS, "it is asked once"
    assert not task.own.exists()
    assert [home.task for home in homes()] == [moved.folder]
    task.folder.mkdir()
    assert append(Task(task.folder)) == [], "the old place is free for another task"


def test_a_copy_is_a_new_task(task: Task, tmp_path: Path) -> None:
    copied = Task(Path(shutil.copytree(task.folder, tmp_path / "copy", symlinks=True)))
    assert append(copied) == []
    assert plain(append(task)) == RECORDS
    assert os.readlink(copied.folder / ".marathon") == str(copied.own)


def test_a_link_that_names_any_folder_brings_no_record(task: Task, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / task.own.name
    shutil.copytree(task.own, elsewhere)
    other = Task(tmp_path / "other")
    other.folder.mkdir()
    (other.folder / ".marathon").symlink_to(elsewhere)
    assert append(other, adopt=True) == []


def test_homes_of_folders_that_are_gone_are_known(task: Task) -> None:
    shutil.rmtree(task.folder)
    assert [home.task for home in homes()] == [task.folder]


# The record of an older version lies in the task's folder, with a copy of the journal where its home is now.


@pytest.fixture
def older(task: Task) -> Task:
    """The same task as the version before left it."""
    (task.folder / ".marathon").unlink()
    (task.folder / ".gitignore").unlink()
    inside = task.folder / ".marathon"
    inside.mkdir()
    (inside / ".gitignore").write_text("*\n")
    shutil.copy(task.journal_path, inside / "journal.jsonl")
    (inside / "lock").write_text('{"pid": 1, "host": "h", "runner": "m-1", "since": 1, "seal": "x"}')
    (inside / "summary.json").write_text("{}")
    (inside / "inbox").mkdir()
    (inside / "inbox" / "0001.json").write_text(json.dumps({"kind": "steer", "text": "words"}))
    (inside / "runs" / "001" / "rounds").mkdir(parents=True)
    (inside / "runs" / "001" / "rounds" / "research-1.md").write_text("findings\n")
    (task.own / "home.json").unlink()
    (task.own / "place").write_bytes(os.fsencode(task.folder))
    return Task(task.folder)


@pytest.mark.parametrize("behind", [0, 1])
def test_the_record_of_an_older_version_is_moved_once(older: Task, behind: int) -> None:
    """Killed between its two writes, that version left the folder one record behind."""
    lines = (older.folder / ".marathon" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (older.folder / ".marathon" / "journal.jsonl").write_bytes(b"".join(lines[: len(lines) - behind]))
    store = store_of(older)
    lease = store.lease(older.folder, "m-2", "", Path("/"))
    assert plain(store.replay()) == RECORDS
    assert len(store.news()) == 1
    assert [message.text for message in store.messages()] == ["words"]
    assert older.runs.round_path(1, "research", 1).read_text() == "findings\n"
    assert os.readlink(older.folder / ".marathon") == str(older.own)
    lease.release()
    store = store_of(older)
    lease = store.lease(older.folder, "m-2", "", Path("/"))
    assert plain(store.replay()) == RECORDS
    assert store.news() == []
    lease.release()


def test_a_move_that_was_cut_off_is_completed(older: Task) -> None:
    """Killed after some of it was moved: what is left comes with the next start."""
    shutil.move(older.folder / ".marathon" / "inbox", older.own / "inbox")
    (older.folder / ".marathon" / "inbox").mkdir()
    (older.folder / ".marathon" / "inbox" / "0002.json").write_text(json.dumps({"kind": "steer", "text": "more"}))
    assert plain(append(older)) == RECORDS
    assert older.runs.round_path(1, "research", 1).exists()
    assert [message.text for message in older.inbox.messages()] == ["words", "more"]


@pytest.mark.parametrize("copy", ["gone", "another one"])
def test_a_record_in_the_folder_counts_only_beside_its_copy(older: Task, copy: str) -> None:
    """Where the two do not fit, neither counts, and only after a yes."""
    if copy == "gone":
        shutil.rmtree(older.own)
    else:
        with (older.folder / ".marathon" / "journal.jsonl").open("ab") as journal:
            journal.write(b'{"n":5,"at":"","type":"remark","text":"forged"}\n' * 2)
    inside = (older.folder / ".marathon" / "journal.jsonl").read_bytes()
    older.inbox.put("steer", text="said here")
    if copy != "gone":
        outside = older.journal_path.read_bytes()
        with pytest.raises(NotAdopted, match="--adopt"):
            append(older)
        assert (older.folder / ".marathon" / "journal.jsonl").read_bytes() == inside
        assert older.journal_path.read_bytes() == outside
    assert append(older, adopt=True) == []
    (kept,) = older.folder.glob(".marathon.found-*")
    assert (kept / "journal.jsonl").read_bytes() == inside
    assert [message.text for message in older.inbox.messages()] == ["said here"]
    assert append(older) == [], "it is asked once"


def test_a_living_runner_of_an_older_version_keeps_its_task(older: Task) -> None:
    def the_runner() -> None:
        import fcntl
        import signal

        lock = os.open(older.folder / ".marathon" / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        (older.folder / "holds").touch()
        signal.pause()

    from tests.process.driver import until

    with Other(the_runner):
        until((older.folder / "holds").exists, "it has the lock")
        with pytest.raises(TaskBusy) as busy:
            append(older)
        assert busy.value.exit_code == 6
    assert plain(append(older)) == RECORDS


def test_a_link_inside_of_an_older_record_is_not_taken_along(older: Task, tmp_path: Path) -> None:
    (older.folder / ".marathon" / "runs" / "001" / "rounds" / "plan-1.md").symlink_to("/etc/hostname")
    with pytest.raises(Exception, match="is a link"):
        append(older)
    assert not (older.own / "runs").exists()


def test_the_last_runner_is_known_while_no_one_has_the_task(task: Task) -> None:
    lease = store_of(task).lease(task.folder, "m-2", "", Path("/"))
    assert lease.previous_runner == "m-1"
    assert holder_of(task.lock_path) is not None
    lease.release()
    assert holder_of(task.lock_path) is None
    assert Home(task.folder).exists()
