"""What cannot be carried out: one sentence on stderr, the right code, and nothing changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from tests.support.listing import listing
from tests.support.world import World, research

# Root reads everything, so the two powers that let it do so are given away first (PR_CAPBSET_DROP).
POWERLESS = (
    "import ctypes, os, sys\n"
    "for power in (1, 2): ctypes.CDLL(None).prctl(24, power, 0, 0, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def powerless(world: World, *args: str) -> subprocess.CompletedProcess[str]:
    """The command line as somebody whom file permissions bind."""
    argv = world.argv(*args)
    return subprocess.run(
        [argv[0], "-c", POWERLESS, *argv],
        cwd=world.project,
        env=world.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(world: World, ran: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert ran.returncode == code
    assert ran.stdout == ""
    for word in words:
        assert word in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "something went wrong" not in ran.stderr
    assert world.sessions() == 0
    assert not world.states.exists()


def no_instructions(world: World) -> None:
    (world.task / "instructions.md").unlink()


def empty_instructions(world: World) -> None:
    (world.task / "instructions.md").write_text(" \n")


def instructions_are_a_folder(world: World) -> None:
    no_instructions(world)
    (world.task / "instructions.md").mkdir()


def task_is_a_file(world: World) -> None:
    no_instructions(world)
    world.task.rmdir()
    world.task.write_text("not a folder\n")


BROKEN_TASKS: dict[str, tuple[Callable[[World], None], str]] = {
    "no instructions": (no_instructions, "instructions.md"),
    "empty instructions": (empty_instructions, "is empty"),
    "instructions are a folder": (instructions_are_a_folder, "instructions.md"),
    "the task is a file": (task_is_a_file, "is a file"),
}


@pytest.mark.parametrize(("breaks", "word"), BROKEN_TASKS.values(), ids=BROKEN_TASKS.keys())
def test_a_task_that_cannot_be_used(world: World, breaks: Callable[[World], None], word: str) -> None:
    breaks(world)
    before = listing(world.project)
    refused(world, world.run(), 7, word)
    refused(world, world.run("-h", "again"), 7, word)
    assert listing(world.project) == before


@pytest.mark.parametrize(
    "where", ["../x", "task/instructions.md", "$(x)", "x" * 5000, "-rf"], ids=lambda where: where[:30]
)
def test_a_directory_that_is_none(world: World, where: str) -> None:
    before = listing(world.project)
    refused(world, world.cli(f"--task={where}", "--agent", "rehearsal"), 7)
    refused(world, world.cli("status", "--", where), 7)
    assert listing(world.project) == before


@pytest.mark.parametrize("words", [["tell", "x"], ["approve"], ["redo", "-mx"], ["answer", "x"], ["cancel"], ["stop"]])
def test_no_command_makes_a_task_of_a_name(world: World, words: list[str]) -> None:
    before = listing(world.project)
    refused(world, world.cli(words[0], "nowhere", *words[1:]), 7, "nowhere does not exist", "pi-marathon new")
    assert listing(world.project) == before


def test_of_a_task_that_is_none_and_an_agent_that_is_not_there_the_task_is_named(world: World) -> None:
    refused(world, world.cli("--task", "nowhere", MARATHON_PI="/no/such/pi"), 7, "nowhere does not exist")
    refused(world, world.cli("--task", "task", MARATHON_PI="/no/such/pi"), 1, "/no/such/pi")


def test_an_empty_name_is_no_directory(world: World) -> None:
    refused(world, world.cli("--task", "", "--agent", "rehearsal"), 2)
    refused(world, world.cli("status", " "), 2)


@pytest.mark.parametrize(
    ("name", "mode", "code"),
    [("instructions.md", 0o000, 7), (".", 0o555, 7)],
    ids=["unreadable instructions", "read-only"],
)
def test_permissions_are_looked_at_before_anything_starts(world: World, name: str, mode: int, code: int) -> None:
    before = listing(world.project)
    os.chmod(world.task / name, mode)
    try:
        ran = powerless(world, *world.task_args())
    finally:
        os.chmod(world.task / name, 0o755 if name == "." else 0o644)
    refused(world, ran, code, "task")
    assert listing(world.project).keys() == before.keys()


OPTIONS: dict[str, tuple[list[str], int, str]] = {
    "unknown agent": (["--task", "task", "--agent", "gpt"], 2, "'gpt'"),
    "unknown mode": (["--task", "task", "--agent", "rehearsal", "--mode", "loud"], 2, "loud"),
    "empty feedback": (["--task", "task", "--agent", "rehearsal", "-h", ""], 2, "empty"),
    "blank feedback": (["--task", "task", "--agent", "rehearsal", "-h", " \n"], 2, "empty"),
    "approve without a gate": (["approve", "task"], 2, "does not wait for you"),
    "redo without a gate": (["redo", "task", "-m", "x"], 2, "does not wait for you"),
    "answer without a question": (["answer", "task", "x"], 2, "does not wait for you"),
    "cancel without a run": (["cancel", "task", "--yes"], 2, "no run of task to cancel"),
    "an empty text": (["tell", "task", ""], 2, "empty"),
    "a list of a file": (["list", "task/instructions.md"], 2, "cannot be listed"),
    "a demo over files": (["demo", "--into", "task"], 2, "--into"),
}


@pytest.mark.parametrize(("args", "code", "word"), OPTIONS.values(), ids=OPTIONS.keys())
def test_what_makes_no_sense_on_a_fresh_task(world: World, args: list[str], code: int, word: str) -> None:
    before = listing(world.project)
    refused(world, world.cli(*args), code, word)
    assert listing(world.project) == before


AT_A_GATE: dict[str, tuple[list[str], int, str]] = {
    "unknown phase": (["redo", "task", "--phase", "deploy", "-m", "x"], 2, "not offered: redo deploy"),
    "redo without words": (["redo", "task", "-m", ""], 2, "empty"),
    "approve with empty words": (["approve", "task", "-m", " "], 2, "empty"),
    "answer without a question": (["answer", "task", "x"], 2, "not offered: answer"),
    "empty feedback": (["--task", "task", "--agent", "rehearsal", "-h", ""], 2, "empty"),
    "unknown agent": (["--task", "task", "--agent", "gpt"], 2, "'gpt'"),
}


def test_what_makes_no_sense_at_a_gate_leaves_it_as_it_is(world: World) -> None:
    world.script(research())
    assert world.run().returncode == 3
    before = listing(world.project)
    for what, (args, code, word) in AT_A_GATE.items():
        ran = world.cli(*args)
        assert (ran.returncode, ran.stdout) == (code, ""), what
        assert word in ran.stderr, what
        assert listing(world.project) == before, what
