"""score: what the instructions have and what could be added, for people and for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.listing import listing
from tests.support.world import ROOT, World

PRECISE = "Make `parse()` in src/dates.py accept ISO weeks; keep the public API; `pytest -q` must pass.\nTBD\n"
DEMO = (ROOT / "marathon" / "demo_project" / "instructions.md").read_text()


def write(world: World, text: str) -> None:
    (world.task / "instructions.md").write_text(text)


def test_a_line_for_each_sign_with_what_was_found_or_what_to_add(world: World) -> None:
    write(world, PRECISE)
    before = listing(world.project)
    shown = world.cli("check", "--advice", "task")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == "task/instructions.md:"
    assert [line.split()[:2] for line in lines[1:-1]] == [
        *(["✓", "goal"], ["✓", "place"], ["+", "boundary"], ["+", "criterion"], ["✓", "command"], ["✓", "end"]),
        ["+", "still"],
    ]
    assert lines[2].endswith("src/dates.py")
    assert "must stay as it is" in lines[3]
    assert lines[7].endswith("placeholder: TBD")
    assert listing(world.project) == before


def test_it_gives_no_points_and_no_verdict(world: World) -> None:
    for text in ("Make it better\n", PRECISE, DEMO):
        write(world, text)
        shown = world.cli("check", "--advice", "task")
        assert shown.returncode == 0
        for word in ("of 10", "clarify", "colleague", "good", "clear"):
            assert word not in shown.stdout


def test_the_same_as_json(world: World) -> None:
    write(world, PRECISE)
    shown = world.cli("check", "--advice", "task", "--json")
    assert shown.returncode == 0
    told = json.loads(shown.stdout)
    assert list(told) == ["task", "signs", "placeholders"]
    assert told["task"] == "task"
    assert told["signs"].pop("goal").startswith("Make `parse()`")
    assert told["signs"] == {
        **{"place": "src/dates.py", "boundary": "", "criterion": "", "command": "pytest -q", "end": "pytest -q"},
    }
    assert told["placeholders"] == ["TBD"]


def test_checks_of_the_file_count_too(world: World) -> None:
    write(world, "Users see their own name.\n")
    (world.task / "checks.toml").write_text('[[check]]\nname = "tests"\ncommand = "pytest -q"\n')
    told = json.loads(world.cli("check", "--advice", "task", "--json").stdout)["signs"]
    assert (told["criterion"], told["command"]) == ("tests: `pytest -q`", "pytest -q")
    (world.task / "checks.toml").write_text("no TOML")
    assert json.loads(world.cli("check", "--advice", "task", "--json").stdout)["signs"]["criterion"] == ""


@pytest.mark.parametrize(
    "data", [b"", b" \n", b"\xff\xfe\x00", b"\x00" * 5000], ids=["empty", "blank", "UTF-16", "NULs"]
)
def test_whatever_can_be_read_gets_advice(world: World, data: bytes) -> None:
    (world.task / "instructions.md").write_bytes(data)
    shown = world.cli("check", "--advice", "task")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "+ place" in shown.stdout


def test_no_escape_of_the_file_reaches_the_terminal(world: World, typed: Callable[..., Pty]) -> None:
    write(world, "Change `\x1b]0;owned\x07\x1b[31mparse()\u202e` so that it accepts ISO weeks of every year.\n")
    terminal = typed("check", "--advice", "task")
    seen = terminal.expect(b"parse()")
    seen += terminal.expect(b"The runner checks")
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
    shown = world.cli("check", "--advice", "task")
    assert (shown.returncode, shown.stdout) == (7, "")
    assert shown.stderr.count("\n") == 1
    assert "task" in shown.stderr


def test_a_link_inside_of_the_task_is_followed(world: World) -> None:
    (world.task / "instructions.md").rename(world.task / "real.md")
    (world.task / "instructions.md").symlink_to("real.md")
    assert world.cli("check", "--advice", "task").returncode == 0


def test_advice_is_broken_at_words_where_the_window_is_narrow(world: World) -> None:
    (world.task / "instructions.md").write_text("# Do it\n\n" + "Every route of the public API answers. " * 4)
    wide, narrow = (world.cli("check", "--advice", "task", COLUMNS=columns).stdout for columns in ("300", "60"))
    assert " ".join(wide.split()) == " ".join(narrow.split())
    assert all(len(line) <= 60 for line in narrow.splitlines()[:-1])
