"""The copy of a journal outside of the project: what a kill leaves is completed, everything else is told."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.core.records import Begun, Record, Remark
from marathon.errors import NotAdopted, TaskInvalid
from marathon.store.file_store import FileStore
from marathon.store.journal import read_journal
from marathon.store.lock import Held, holder_of
from marathon.store.task import Task
from tests.store.tools import Other

BEGUN = Begun(workflow="rpi", path=[("rpi", 0)], phase="research", id="0123456789abcdef")
RECORDS: list[Record] = [BEGUN, Remark(text="one"), Remark(text="two 漢字 \u2028"), Remark(text="three")]


@pytest.fixture
def anchors(tmp_path: Path) -> Path:
    return tmp_path / "anchors"


@pytest.fixture
def task(tmp_path: Path, anchors: Path) -> Task:
    """A task with four records, whose runner has ended."""
    made = Task(tmp_path / "task")
    made.folder.mkdir()
    made.prepare()
    append(made, anchors, *RECORDS)
    return made


def store_of(task: Task, anchors: Path, *, adopt: bool = False) -> FileStore:
    return FileStore(task, lambda: datetime(2026, 2, 2, 14, 30, tzinfo=UTC), anchors=anchors, adopt=adopt)


def append(task: Task, anchors: Path, *records: Record) -> list[Record]:
    store = store_of(task, anchors)
    return [*store.replay(), *(store.append(record) for record in records)]


def copy_of(anchors: Path) -> Path:
    (copy,) = anchors.glob("*/journal.jsonl")
    return copy


def plain(records: list[Record]) -> list[Record]:
    return [replace(record, n=0, at="") for record in records]


def test_wherever_the_copy_was_cut_the_last_record_never_was(task: Task, anchors: Path) -> None:
    """Killed while it wrote the copy: the task's own file had nothing of it."""
    path, copy = task.journal_path, copy_of(anchors)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for kept in (*range(0, len(last) - 1, 17), len(last) - 1):
        copy.write_bytes(whole[: len(whole) - len(last) + kept])
        path.write_bytes(whole[: -len(last)])
        assert plain(append(task, anchors, Remark(text="next"))) == [*RECORDS[:-1], Remark(text="next")]
        assert path.read_bytes() == copy.read_bytes()


def test_wherever_the_file_was_cut_the_last_record_is_completed(task: Task, anchors: Path) -> None:
    """Killed between the two writes, or in the second one: the copy has all of it."""
    path, copy = task.journal_path, copy_of(anchors)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for kept in (*range(0, len(last) - 1, 17), len(last) - 1):
        copy.write_bytes(whole)
        path.write_bytes(whole[: len(whole) - len(last) + kept])
        assert plain(append(task, anchors, Remark(text="next"))) == [*RECORDS, Remark(text="next")]
        assert path.read_bytes() == copy.read_bytes()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines[:2], "it has 2 lines (remark, remark) less than the runner wrote"),
        (lambda lines: [], "it is missing or empty"),
        (lambda lines: [*lines, lines[1]], "it has 1 line (remark) more than the runner wrote"),
        (lambda lines: [lines[0], lines[1].replace(b"one", b"ONE"), *lines[2:]], "line 2 is not what the runner wrote"),
    ],
    ids=["shortened", "emptied", "appended", "rewritten"],
)
def test_any_other_difference_is_told_and_changes_nothing(task: Task, anchors: Path, change, told: str) -> None:  # type: ignore[no-untyped-def]
    path = task.journal_path
    copy = copy_of(anchors).read_bytes()
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    found = path.read_bytes()
    with pytest.raises(TaskInvalid, match="was changed while no runner had the task") as refused:
        append(task, anchors)
    assert told in str(refused.value)
    assert f"pi-marathon repair {task.folder}" in str(refused.value)
    assert path.read_bytes() == found
    assert copy_of(anchors).read_bytes() == copy


def rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"one", b"ONE"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def become_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def lead_out(path: Path) -> None:
    elsewhere = path.parents[2] / "elsewhere"
    shutil.move(path.parent, elsewhere)
    path.parent.symlink_to(elsewhere)


def vanish(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("harm", [rewrite, cut, become_fifo, lead_out, vanish, Path.unlink])
def test_while_a_runner_lives_its_memory_is_the_truth(task: Task, anchors: Path, harm) -> None:  # type: ignore[no-untyped-def]
    store = store_of(task, anchors)
    lease = store.lease(task.folder, "m-1", "", Path("/"))
    store.replay()
    harm(task.journal_path)
    store.append(Remark(text="next"))
    assert plain(read_journal(task.journal_path)) == [*RECORDS, Remark(text="next")]
    assert not task.own.is_symlink()
    assert copy_of(anchors).read_bytes() == task.journal_path.read_bytes()
    assert len(store.news()) == 1
    assert store.news() == []
    holder = holder_of(task.lock_path)
    assert holder is not None, "status still finds its runner"
    assert holder.runner == "m-1"
    lease.release()
    assert plain(append(task, anchors)) == [*RECORDS, Remark(text="next")]


def test_a_copy_that_was_changed_is_put_right_too(task: Task, anchors: Path) -> None:
    store = store_of(task, anchors)
    store.replay()
    shutil.rmtree(anchors)
    store.append(Remark(text="next"))
    assert copy_of(anchors).read_bytes() == task.journal_path.read_bytes()


def test_a_lock_that_was_let_go_or_removed_lets_no_second_runner_in(task: Task, anchors: Path) -> None:
    lease = store_of(task, anchors).lease(task.folder, "m-1", "", Path("/"))

    def an_agent() -> None:
        import fcntl

        fcntl.flock(lease.fd, fcntl.LOCK_UN)
        shutil.rmtree(task.own)

    assert Other(an_agent).wait() == 0
    with pytest.raises(Held) as held:
        store_of(task, anchors).lease(task.folder, "m-2", "", Path("/"))
    assert held.value.holder is not None
    assert (held.value.holder.pid, held.value.holder.runner) == (os.getpid(), "m-1")
    assert not task.own.exists(), "the second one changed nothing"
    lease.release()


def test_a_name_that_an_agent_wrote_into_the_lock_is_not_the_last_runners(task: Task, anchors: Path) -> None:
    store_of(task, anchors).lease(task.folder, "m-1", "", Path("/")).release()
    task.lock_path.write_text('{"pid": 1, "host": "h", "runner": "m-of-another-task", "since": 1}')
    lease = store_of(task, anchors).lease(task.folder, "m-2", "", Path("/"))
    assert lease.previous_runner == "m-1"
    lease.release()


def moved_to(task: Task, folder: Path, *, copied: bool = False) -> Task:
    shutil.copytree(task.folder, folder) if copied else shutil.move(task.folder, folder)
    return Task(folder)


def test_a_task_that_was_moved_on_this_machine_goes_on(task: Task, anchors: Path, tmp_path: Path) -> None:
    moved = moved_to(task, tmp_path / "moved")
    store = store_of(moved, anchors)
    assert plain(store.replay()) == RECORDS
    assert [str(task.folder) in text for text in store.news()] == [True]
    store = store_of(moved, anchors)
    store.replay()
    assert store.news() == []
    # The old place is free for another task.
    new = Task(task.folder)
    new.folder.mkdir()
    new.prepare()
    assert append(new, anchors) == []


@pytest.mark.parametrize("how", ["copied", "changed on the way", "from another machine"])
def test_a_task_from_elsewhere_needs_a_yes(task: Task, anchors: Path, tmp_path: Path, how: str) -> None:
    other = moved_to(task, tmp_path / "other", copied=how == "copied")
    if how == "changed on the way":
        other.journal_path.write_bytes(other.journal_path.read_bytes().replace(b"one", b"ONE"))
    if how == "from another machine":
        shutil.rmtree(anchors)
    found = other.journal_path.read_bytes()
    with pytest.raises(NotAdopted, match="--adopt") as refused:
        append(other, anchors)
    assert refused.value.exit_code == 3
    assert len(store_of(other, anchors, adopt=True).replay()) == 4
    assert other.journal_path.read_bytes() == found
    assert len(append(other, anchors, Remark(text="next"))) == 5, "it was asked once"


def test_a_journal_of_an_earlier_version_is_adopted_with_one_line(task: Task, anchors: Path) -> None:
    shutil.rmtree(anchors)
    task.journal_path.write_bytes(task.journal_path.read_bytes().replace(b'"id": "0123456789abcdef"', b'"id": ""'))
    store = store_of(task, anchors)
    assert len(store.replay()) == 4
    assert len(store.news()) == 1
    store = store_of(task, anchors)
    store.replay()
    assert store.news() == []
