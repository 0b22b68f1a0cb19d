"""Whether a session changed anything in the project: asked only when the task's own files did not change."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_CLOCK_GRAIN = 0.02  # file times come from a coarser clock than ours
_LONGEST_LOOK = 20_000
_SKIPPED = {".git", ".hg", "node_modules", ".venv", "__pycache__", ".marathon"}


def changed_since(project: Path, moment: float, leave_out: Path) -> bool:
    """True if a commit, an index or a file outside of `leave_out` is newer than the moment, or if it cannot be told."""
    since = moment - _CLOCK_GRAIN
    git = _git(project, "rev-parse", "--absolute-git-dir", "--show-toplevel")
    if git is None:
        return _any_newer(project, since, leave_out)
    git_dir, top = git.decode(errors="surrogateescape").splitlines()[:2]
    if any(_mtime(Path(git_dir, name)) >= since for name in ("HEAD", "logs/HEAD", "index")):
        return True
    changed = _git(Path(top), "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "-uall", "--no-renames")
    if changed is None:
        return True
    paths = (Path(top, os.fsdecode(entry[3:])) for entry in changed.split(b"\0") if entry)
    return any(_mtime(path) >= since for path in paths if not path.is_relative_to(leave_out))


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


def _any_newer(project: Path, since: float, leave_out: Path) -> bool:
    looked = 0
    for folder, folders, files in os.walk(project):
        folders[:] = [name for name in folders if name not in _SKIPPED and Path(folder, name) != leave_out]
        for name in (".", *files):
            looked += 1
            if looked > _LONGEST_LOOK or _mtime(Path(folder, name)) >= since:
                return True
    return False
