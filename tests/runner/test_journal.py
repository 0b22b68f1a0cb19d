"""What waits until an agent is at work, and what does not."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.core.records import Remark
from marathon.core.state import TaskState
from marathon.errors import DiskFailed
from marathon.runner.journal import Ledger
from marathon.store.task import Task
from tests.core.making import begun, gate, left, started
from tests.store.tools import calls_of

SYNCED = ["write", "fdatasync"]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    task = Task(tmp_path)
    task.prepare()
    return task


@pytest.fixture
def ledger(task: Task) -> Ledger:
    ledger = Ledger(task, lambda: datetime(2026, 2, 2, tzinfo=UTC))
    ledger.record(begun("research"))
    return ledger


def test_every_record_is_on_disk_when_it_is_recorded_but_a_start(ledger: Ledger) -> None:
    for record in (begun("research"), Remark(text="x"), gate()):
        assert calls_of(lambda record=record: ledger.record(record))[:2] == SYNCED  # type: ignore[misc]
    assert calls_of(lambda: ledger.record(started())) == ["write"]
    assert ledger.progress.session is not None


def test_a_start_is_on_disk_when_the_agent_is_at_work_and_before_its_end_counts(ledger: Ledger) -> None:
    ledger.record(started())
    assert calls_of(ledger.catch_up) == ["fdatasync"]
    assert calls_of(ledger.catch_up) == []
    ledger.record(left())
    ledger.record(started(iteration=2))
    assert calls_of(lambda: ledger.record(left())) == SYNCED


def test_a_start_that_cannot_be_synced_is_told_and_not_tried_again(ledger: Ledger, tmp_path: Path) -> None:
    journal = tmp_path / ".marathon" / "journal.jsonl"
    [fd] = [int(link.name) for link in Path("/proc/self/fd").iterdir() if os.path.realpath(link) == str(journal)]
    ledger.record(started())
    _put_a_pipe_in_place_of(fd)
    with pytest.raises(DiskFailed, match=r"journal\.jsonl: Invalid argument"):
        ledger.catch_up()
    assert calls_of(ledger.catch_up) == []


def test_the_state_an_agent_left_is_held_until_the_next_one_is_at_work(ledger: Ledger, task: Task) -> None:
    (task.folder / "STATE.json").write_text("{}")
    for _ in range(2):
        task.write_state(TaskState(state="running", phase="plan"))
        assert _removed_but_open(task.folder / "STATE.json") == 1
    ledger.catch_up()
    assert _removed_but_open(task.folder / "STATE.json") == 0
    assert task.read_state() == TaskState(state="running", phase="plan")


def _removed_but_open(path: Path) -> int:
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(link) == f"{path} (deleted)" for link in links)


def _put_a_pipe_in_place_of(fd: int) -> None:
    """It can be written, but the kernel refuses to sync it."""
    reading, writing = os.pipe()
    os.dup2(writing, fd, inheritable=False)
    os.close(writing)
    os.close(reading)


def test_a_task_that_was_removed_does_not_come_back_with_the_files_of_its_sessions(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.record(started())
    ledger.record(left())
    shutil.rmtree(tmp_path)
    ledger.catch_up()
    ledger.record(gate())
    ledger.close()
    assert not tmp_path.exists()


def test_the_file_of_a_session_waits_for_the_next_one_to_run(ledger: Ledger, tmp_path: Path) -> None:
    Task(tmp_path).runs.make_room(1, 1, 0)
    folder = tmp_path / ".marathon" / "runs" / "001" / "iterations"
    ledger.record(started())
    ledger.record(left())
    ledger.record(started(iteration=2))
    assert list(folder.iterdir()) == []
    ledger.catch_up()
    assert [path.name for path in folder.iterdir()] == ["001.json"]
    ledger.record(left())
    ledger.record(gate())
    assert sorted(path.name for path in folder.iterdir()) == ["001.json", "002.json"]
