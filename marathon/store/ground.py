"""Where a measured loop runs its commands: one tree at a time, always at the same path, with a HOME of its own.

A side is the files of one tree, and of HOME, as the loop's setup left them. Before each run the ground is made exactly
that again, whatever the run before left behind: ignored files, caches, times.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from marathon.store.files import disk_errors, make_private_directory

TREE, HOME, TMP = "tree", "home", "tmp"
# Programs that other programs look for in HOME. They are handed over, and everything else in HOME is not.
TOOLCHAINS = (
    *(".rustup", ".cargo", ".pyenv", ".nvm", ".rbenv", ".asdf", ".sdkman", ".volta", ".bun", ".deno", ".ghcup"),
    *("go", ".npm", ".npm-global", ".local/share/mise", ".local/share/uv", ".local/bin", ".gitconfig"),
)
_EXPORTED = 1_000_000_000  # the time of every file of a tree, so that no time tells the sides apart
_BLOCK = 1 << 20


class Entry(NamedTuple):
    """A file, a folder or a link as it has to be."""

    kind: int
    mode: int
    time: int  # in nanoseconds; 0 where it does not count
    content: str  # a digest, or where a link leads


class Ground:
    """The folder of one loop. Nothing in it outlives the runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree, self.home, self.tmp = (folder / name for name in (TREE, HOME, TMP))
        self._sides: dict[str, dict[str, Entry]] = {}
        self._there: dict[str, tuple[Entry, tuple[int, ...]]] = {}  # what was laid out, and how the disk has it

    def begin(self, handed_over: Path | None) -> None:
        """An empty ground, for the files of a tree and what a setup makes of them."""
        self._there.clear()
        with disk_errors("empty", self.folder):
            for each in (self.tree, self.home, self.tmp):
                _remove(each)
                make_private_directory(each)
            for name in TOOLCHAINS if handed_over else ():
                if handed_over and (handed_over / name).exists():
                    (self.home / name).parent.mkdir(parents=True, exist_ok=True)
                    (self.home / name).symlink_to(handed_over / name)

    def age_files(self) -> None:
        """Give every file of the tree the same time. What a setup makes is newer."""
        for path in _below(self.tree):
            os.utime(path, (_EXPORTED, _EXPORTED), follow_symlinks=False)

    def keep_as(self, side: str, *others: str) -> None:
        """What lies here now is this side from now on. Beside it only the others are kept."""
        for old in set(self._sides) - {side, *others}:
            _remove(self._master(old))
            del self._sides[old]
        master, entries = self._master(side), dict[str, Entry]()
        with disk_errors("copy", self.folder):
            _remove(master)
            for part in (self.tree, self.home):
                shutil.copytree(part, master / part.name, symlinks=True)
                entries |= {os.path.relpath(path, self.folder): _entry(path) for path in _below(part)}
        self._sides[side] = entries

    def has(self, side: str) -> bool:
        return side in self._sides

    def lay_out(self, side: str) -> None:
        """Make tree and HOME exactly this side, and the folder for temporary files empty."""
        wanted, master = self._sides[side], self._master(side)
        with disk_errors("lay out", self.folder):
            _remove(self.tmp)
            make_private_directory(self.tmp)
            for part in (self.tree, self.home):
                if part.is_symlink() or not part.is_dir():
                    _remove(part)
                    make_private_directory(part)
                os.chmod(part, 0o700)
                for path in _below(part):
                    if os.path.relpath(path, self.folder) not in wanted:
                        _remove(path)
            for name in sorted(wanted):
                self._put(name, wanted[name], master)
            for name in sorted(wanted, reverse=True):
                if wanted[name].kind == stat.S_IFDIR:
                    os.chmod(self.folder / name, wanted[name].mode)

    def remove(self) -> None:
        _remove(self.folder)

    def _put(self, name: str, entry: Entry, master: Path) -> None:
        path, known = self.folder / name, self._there.get(name)
        found = _signature(path)
        if found and known and known[1] == found and known[0] == entry:
            return
        if entry.kind == stat.S_IFDIR:
            if not found or not stat.S_ISDIR(found[0]):
                _remove(path)
                path.mkdir()
            os.chmod(path, 0o700)
            return
        same = found and known and known[1] == found and known[0]._replace(time=entry.time) == entry
        if not same:
            _remove(path)
            shutil.copy2(master / name, path, follow_symlinks=False)
        else:
            os.utime(path, ns=(entry.time, entry.time))
        if now := _signature(path):
            self._there[name] = entry, now

    def _master(self, side: str) -> Path:
        return self.folder / "sides" / side


def _below(folder: Path) -> Iterator[Path]:
    """Everything in a folder, a folder before what is in it. Links are not followed."""
    with os.scandir(folder) as found:
        entries = list(found)
    for each in entries:
        path = Path(each.path)
        yield path
        if each.is_dir(follow_symlinks=False) and path.exists():
            with contextlib.suppress(OSError):
                os.chmod(path, path.stat().st_mode | 0o700)
            yield from _below(path)


def _entry(path: Path) -> Entry:
    found = os.lstat(path)
    kind, mode = stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return Entry(kind, 0, 0, os.readlink(path))
    if not stat.S_ISREG(found.st_mode):
        return Entry(kind, mode, 0, "")
    with path.open("rb") as file:
        return Entry(kind, mode, found.st_mtime_ns, hashlib.file_digest(file, "sha256").hexdigest())


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes whenever a file does. No program can set the time of its last change."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remove(path: Path) -> None:
    """A file, or a folder with all that is in it, also where a program took its own rights away."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    os.chmod(path, 0o700)
    for each in _below(path):
        if not each.is_dir() or each.is_symlink():
            each.unlink()
    shutil.rmtree(path)
