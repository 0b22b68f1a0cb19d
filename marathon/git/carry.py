"""Brings files that git ignores into a new worktree, as the project's .worktreeinclude names them.

Each is a copy of its own, so nothing that is written in the worktree changes the human's tree.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from marathon.core.carried import INCLUDE, LARGE, gathered, stays_inside
from marathon.git.worktree import git, top_of
from marathon.store.files import disk_errors

_FICLONE = 0x40049409  # Linux: both files share their blocks until one is written


class Carried(NamedTuple):
    copied: list[str]  # as few lines as say it
    files: int
    left: list[str]  # links that lead out, and what is no file


def carry(project: Path, folder: Path) -> Carried:
    """Copy what .worktreeinclude names and git ignores. What is in the worktree already stays as it is."""
    top, copied, left = top_of(project), list[str](), list[str]()
    tracked = set(_names(git(folder, "ls-files", "-z", "--", ":/")))
    for name in _wanted(top):
        source, place = top / name, folder / name
        if name in tracked or not Path(os.path.realpath(place.parent)).is_relative_to(os.path.realpath(folder)):
            continue
        if not os.path.lexists(place):
            with disk_errors("copy into the worktree", source):
                if not _copy(source, place, name):
                    left.append(name)
                    continue
        copied.append(name)
    return Carried(gathered(copied), len(copied), left)


def not_carried(project: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Large folders of the project that git ignores and that the worktree lacks, with their size in bytes."""
    top = top_of(project)
    there = [name for name in LARGE if (top / name).is_dir() and not os.path.lexists(folder / name)]
    ignored = _names(git(top, "ls-files", "-z", "-o", "-i", "--directory", "--exclude-standard", "--", *there))
    for name in there if there else ():
        if f"{name}/" in ignored:
            yield name, _size(top / name)


def _wanted(top: Path) -> list[str]:
    if not (top / INCLUDE).is_file():
        return []
    named = git(top, "ls-files", "-z", "-o", "-i", f"--exclude-from={top / INCLUDE}")
    ignored = set(_names(git(top, "ls-files", "-z", "-o", "-i", "--exclude-standard"))) if named else set()
    return [name for name in _names(named) if name in ignored]


def _names(listed: str) -> list[str]:
    return [name for name in listed.split("\0") if name]


def _copy(source: Path, place: Path, name: str) -> bool:
    """Whether it could be: a file with its mode, or a link that leads to the same place in the worktree."""
    kind = source.lstat().st_mode
    if stat.S_ISLNK(kind):
        target = os.readlink(source)
        if not stays_inside(name, target):
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, place)
        return True
    if not stat.S_ISREG(kind):
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f".{place.name[:200]}.part")
    with open(source, "rb") as old, open(half, "wb", opener=_private) as new:
        try:
            fcntl.ioctl(new, _FICLONE, old.fileno())
        except OSError:  # another file system, or one that cannot share
            shutil.copyfileobj(old, new, 1024 * 1024)
    shutil.copystat(source, half)
    os.replace(half, place)
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _size(folder: Path) -> int:
    found = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found += os.lstat(os.path.join(path, name)).st_size
    return found
