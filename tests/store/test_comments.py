"""Comments in human.md, by several processes at once and beside what a human types there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from marathon.errors import WrongUsage
from marathon.store.comments import add_comment, comments_of, withdraw
from marathon.store.task import Task

PLAN = "# Plan\n\nUse sqlite.\n"
TEN = """
import sys
from pathlib import Path
from marathon.store.comments import add_comment
from marathon.store.task import Task
for number in range(10):
    add_comment(Task(Path(sys.argv[1])), f"{sys.argv[2]} {number}\\n" * 50)
"""


def test_a_comment_is_a_readable_block(tmp_path: Path) -> None:
    (tmp_path / "human.md").write_text("typed by hand")
    made = add_comment(Task(tmp_path), "why?\x1b[2J", kind="must", file="plan.md", first=2, last=9, document=PLAN)
    text = (tmp_path / "human.md").read_text()
    assert text == f"typed by hand\n\n## Comment c1 (must) · plan.md line 3 · {made.at}\n\n> Use sqlite.\n\nwhy?\n"
    assert comments_of(Task(tmp_path)) == [made]
    with pytest.raises(WrongUsage):
        add_comment(Task(tmp_path), " \n")


def test_several_processes_comment_at_once(tmp_path: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", TEN, str(tmp_path), name]) for name in "abc"]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    found = comments_of(Task(tmp_path))
    assert [each.id for each in found] == [f"c{number}" for number in range(1, 31)]
    assert {each.text.split("\n")[0] for each in found} == {
        f"{name} {number}" for name in "abc" for number in range(10)
    }
    assert all(len(set(each.text.split("\n"))) == 1 for each in found), "no two were mixed"


def test_withdrawing_deletes_nothing(tmp_path: Path) -> None:
    task = Task(tmp_path)
    add_comment(task, "one")
    withdraw(task, "c1")
    assert [(each.text, each.withdrawn) for each in comments_of(task)] == [("one", True)]
    assert add_comment(task, "two").id == "c2"
    with pytest.raises(WrongUsage, match="There are: c2"):
        withdraw(task, "c1")
