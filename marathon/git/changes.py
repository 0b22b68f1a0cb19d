"""What a session changed in the project: whether anything at all, and the files with a digest of their contents."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from marathon.store.files import read_regular

_CLOCK_GRAIN = 0.02  # file times come from a coarser clock than ours
_LONGEST_LOOK = 20_000
_MOST_FILES = 200
_LARGEST_FILE = 1024 * 1024
_SKIPPED = {
    ".git",
    ".hg",
    "node_modules",
    ".venv",
    "__pycache__",
    ".marathon",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
}
_NOTES = ("/.pi/marathon-states/", "/.pi/agent/sessions/")  # ours and pi's: somebody may work in a home folder


@dataclass(frozen=True)
class Changes:
    moved: bool  # a commit, or something that left no contents to compare; also where it cannot be told
    files: tuple[tuple[str, str], ...] = ()  # below the project, each with a digest; not more than a few hundred


UNKNOWN = Changes(moved=True)


def changes_since(project: Path, moment: float, task: Path, artifacts: Iterable[str] = ()) -> Changes:
    """What is newer than the moment; of the task's own folder only these artifacts."""
    # Names of files are plain strings here: this runs between any two sessions, and may meet many of them.
    top, own, since = str(project), str(task), moment - _CLOCK_GRAIN
    holder = _holder_of_git(top)
    found = _in_repository(top, holder, since, own) if holder is not None else None
    changed = [path for path in (f"{own}/{name}" for name in artifacts) if _ctime(path) >= since]
    moved, paths = found if found is not None else _walked(top, since, own)
    digests = {path: _digest(path) for path in sorted({*paths, *changed})[:_MOST_FILES]}
    untold = any(digests.get(path) is None for path in (*paths, *changed))
    files = [(_shown(path, top), digest) for path, digest in digests.items() if digest]
    return Changes(moved or untold, tuple(files))


def _holder_of_git(project: str) -> str | None:
    """The nearest folder with a .git. Far quicker than asking git, where there is none."""
    if "GIT_DIR" in os.environ:
        return ""
    folder = project
    while not os.path.exists(f"{folder}/.git"):
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
    return folder


def _in_repository(project: str, holder: str, since: float, task: str) -> tuple[bool, list[str]] | None:
    """Only lists names: a `status` or a `log` would start whatever programs the repository's configuration names."""
    listing = ("ls-files", "-z", "-c", "-o", "--exclude-standard", "--full-name", ":/")
    try:
        git_dir, top = _places(project, holder)
        names = _git(project, "-c", "core.fsmonitor=false", *listing)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    heads = [os.path.join(git_dir, name) for name in ("HEAD", "logs/HEAD")]
    committed = any(os.path.exists(head) and _mtime(head) >= since for head in heads)
    paths = {os.path.join(top, os.fsdecode(name)) for name in names.split(b"\0") if name}
    newer = [path for path in paths if not path.startswith(f"{task}/") and _mtime(path) >= since]
    return committed, [path for path in newer if not _is_note(path, top)]


@functools.cache
def _places(project: str, holder: str) -> tuple[str, str]:
    """The repository's own folder and the top of its files; asked for once while the same folder holds its .git."""
    said = _git(project, "rev-parse", "--absolute-git-dir", "--show-toplevel")
    git_dir, top = said.decode(errors="surrogateescape").splitlines()
    return git_dir, top


def _git(folder: str, *args: str) -> bytes:
    done = subprocess.run(
        ["git", "-C", folder, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=True,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )
    return done.stdout


def _mtime(path: str) -> float:
    """When the file, or where it is gone the nearest folder left of it, last changed."""
    while True:
        try:
            return os.lstat(path).st_mtime
        except OSError:
            if path == os.path.dirname(path):
                return 0.0
            path = os.path.dirname(path)


def _walked(project: str, since: float, skipped: str) -> tuple[bool, list[str]]:
    looked, changed = 0, False
    newer: list[str] = []
    folders = [project]
    while folders:
        folder = folders.pop()
        changed = changed or _mtime(folder) >= since
        for entry in _entries(folder):
            looked += 1
            if looked > _LONGEST_LOOK:
                return True, newer
            if not entry.is_dir(follow_symlinks=False):
                if _mtime(entry.path) >= since:
                    newer.append(entry.path)
            elif entry.name not in _SKIPPED and entry.path != skipped and not _is_note(entry.path, project):
                folders.append(entry.path)
    return changed or bool(newer), newer


def _is_note(path: str, top: str) -> bool:
    below = path.removeprefix(top) + "/"
    return "/.pi/" in below and any(notes in below for notes in _NOTES)


def _ctime(path: str) -> float:
    """When the file came to be what it is: an older one may have been moved here."""
    try:
        return os.lstat(path).st_ctime
    except OSError:  # gone just now
        return 0.0


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What lies in a folder; nothing where it is gone or closed to us."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _digest(path: str) -> str | None:
    """Of a file that can be read and is not huge."""
    try:
        data = read_regular(path, _LARGEST_FILE)
    except OSError:
        return None
    return hashlib.sha256(data).hexdigest()[:16] if data is not None and len(data) <= _LARGEST_FILE else None


def _shown(path: str, project: str) -> str:
    below = path.removeprefix(f"{project}/")
    return os.fsencode(below if below != path else os.path.relpath(path, project)).decode("utf-8", "replace")
