"""A machine where /proc is not mounted, such as a chroot: a sentence with its cure, before anything is changed."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.debian import need_bubblewrap
from tests.support.listing import listing
from tests.support.world import World, research


def without_proc(world: World, *args: str) -> subprocess.CompletedProcess[str]:
    argv = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--tmpfs", "/proc", *world.argv(*args)]
    return subprocess.run(
        argv, cwd=world.project, env=world.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", ["--task", "repeat", "loop"])
def test_without_proc_a_sentence_says_so(world: World, command: str) -> None:
    need_bubblewrap()
    world.script(research())
    before = listing(world.project)
    loop = ("loop", "start", "Faster", "--lane", "l", "--verify", "echo METRIC x=1", "--metric", "x")
    assert command != "loop" or world.cli(*loop).returncode == 0
    args = {
        "--task": tuple(world.task_args()),
        "repeat": ("repeat", "name", "goal", "--agent", "rehearsal"),
        "loop": ("loop", "run", "l", "--trust", "--agent", "rehearsal"),
    }[command]
    told = without_proc(world, *args)
    assert told.returncode == 1
    assert "/proc is not mounted here" in told.stderr
    assert "mount -t proc proc /proc" in told.stderr
    assert command != "--task" or listing(world.project) == before
    assert world.sessions() == 0


def test_what_only_tells_works_without_proc_and_doctor_says_so(world: World) -> None:
    need_bubblewrap()
    for args in (("--help",), ("list",), ("status", "task")):
        assert without_proc(world, *args).returncode == 0
    told = without_proc(world, "doctor")
    assert told.returncode == 1
    assert "processes: /proc is not mounted here" in told.stdout
