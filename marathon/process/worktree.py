"""What a session changed in the project: whether anything at all, and the files with a digest of their contents."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_CLOCK_GRAIN = 0.02  # file times come from a coarser clock than ours
_LONGEST_LOOK = 20_000
_MOST_FILES = 200
_LARGEST_FILE = 1024 * 1024
_SKIPPED = {".git", ".hg", "node_modules", ".venv", "__pycache__", ".marathon"}


@dataclass(frozen=True)
class Changes:
    any: bool  # also where it cannot be told
    files: tuple[tuple[str, str], ...] = ()  # below the project, each with a digest; not more than a few hundred


UNKNOWN = Changes(any=True)


def changes_since(project: Path, moment: float, task: Path) -> Changes:
    """What is newer than the moment; of the task's own folder only the artifacts that lie openly in it."""
    since = moment - _CLOCK_GRAIN
    git = _git(project, "rev-parse", "--absolute-git-dir", "--show-toplevel") if _in_git(project) else None
    if git is None:
        changed, paths = _walked(project, since, task)
    else:
        git_dir, top = git.decode(errors="surrogateescape").splitlines()[:2]
        changed, paths = _in_repository(Path(git_dir), Path(top), since, task)
    return Changes(changed, tuple(_digests(project, [*paths, *_artifacts(task, since)])))


def _in_git(project: Path) -> bool:
    """Far quicker than asking git, where there is none."""
    return "GIT_DIR" in os.environ or any((folder / ".git").exists() for folder in (project, *project.parents))


def _in_repository(git_dir: Path, top: Path, since: float, task: Path) -> tuple[bool, list[Path]]:
    touched = any(_mtime(git_dir / name) >= since for name in ("HEAD", "index"))
    committed = _mtime(git_dir / "logs" / "HEAD") >= since
    status = _git(top, "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "-uall", "--no-renames")
    if status is None:
        return True, []
    names = [entry[3:] for entry in status.split(b"\0") if entry]
    newer = [path for path in _paths(top, names, task) if _mtime(path) >= since]
    if committed:
        log = _git(top, "log", "-z", "--name-only", "--format=", "--no-renames", f"--since={int(since)}")
        newer += _paths(top, (log or b"").split(b"\0"), task)
    return touched or committed or bool(newer), newer


def _paths(top: Path, names: Iterable[bytes], leave_out: Path) -> Iterator[Path]:
    for name in names:
        path = top / os.fsdecode(name)
        if name and not path.is_relative_to(leave_out):
            yield path


def _git(folder: Path, *args: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _mtime(path: Path) -> float:
    """When the file, or where it is gone the nearest folder left of it, last changed."""
    for candidate in (path, *path.parents):
        try:
            return candidate.lstat().st_mtime
        except OSError:
            continue
    return 0.0


def _walked(project: Path, since: float, leave_out: Path) -> tuple[bool, list[Path]]:
    looked, changed = 0, False
    newer: list[Path] = []
    for folder, folders, files in os.walk(project):
        folders[:] = [name for name in folders if name not in _SKIPPED and Path(folder, name) != leave_out]
        changed = changed or _mtime(Path(folder)) >= since
        for path in (Path(folder, name) for name in files):
            looked += 1
            if looked > _LONGEST_LOOK:
                return True, newer
            if _mtime(path) >= since:
                newer.append(path)
    return changed or bool(newer), newer


def _artifacts(task: Path, since: float) -> list[Path]:
    try:
        found = [Path(entry.path) for entry in os.scandir(task) if not entry.name.startswith((".", "STATE.json"))]
    except OSError:
        return []
    return [path for path in found if _mtime(path) >= since]


def _digests(project: Path, paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Of files that can be read and are not huge; the rest is nobody's handwriting."""
    for path in sorted(set(paths))[:_MOST_FILES]:
        try:
            found = path.lstat()
            if not (os.path.isfile(path) and not path.is_symlink() and found.st_size <= _LARGEST_FILE):
                continue
            data = path.read_bytes()
        except OSError:
            continue
        shown = os.fsencode(os.path.relpath(path, project)).decode("utf-8", "replace")
        yield shown, hashlib.sha256(data).hexdigest()[:16]
