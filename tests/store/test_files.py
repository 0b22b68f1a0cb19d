"""Files are replaced whole or not at all, keep their mode, and stay private; what is no plain file is not touched."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from marathon.errors import DiskFailed
from marathon.store.files import (
    SHARED_FILE,
    append_durable,
    make_private_directory,
    mark_of,
    read_regular,
    sync_directory,
    unused_name,
    write_atomic,
)
from tests.store.tools import calls_of, full_after, mode_of, umask
from tests.support.mortal import Killed, Life, living


def test_the_whole_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"a long first version", b"", b"short"):
        write_atomic(path, data)
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755])
@pytest.mark.parametrize("mask", [0, 0o077])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int, mask: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    with umask(mask):
        write_atomic(path, b"new", mode=SHARED_FILE)
    assert mode_of(path) == mode


@pytest.mark.parametrize(
    ("mask", "private", "shared"), [(0, 0o600, 0o644), (0o022, 0o600, 0o644), (0o077, 0o600, 0o600)]
)
def test_a_new_file_is_private_and_a_shared_one_follows_the_umask(
    tmp_path: Path, mask: int, private: int, shared: int
) -> None:
    with umask(mask):
        write_atomic(tmp_path / "private", b"")
        write_atomic(tmp_path / "shared", b"", mode=SHARED_FILE)
        append_durable(tmp_path / "appended", b"x", mode=SHARED_FILE)
    assert mode_of(tmp_path / "private") == private
    assert mode_of(tmp_path / "shared") == shared
    assert mode_of(tmp_path / "appended") == shared


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with full_after(1000), pytest.raises(DiskFailed) as failed:
        write_atomic(path, b"x" * 1001)
    assert str(path) in str(failed.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(DiskFailed, match="file"):
        write_atomic(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_missing_folder_is_named_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed) as failed:
        write_atomic(tmp_path / "none" / "file", b"new")
    assert str(tmp_path / "none" / "file") in str(failed.value)


def test_a_symlink_is_replaced_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "file"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    write_atomic(path, b"new")
    assert target.read_bytes() == b"precious"
    assert not path.is_symlink()
    assert mode_of(path) == 0o600


def test_the_bytes_are_on_disk_before_the_name_and_the_name_before_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert calls_of(lambda: write_atomic(path, b"x")) == ["write", "fsync", "close", "rename", "fsync", "close"]
    assert calls_of(lambda: write_atomic(path, b"x", durable=False)) == ["write", "close", "rename"]
    appended = tmp_path / "appended"
    assert calls_of(lambda: append_durable(appended, b"x", mode=0o600)) == ["write", "fsync", "close", "fsync", "close"]
    assert calls_of(lambda: append_durable(appended, b"x", mode=0o600)) == ["write", "fsync", "close"]


def test_killed_at_any_change_the_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path, found = tmp_path / "file", set()
    for changes in range(1, 10):
        path.write_bytes(b"old")
        try:
            with living(Life(tmp_path, changes)):
                write_atomic(path, b"new")
        except Killed:
            found.add(path.read_bytes())
        else:
            break
    assert found == {b"old"}
    assert path.read_bytes() == b"new"


def test_appending_adds_and_a_short_write_is_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    append_durable(path, b"one\n", mode=SHARED_FILE)
    append_durable(path, b"two\n", mode=SHARED_FILE)
    with full_after(12), pytest.raises(DiskFailed, match="append"):
        append_durable(path, b"three is too long\n", mode=SHARED_FILE)
    assert path.read_bytes() == b"one\ntwo\n"


def test_nothing_is_appended_through_a_symlink(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "file"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    with pytest.raises(DiskFailed, match="file"):
        append_durable(path, b"new", mode=SHARED_FILE)
    assert target.read_bytes() == b"precious"


def test_private_directories_are_private_up_to_the_first_that_was_there(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with umask(0):
        make_private_directory(tmp_path / "a" / "b" / "c")
        make_private_directory(tmp_path / "a" / "b" / "c")
    assert [mode_of(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert mode_of(tmp_path) == 0o755


@pytest.mark.parametrize("where", ["a", "a/b"])
def test_a_file_is_not_taken_for_a_folder(tmp_path: Path, where: str) -> None:
    (tmp_path / "a").write_text("mine\n")
    with pytest.raises(DiskFailed, match=rf"Could not create .*{where}: "):
        make_private_directory(tmp_path / where)
    assert (tmp_path / "a").read_text() == "mine\n"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert read_regular(path) is None
    path.write_bytes(b"12345")
    assert read_regular(path) == b"12345"
    assert read_regular(path, 3) == b"1234"  # one more than allowed tells that there is more
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # reading one with no writer would wait for ever
    opened = psutil.Process().num_fds()
    for name in ("link", "folder", "pipe"):
        with pytest.raises(OSError, match=name):
            read_regular(tmp_path / name)
    assert psutil.Process().num_fds() == opened


def test_a_mark_tells_whether_a_file_was_written_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert mark_of(path) is None
    path.write_bytes(b"")
    assert mark_of(path) is None
    path.write_bytes(b"one")
    first = mark_of(path)
    assert first is not None
    assert mark_of(path) == first
    path.write_bytes(b"another")
    assert mark_of(path) != first
    second = mark_of(path)
    write_atomic(path, b"another")
    assert mark_of(path) != second
    assert mark_of(tmp_path) is None


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for number in (1, 2, 3):
        free = unused_name(path)
        assert free.name == ("file" if number == 1 else f"file-{number}")
        free.symlink_to("nowhere")


def test_a_file_is_read_from_an_offset(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", offset=2) == b"345"
    assert read_regular(tmp_path / "file", 0, 4) == b"5"
    assert read_regular(tmp_path / "file", 9, 5) == b""


def test_a_directory_can_be_flushed(tmp_path: Path) -> None:
    assert calls_of(lambda: sync_directory(tmp_path)) == ["fsync", "close"]
