"""score: how clear the instructions are, for people and for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.listing import listing
from tests.support.world import ROOT, World

PRECISE = "Make `parse()` in src/dates.py accept ISO weeks; keep the public API; `pytest -q` must pass.\n"
DEMO = (ROOT / "marathon" / "demo_project" / "instructions.md").read_text()


def write(world: World, text: str) -> None:
    (world.task / "instructions.md").write_text(text)


def test_a_line_for_each_question_the_total_the_shape_and_what_to_add(world: World) -> None:
    write(world, PRECISE)
    before = listing(world.project)
    shown = world.cli("score", "task")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:5]] == [
        ["Outcome", "2/2"],
        ["Scope", "1/2"],
        ["Constraints", "1/2"],
        ["Success", "2/2"],
        ["Done", "1/2"],
    ]
    assert "parse()" in lines[1]
    assert lines[6].startswith("7 of 10: colleague. ")
    assert "after every session" in lines[6]
    assert "task/instructions.md" in lines[8]
    assert [line.split(":")[0].strip() for line in lines[9:]] == ["Scope", "Constraints", "Done"]
    assert listing(world.project) == before


@pytest.mark.parametrize(
    ("text", "total", "shape", "means"),
    [("Make it better", 0, "clarify", "say more first"), (DEMO, 10, "tool", "left alone")],
    ids=["clarify", "tool"],
)
def test_each_shape_says_what_it_means(world: World, text: str, total: int, shape: str, means: str) -> None:
    write(world, text)
    shown = world.cli("score", "task")
    assert shown.returncode == 0
    (line,) = (line for line in shown.stdout.splitlines() if " of 10: " in line)
    assert line.startswith(f"{total} of 10: {shape}. ")
    assert means in line
    assert ("What to add" in shown.stdout) == (shape == "clarify")


def test_the_same_as_json(world: World) -> None:
    write(world, PRECISE)
    shown = world.cli("score", "task", "--json")
    assert shown.returncode == 0
    told = json.loads(shown.stdout)
    assert (told["task"], told["total"], told["of"], told["shape"]) == ("task", 7, 10, "colleague")
    assert [(point["question"], point["points"]) for point in told["points"]] == [
        ("Outcome", 2),
        ("Scope", 1),
        ("Constraints", 1),
        ("Success", 2),
        ("Done", 1),
    ]
    assert all(point["reason"] for point in told["points"])
    assert [text.split(":")[0] for text in told["missing"]] == ["Scope", "Constraints", "Done"]


@pytest.mark.parametrize(
    "data", [b"", b" \n", b"\xff\xfe\x00", b"\x00" * 5000], ids=["empty", "blank", "UTF-16", "NULs"]
)
def test_whatever_can_be_read_is_rated(world: World, data: bytes) -> None:
    (world.task / "instructions.md").write_bytes(data)
    shown = world.cli("score", "task")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "0 of 10: clarify" in shown.stdout


def test_no_escape_of_the_file_reaches_the_terminal(world: World, typed: Callable[..., Pty]) -> None:
    write(world, "Change `\x1b]0;owned\x07\x1b[31mparse()\u202e` so that it accepts ISO weeks of every year.\n")
    terminal = typed("score", "task")
    seen = terminal.expect(b"parse()")
    seen += terminal.expect(b" of 10: ")
    assert terminal.wait() == 0
    for sign in (b"\x1b]", b"\x1b[31m", b"\x07", "\u202e".encode()):
        assert sign not in seen


def no_folder(world: World) -> None:
    (world.task / "instructions.md").unlink()
    world.task.rmdir()


def no_instructions(world: World) -> None:
    (world.task / "instructions.md").rename(world.task / "STATE.json")


def a_folder(world: World) -> None:
    (world.task / "instructions.md").unlink()
    (world.task / "instructions.md").mkdir()


def a_pipe(world: World) -> None:
    (world.task / "instructions.md").unlink()
    os.mkfifo(world.task / "instructions.md")


def a_link_out(world: World) -> None:
    (world.task / "instructions.md").rename(world.project / "outside.md")
    (world.task / "instructions.md").symlink_to("../outside.md")


def a_link_to_itself(world: World) -> None:
    (world.task / "instructions.md").unlink()
    (world.task / "instructions.md").symlink_to("instructions.md")


@pytest.mark.parametrize(
    "breaks", [no_folder, no_instructions, a_folder, a_pipe, a_link_out, a_link_to_itself], ids=lambda f: f.__name__
)
def test_without_a_task_there_is_nothing_to_rate(world: World, breaks: Callable[[World], None]) -> None:
    breaks(world)
    shown = world.cli("score", "task")
    assert (shown.returncode, shown.stdout) == (7, "")
    assert shown.stderr.count("\n") == 1
    assert "task" in shown.stderr


def test_a_link_inside_of_the_task_is_followed(world: World) -> None:
    (world.task / "instructions.md").rename(world.task / "real.md")
    (world.task / "instructions.md").symlink_to("real.md")
    assert world.cli("score", "task").returncode == 0
