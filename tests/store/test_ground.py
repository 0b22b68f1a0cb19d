"""The ground that a loop measures on is exactly one side before each run, whatever the run before left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from marathon.store.ground import Ground

LEAVES = {
    "a changed file of the same size and time": 't=$(stat -c %y tree/a); echo X > tree/a; touch -d "$t" tree/a',
    "a new file": "echo x > tree/new; mkdir -p tree/d/e; echo y > tree/d/e/f",
    "a file that is gone": "rm tree/a; rm -r tree/sub",
    "a folder in the place of a file": "rm tree/a; mkdir tree/a; touch tree/a/b",
    "a file in the place of a folder": "rm -r tree/sub; echo x > tree/sub",
    "a link in the place of a folder": "rm -r tree/sub; ln -s /etc tree/sub",
    "a link in the place of the tree": "mv tree old; ln -s /etc tree",
    "a link that leads elsewhere": "ln -sfn elsewhere tree/link",
    "other rights": "chmod 777 tree/a; chmod 000 tree/sub",
    "a time": "touch -d 2001-01-01 tree/a",
    "something in HOME": "echo cached > home/.answers; echo x > home/made",
    "something in the temporary folder": "echo x > tmp/x",
    "nothing": "true",
}


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """Two sides that differ in a file, each with what its setup made."""
    ground = Ground(tmp_path / "ground")
    for side in ("one", "two"):
        ground.begin(None)
        (ground.tree / "sub").mkdir()
        (ground.tree / "a").write_text(f"{side}\n")
        (ground.tree / "sub" / "b").write_text("same\n")
        (ground.tree / "sub" / "run").write_text("#!/bin/sh\n")
        (ground.tree / "sub" / "run").chmod(0o755)
        (ground.tree / "link").symlink_to("a")
        ground.age_files()
        (ground.home / "made").write_text("by setup\n")
        ground.keep_as(side, "one", "two")
    return ground


def content(ground: Ground) -> dict[str, object]:
    found: dict[str, object] = {}
    for part in (ground.tree, ground.home, ground.tmp):
        for path in sorted(part.rglob("*")):
            mode = oct(path.lstat().st_mode)
            value = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
            time = 0 if path.is_dir() or path.is_symlink() else path.lstat().st_mtime_ns
            found[str(path.relative_to(ground.folder))] = (mode, value, time)
    return found


@pytest.mark.parametrize("script", LEAVES.values(), ids=LEAVES)
def test_each_run_finds_the_same_files(ground: Ground, script: str) -> None:
    ground.lay_out("one")
    one = content(ground)
    ground.lay_out("two")
    two = content(ground)
    assert {name for name in one if one[name] != two[name]} <= {"tree/a", "home/made"}
    assert one["home/made"] != ()
    for _ in range(2):
        ground.lay_out("one")
        subprocess.run(["sh", "-ec", script], cwd=ground.folder, check=True)
        ground.lay_out("one")
        assert content(ground) == one
        ground.lay_out("two")
        assert content(ground) == two


def test_only_what_changed_is_copied(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.lay_out("one")
    copied: list[str] = []
    real = shutil.copy2

    def copy(source: Path, *rest: Any, **more: Any) -> Any:
        copied.append(source.name)
        return real(source, *rest, **more)

    monkeypatch.setattr(shutil, "copy2", copy)
    ground.lay_out("two")
    ground.lay_out("two")
    ground.lay_out("one")
    assert copied == ["a", "a"]


def test_a_side_that_no_one_needs_takes_no_room(ground: Ground) -> None:
    ground.begin(None)
    ground.keep_as("three", "two", "three")
    assert sorted(path.name for path in (ground.folder / "sides").iterdir()) == ["three", "two"]
    assert not ground.has("one")
    ground.remove()
    assert not ground.folder.exists()


def test_programs_in_home_are_handed_over_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cache").mkdir()
    ground = Ground(tmp_path / "ground")
    ground.begin(home)
    assert sorted(path.name for path in ground.home.iterdir()) == [".cargo"]
    assert (ground.home / ".cargo" / "bin").is_dir()
