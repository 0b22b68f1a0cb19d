"""Shipped files are copied into a user's folder as often as one likes, and never over the user's own version."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.errors import MarathonError
from marathon.store.install import copy_all, files_below

NOW = datetime(2026, 2, 2, 14, 30, 0, tzinfo=UTC)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "shipped"
    (folder / "loop").mkdir(parents=True)
    (folder / "loop" / "SKILL.md").write_text("how to loop\n")
    (folder / "top.md").write_bytes(b"\x00\xff raw\r\n")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "home" / "skills"


def install(source: Path, target: Path) -> list[str]:
    return copy_all(files_below(source, target), NOW)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_file_comes_to_its_place_and_is_named(source: Path, target: Path) -> None:
    assert install(source, target) == [str(target / "loop" / "SKILL.md"), str(target / "top.md")]
    assert everything(target) == everything(source)


def test_doing_it_again_writes_nothing(source: Path, target: Path) -> None:
    install(source, target)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    assert install(source, target) == []
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before


def test_another_version_is_kept_beside_the_new_one(source: Path, target: Path) -> None:
    (target / "loop").mkdir(parents=True)
    (target / "loop" / "SKILL.md").write_text("my own\n")
    done = install(source, target)
    assert everything(target / "loop") == {
        "SKILL.md": b"how to loop\n",
        "SKILL.md.before-20260202-143000": b"my own\n",
    }
    assert "SKILL.md.before-20260202-143000" in done[0]
    assert done[1] == str(target / "top.md")


def test_within_one_second_nothing_that_was_kept_is_overwritten(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for text in ("one", "two", "three"):
        (target / "top.md").write_text(text)
        install(source, target)
    kept = {path.read_text() for path in target.glob("top.md.before-*")}
    assert kept == {"one", "two", "three"}


def test_files_of_the_users_beside_ours_stay_as_they_are(source: Path, target: Path) -> None:
    (target / "loop").mkdir(parents=True)
    (target / "loop" / "notes.md").write_text("mine\n")
    install(source, target)
    assert (target / "loop" / "notes.md").read_text() == "mine\n"


def test_a_link_of_the_users_is_kept_and_what_it_points_to_is_not_written(
    source: Path, target: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "dotfiles.md"
    elsewhere.write_text("theirs\n")
    target.mkdir(parents=True)
    (target / "top.md").symlink_to(elsewhere)
    install(source, target)
    assert elsewhere.read_text() == "theirs\n"
    assert not (target / "top.md").is_symlink()
    assert os.readlink(target / "top.md.before-20260202-143000") == str(elsewhere)


@pytest.mark.parametrize("there", ["dangling link", "folder"])
def test_whatever_stands_in_the_way_is_kept_aside(source: Path, target: Path, there: str) -> None:
    target.mkdir(parents=True)
    if there == "folder":
        (target / "top.md").mkdir()
        (target / "top.md" / "inside").write_text("x")
    else:
        (target / "top.md").symlink_to("nowhere")
    install(source, target)
    assert (target / "top.md").read_bytes() == b"\x00\xff raw\r\n"
    assert os.path.lexists(target / "top.md.before-20260202-143000")


def test_a_link_to_the_very_same_text_is_left_alone(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.symlink_to(source, target_is_directory=True)
    assert install(source, target) == []
    assert target.is_symlink()


def test_what_is_written_can_be_read_as_other_files_can(source: Path, target: Path) -> None:
    before = os.umask(0o022)
    try:
        install(source, target)
    finally:
        os.umask(before)
    assert stat.S_IMODE((target / "top.md").stat().st_mode) == 0o644


def test_a_place_that_cannot_be_written_is_named(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("a file, where a folder is needed")
    with pytest.raises(MarathonError) as failed:
        install(source, target)
    assert str(target) in str(failed.value)
    assert target.read_text() == "a file, where a folder is needed"
