"""A full disk, no inodes, no file descriptors: the old files are intact, one plain sentence says what to mend."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.small_disk import SmallDisk, limit, small_disk
from tests.support.world import World, chunk, finish, plan, research

MANY_OUTPUT_LINES = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done"
LONG_TEXT = "a long sentence. " * 400  # longer than the limit below, shorter than the disk
LIMIT = 4000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def assert_one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1
    assert done.stderr.startswith("pi-marathon: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "something went wrong inside" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_the_small_disk_is_as_small_as_we_think(disk: SmallDisk) -> None:
    assert os.path.ismount(disk.folder) == disk.mounted
    disk.fill()
    write = ["dd", "if=/dev/zero", "bs=8192", "count=1", f"of={disk.folder / 'more'}"]
    limited = None if disk.mounted else limit(LIMIT)
    done = subprocess.run(write, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert done.returncode != 0
    assert disk.full in done.stderr


def test_a_disk_that_fills_up_during_a_session_loses_nothing(disk: SmallDisk) -> None:
    world = World(disk.folder / "world")
    fill = "head -c 1M /dev/zero > ../../filler" if disk.mounted else "true"
    world.script(research(), plan(run=f"{fill}; {MANY_OUTPUT_LINES}", hold=True), chunk(), finish())
    done = disk.run(world, *world.task_args("--auto-approve"), limited=LIMIT)
    assert_one_sentence(done, str(world.kept), disk.full, "intact")
    assert [record["type"] for record in world.journal()][-2:] == ["moved", "session_started"]
    assert world.state()["phase"] == "plan"
    assert not list(world.task.rglob("*.tmp"))
    disk.free()
    assert disk.run(world, *world.task_args("--auto-approve")).returncode == 0
    assert world.sessions() == 4  # the plan was there already: it was not made again


def test_feedback_that_does_not_fit_is_refused_whole(disk: SmallDisk) -> None:
    world = World(disk.folder / "world")
    world.script(research(), plan())
    assert disk.run(world, *world.task_args()).returncode == 3
    (world.task / "human.md").write_text("# Human Feedback\n\nmine\n")
    before = world.read("human.md"), world.read("STATE.json"), world.read(".marathon/journal.jsonl")
    world.code()  # known before there is no room to keep it
    disk.fill()
    refused = disk.run(world, "approve", "task", "-m", LONG_TEXT, limited=LIMIT)
    assert_one_sentence(refused, "inbox", disk.full)
    assert not list((world.task / ".marathon" / "inbox").iterdir())
    refused = disk.run(world, *world.task_args("-h", LONG_TEXT), limited=LIMIT)
    assert_one_sentence(refused, disk.full)
    assert (world.read("human.md"), world.read("STATE.json"), world.read(".marathon/journal.jsonl")) == before
    assert world.sessions() == 1
    disk.free()
    assert disk.run(world, "approve", "task", "-m", LONG_TEXT).returncode == 0
    assert disk.run(world, *world.task_args()).returncode == 3
    assert world.read("human.md").count(LONG_TEXT.strip()) == 1


def test_without_inodes_the_restart_waits_and_is_completed_later(disk: SmallDisk) -> None:
    world = World(disk.folder / "world")
    world.script(research(), plan(), finish(), research(), plan(), finish())
    assert disk.run(world, *world.task_args("--auto-approve")).returncode == 0
    take_all_inodes(disk)
    refused = disk.run(
        world,
        *world.task_args("-h", "also X"),
        limited=(world.task / ".marathon" / "journal.jsonl").stat().st_size + 100,
    )
    assert_one_sentence(refused, str(world.task), disk.full)
    assert world.state()["state"] == "completed"
    for name in disk.folder.glob("inode-*"):
        name.unlink()
    args = [] if world.records("restart_begun") else ["-h", "also X"]
    assert disk.run(world, *world.task_args("--auto-approve", *args)).returncode == 0
    assert world.read("human.md").count("also X") == 1
    assert len(list(world.task.glob("*.2*.md"))) == 3


def take_all_inodes(disk: SmallDisk) -> None:
    if disk.mounted:
        with contextlib.suppress(OSError):
            for number in range(1000):
                (disk.folder / f"inode-{number}").touch()
        assert not os.statvfs(disk.folder).f_ffree


@pytest.mark.parametrize("descriptors", [6, 8, 10, 12])
def test_without_file_descriptors_nothing_is_lost(world: World, descriptors: int) -> None:
    world.script(research(), plan())
    done = subprocess.run(
        world.argv(*world.task_args()),
        cwd=world.project,
        env=world.env(PYTHONDONTWRITEBYTECODE="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)),
    )
    assert_one_sentence(done, "Too many open files")
    assert world.sessions() == 0
    again = world.run()
    assert again.returncode == 3
    assert "Phase: research" in again.stdout
    assert world.sessions() == 1
