"""Where we may not write, the marathon is refused with a sentence, before an agent has started."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.debian import need_bubblewrap
from tests.support.world import World, research

# What lets root write everywhere; without these, permissions mean for root what they mean for everybody.
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


def as_an_ordinary_user() -> None:
    if os.geteuid() == 0:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                os._exit(99)


def run(world: World, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=world.project,
        env=world.env(PYTHONDONTWRITEBYTECODE="1", **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=as_an_ordinary_user,
    )


class Locked:
    def __init__(self) -> None:
        self._modes: dict[Path, int] = {}

    def __call__(self, world: World, path: Path) -> None:
        """Take the right to write away, and make sure that it is really gone for whom we run."""
        self._modes[path] = path.stat().st_mode
        path.chmod(0o555 if path.is_dir() else 0o444)
        probe = path / "probe" if path.is_dir() else path
        tried = run(world, "sh", "-c", f"echo >> '{probe}'")
        assert tried.returncode not in (0, 99)
        assert "Permission denied" in tried.stderr

    def undo(self) -> None:
        for path, mode in self._modes.items():
            path.chmod(mode)


@pytest.fixture
def locked() -> Iterator[Locked]:
    made = Locked()
    yield made
    made.undo()


def test_a_task_directory_that_cannot_be_written_is_refused(world: World, locked: Locked) -> None:
    world.script(research())
    locked(world, world.task)
    done = run(world, *world.argv(*world.task_args()))
    assert done.returncode == 7
    assert done.stderr.startswith("pi-marathon: task cannot be written")
    assert world.sessions() == 0
    assert [path.name for path in world.task.iterdir()] == ["instructions.md"]


@pytest.mark.parametrize("name", ["", "lock", "journal.jsonl", "runs/001/prompts"])
def test_records_of_the_runner_that_cannot_be_written_are_named(world: World, locked: Locked, name: str) -> None:
    world.script(research(state="running"), research())
    assert world.run(PI_MARATHON_MAX_ITERATIONS="1").returncode == 4
    before = world.read(".marathon/journal.jsonl")
    locked(world, world.kept / name)
    done = run(world, *world.argv(*world.task_args("--max-iterations", "9")))
    assert done.returncode in (1, 7)
    assert done.stderr.startswith("pi-marathon: ")
    assert str(world.kept / name) in done.stderr
    assert "Traceback" not in done.stderr
    assert world.sessions() == 1
    assert world.read(".marathon/journal.jsonl").startswith(before)


@pytest.mark.parametrize("command", ["--task", "loop"])
@pytest.mark.parametrize("place", ["a file", "below a file", "read-only"])
def test_where_no_record_can_be_kept_a_sentence_says_so_before_anything_starts(
    world: World, locked: Locked, place: str, command: str
) -> None:
    world.script(research())
    (world.home / "file").touch()
    (world.home / "ro").mkdir()
    locked(world, world.home / "ro")
    folder = {"a file": "file", "below a file": "file/x", "read-only": "ro"}[place]
    loop = ("loop", "run", "l", "--trust", "--agent", "rehearsal")
    argv = world.argv(*(world.task_args() if command == "--task" else loop))
    before = sorted(world.project.rglob("*"))
    done = run(world, *argv, XDG_STATE_HOME=str(world.home / folder))
    assert (done.returncode, world.sessions()) == (1, 0)
    assert done.stderr.startswith(f"pi-marathon: What is known of tasks cannot be kept in {world.home / folder}")
    assert done.stderr.rstrip().endswith("export XDG_STATE_HOME=FOLDER")
    assert sorted(world.project.rglob("*")) == before


def test_without_a_home_folder_it_is_said_too(world: World) -> None:
    done = run(world, *world.argv(*world.task_args()), HOME="/dev/null", XDG_STATE_HOME="")
    assert (done.returncode, "cannot be kept in /dev/null/" in done.stderr) == (1, True)
    done = run(world, *world.argv(*world.task_args()), HOME="nowhere")
    assert (done.returncode, "because HOME is 'nowhere'" in done.stderr) == (1, True)
    need_bubblewrap()
    stranger = ("bwrap", "--unshare-user", "--uid", "54321", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    done = run(world, *stranger, "env", "-u", "HOME", *world.argv(*world.task_args()), XDG_STATE_HOME="")
    assert (done.returncode, "HOME is not set" in done.stderr) == (1, True), done.stderr
    assert sorted(path.name for path in world.project.iterdir()) == ["task"]


def test_a_mailbox_that_cannot_be_written_is_named_before_the_agent_starts(world: World, locked: Locked) -> None:
    world.script(research())
    world.states.mkdir(mode=0o700)
    locked(world, world.states)
    done = run(world, *world.argv(*world.task_args()))
    assert done.returncode == 1
    assert str(world.states) in done.stderr
    assert "Permission denied" in done.stderr
    assert world.sessions() == 0


def test_commands_that_only_look_need_no_right_to_write(world: World, locked: Locked) -> None:
    world.script(research())
    assert world.run().returncode == 3
    locked(world, world.kept)
    locked(world, world.task)
    shown = run(world, *world.argv("status", "task"))
    assert shown.returncode == 0
    assert "your review of research" in shown.stdout
    refused = run(world, *world.argv("approve", "task", "--code", world.code()))
    assert refused.returncode in (1, 7)
    assert "Permission denied" in refused.stderr or "cannot be written" in refused.stderr
    assert "Traceback" not in refused.stderr
