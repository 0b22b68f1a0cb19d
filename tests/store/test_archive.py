"""A restart moves the last run's artifacts aside as a set: one common time, nothing overwritten, whatever crashes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.store.task import Task
from tests.store.tools import calls_of
from tests.support.mortal import Killed, Life, living

OUTPUTS = ["research.md", "plan.md", "result.md"]
NOW = datetime(2026, 2, 2, 14, 30, 59, tzinfo=UTC)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    write(tmp_path, "1")
    (tmp_path / "work.md").write_text("history\n")
    return Task(tmp_path)


def write(folder: Path, version: str) -> None:
    for name in OUTPUTS:
        (folder / name).write_text(f"{name} {version}\n")


def contents(task: Task) -> dict[str, str]:
    return {path.name: path.read_text() for path in task.folder.iterdir()}


def restart(task: Task) -> list[tuple[str, str]]:
    files = task.archive_names(OUTPUTS, NOW)
    task.archive(files)
    return files


def test_all_of_them_move_under_one_time(task: Task) -> None:
    assert restart(task) == [(name, name.replace(".md", ".20260202-143059.md")) for name in OUTPUTS]
    assert contents(task) == {
        "research.20260202-143059.md": "research.md 1\n",
        "plan.20260202-143059.md": "plan.md 1\n",
        "result.20260202-143059.md": "result.md 1\n",
        "work.md": "history\n",
    }


def test_only_what_is_there_moves(task: Task) -> None:
    (task.folder / "plan.md").unlink()
    assert restart(task) == [
        ("research.md", "research.20260202-143059.md"),
        ("result.md", "result.20260202-143059.md"),
    ]
    assert task.archive_names(OUTPUTS, NOW) == []


def test_twice_within_a_second_makes_two_sets(task: Task) -> None:
    restart(task)
    write(task.folder, "2")
    second = restart(task)
    assert {archived for _, archived in second} == {
        "research.20260202-143100.md",
        "plan.20260202-143100.md",
        "result.20260202-143100.md",
    }
    found = contents(task)
    assert found["plan.20260202-143059.md"] == "plan.md 1\n"
    assert found["plan.20260202-143100.md"] == "plan.md 2\n"


def test_a_name_in_use_moves_the_whole_set_on(task: Task) -> None:
    (task.folder / "plan.20260202-143059.md").write_text("someone's\n")
    (task.folder / "result.20260202-143100.md").symlink_to("nowhere")
    assert {archived[-9:-3] for _, archived in restart(task)} == {"143101"}
    assert (task.folder / "plan.20260202-143059.md").read_text() == "someone's\n"


def test_a_file_that_appears_under_the_archive_s_name_is_not_overwritten(task: Task) -> None:
    files = task.archive_names(OUTPUTS, NOW)
    (task.folder / "plan.20260202-143059.md").write_text("someone's\n")
    task.archive(files)
    found = contents(task)
    assert found["plan.20260202-143059.md"] == "someone's\n"
    assert found["plan.md"] == "plan.md 1\n"
    assert found["result.20260202-143059.md"] == "result.md 1\n"


def test_killed_anywhere_the_rerun_completes_the_set(tmp_path: Path) -> None:
    kills = 0
    for changes in range(1, 20):
        folder = tmp_path / str(changes)
        folder.mkdir()
        write(folder, "1")
        task = Task(folder)
        files = task.archive_names(OUTPUTS, NOW)
        try:
            with living(Life(folder, changes)):
                task.archive(files)
        except Killed:
            kills += 1
            # Whatever moved already, every version is still there, once.
            assert set(contents(task).values()) == {f"{name} 1\n" for name in OUTPUTS}
            task.archive(files)
        assert contents(task) == {archived: f"{name} 1\n" for name, archived in files}
    assert kills == len(OUTPUTS)


def test_a_rerun_after_new_work_leaves_the_new_work_alone(task: Task) -> None:
    files = restart(task)
    write(task.folder, "2")
    task.archive(files)
    found = contents(task)
    assert found["plan.md"] == "plan.md 2\n"
    assert found["plan.20260202-143059.md"] == "plan.md 1\n"


def test_links_and_folders_move_as_they_are(task: Task) -> None:
    (task.folder / "plan.md").unlink()
    (task.folder / "plan.md").symlink_to("work.md")
    (task.folder / "result.md").unlink()
    (task.folder / "result.md").mkdir()
    restart(task)
    assert os.readlink(task.folder / "plan.20260202-143059.md") == "work.md"
    assert (task.folder / "result.20260202-143059.md").is_dir()
    assert (task.folder / "work.md").read_text() == "history\n"


def test_the_new_names_are_on_disk_when_it_returns(task: Task) -> None:
    assert calls_of(lambda: restart(task))[-2:] == ["fsync", "close"]
