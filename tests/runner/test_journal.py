"""The journal as the runner holds it: records first, then the life they amount to, then files for readers."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.core.courses.phases import Phases
from marathon.core.records import Remark
from marathon.errors import DiskFailed
from marathon.runner.journal import Journal
from marathon.store.file_store import FileStore
from marathon.store.journal import read_journal
from marathon.store.task import Task
from tests.core.making import RPI, begun, fold, gate, left, started


@pytest.fixture
def task(tmp_path: Path) -> Task:
    task = Task(tmp_path / "task")
    task.folder.mkdir()
    task.home.settle(task.folder, adopt=False)
    return task


def journal_of(task: Task) -> Journal:
    return Journal(FileStore(task, lambda: datetime(2026, 2, 2, tzinfo=UTC)), Phases(RPI), task)


def test_what_is_recorded_is_on_disk_and_in_the_life(task: Task) -> None:
    journal = journal_of(task)
    for record in (begun("research"), started(), left("paused/research"), gate(), Remark(text="x")):
        journal.record(record)
        assert fold(read_journal(task.journal_path)) == journal.life
    assert journal_of(task).life == journal.life


def test_a_record_that_cannot_be_stored_changes_nothing(task: Task) -> None:
    journal = journal_of(task)
    before = journal.record(begun("research"))
    shutil.rmtree(task.folder)
    with pytest.raises(DiskFailed):
        journal.record(started())
    assert journal.life == before


def test_every_session_has_a_file_for_readers_when_it_has_ended(task: Task) -> None:
    task.runs.make_room(1, 1, 0)
    folder = task.own / "runs" / "001" / "iterations"
    journal = journal_of(task)
    for record in (begun("research"), started(), left(), started(iteration=2)):
        journal.record(record)
    assert [path.name for path in folder.iterdir()] == ["001.json"]
    (folder / "001.json").unlink()
    journal_of(task)
    assert [path.name for path in folder.iterdir()] == ["001.json"], (
        "a killed runner owed it, and the next one wrote it"
    )


def test_a_task_that_was_removed_does_not_come_back_with_its_next_record(task: Task) -> None:
    journal = journal_of(task)
    for record in (begun("research"), started()):
        journal.record(record)
    shutil.rmtree(task.folder)
    with pytest.raises(DiskFailed, match="journal"):
        journal.record(left())
    assert not task.folder.exists()
