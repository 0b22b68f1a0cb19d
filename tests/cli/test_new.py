"""new: a task directory from the template, by flags or by questions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World, research


def made(world: World) -> Path:
    (folder,) = (world.project / "docs" / "tasks").iterdir()
    return folder


def section(text: str, heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    assert found, text
    return found[1].strip()


def test_everything_by_flags(world: World) -> None:
    ran = world.cli(
        "new",
        "Fix: the Parser!",
        "--goal",
        "No crash on \\1 `x`",
        "--scope",
        "parser.py only",
        "--success",
        "tests pass",
    )
    assert ran.returncode == 0
    folder = made(world)
    assert re.fullmatch(r"\d{8}-\d{6}-fix-the-parser", folder.name)
    text = (folder / "instructions.md").read_text()
    assert text.startswith("# Fix: the Parser!\n")
    assert section(text, "Goal") == "No crash on \\1 `x`"
    assert section(text, "Scope") == "parser.py only"
    assert section(text, "Success Criteria") == "tests pass"
    assert f"pi-marathon --task docs/tasks/{folder.name}" in ran.stdout


def test_what_is_missing_is_asked_for_on_a_terminal(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new", "--scope", "all of it")
    for question, answer in (
        (b"Title:", b"My task"),
        (b"Goal:", "Größer".encode()),
        (b"Constraints:", b""),
        (b"Success Criteria:", b"look at it"),
    ):
        terminal.expect(question)
        terminal.send(answer + b"\r")
    terminal.expect(b"Made docs/tasks/")
    assert terminal.wait() == 0
    assert terminal.cooked()
    text = (made(world) / "instructions.md").read_text()
    assert text.startswith("# My task\n")
    assert section(text, "Goal") == "Größer"
    assert section(text, "Scope") == "all of it"
    assert section(text, "Success Criteria") == "look at it"


def test_a_question_taken_back_makes_nothing(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new", "My task")
    terminal.expect(b"Goal:")
    terminal.send(b"half\x03")
    assert terminal.wait() == 130
    assert terminal.cooked()
    assert not (world.project / "docs").exists()


def test_what_new_made_runs(world: World) -> None:
    world.cli("new", "My task", "--goal", "Do it", "--into", "task/sub")
    (folder,) = (world.project / "task" / "sub").iterdir()
    folder.rename(world.project / "renamed")
    world.task.rename(world.project / "other")
    (world.project / "renamed").rename(world.task)
    world.script(research())
    assert world.run().returncode == 3
    assert world.cli("list", ".").stdout.count("gate") == 1


def test_two_tasks_of_one_title_in_one_second_are_two_folders(world: World) -> None:
    for _ in range(2):
        assert world.cli("new", "Same", "--goal", "x").returncode == 0
    assert len(list((world.project / "docs/tasks").iterdir())) == 2


@pytest.mark.parametrize(
    "args",
    [
        ("Title",),
        ("--goal", "x"),
        ("Title", "--goal", " "),
        ("../..", "--goal", "x"),
        ("", "--goal", "x"),
        ("日本", "--goal", "x"),
    ],
    ids=lambda args: " ".join(args) or "nothing",
)
def test_without_a_terminal_what_is_missing_is_named_and_nothing_made(world: World, args: tuple[str, ...]) -> None:
    ran = world.cli("new", *args)
    assert ran.returncode == 2
    assert ran.stderr.strip()
    assert not (world.project / "docs").exists()


@pytest.mark.parametrize("title", ["../x", "$(touch pwned)", "-rf --", "a\nb", "x" * 5000])
def test_a_title_is_only_a_title(world: World, title: str) -> None:
    assert world.cli("new", "--goal", "x", "--", title).returncode == 0
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z0-9-]{1,60}", made(world).name)
    assert sorted(path.name for path in world.project.iterdir()) == ["docs", "task"]
    assert sorted(path.name for path in world.project.parent.iterdir()) == ["agent", "home", "project"]
