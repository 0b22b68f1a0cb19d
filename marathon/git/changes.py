"""What a session changed in the project: whether anything moved, and the changed files with a digest of each."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from marathon.git.run import GitTookTooLong, run
from marathon.store.files import read_regular

_PATIENCE = 5.0  # seconds; a .gitignore may be a pipe that no one writes
_NO_ANSWER = (OSError, ValueError, subprocess.CalledProcessError, GitTookTooLong)
_CLOCK_GRAIN = 0.02  # file times come from a coarser clock than ours
_MOST_LOOKED_AT = 20_000
_MOST_FILES = 200
_LARGEST_FILE = 1024 * 1024
SKIPPED = {
    *(".git", ".hg", ".marathon", "node_modules", ".venv"),
    *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"),
}
# Ours, pi's (the project may be a home folder) and aider's. They are no work.
NOTES = ("/.pi/marathon-states/", "/.pi/agent/sessions/", "/.aider.tags.cache.v4/")


@dataclass(frozen=True)
class Changes:
    moved: bool  # a commit, or a change that left no contents to compare, or no one can tell
    files: tuple[tuple[str, str], ...] = ()  # below the project, each with a digest; at most _MOST_FILES


UNKNOWN = Changes(moved=True)


def changes_since(project: Path, moment: float, task: Path, artifacts: Iterable[str] = ()) -> Changes:
    """What is newer than the moment. In the task's own folder, only these artifacts are looked at."""
    since = moment - _CLOCK_GRAIN
    moved, paths = _in_repository(project, since, task) or _in_folder(project, since, task)
    paths += [path for name in artifacts if _ctime(path := f"{task}/{name}") >= since]
    digests = {path: _digest(path) for path in sorted(paths)[:_MOST_FILES]}
    uncompared = any(digests.get(path) is None for path in paths)
    files = [(_shown(path, project), digest) for path, digest in digests.items() if digest]
    return Changes(moved or uncompared, tuple(files))


def git_folders(project: Path) -> list[Path]:
    """Where git keeps this project's index, and its objects if they lie elsewhere. Nothing if it is no repository."""
    try:
        said = _git(project, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
    except _NO_ANSWER:
        return []
    return list(dict.fromkeys(map(Path, os.fsdecode(said).splitlines())))


def identity(project: Path) -> dict[str, str]:
    """Whose commits these are, for a program whose shell does not see the user's own configuration."""
    given: dict[str, str] = {}
    for name in ("name", "email"):
        try:
            value = os.fsdecode(_git(project, "config", "--get", f"user.{name}")).strip()
        except _NO_ANSWER:
            return {}
        given |= {f"GIT_{who}_{name.upper()}": value for who in ("AUTHOR", "COMMITTER")}
    return given


def folders_beside(project: Path, env: Mapping[str, str]) -> list[Path]:
    """What a session needs outside of the folder it works in, as a worktree is: the task's folder and git's own."""
    here = os.path.realpath(project)
    needed = [Path(env["MARATHON_TASK_DIR"]), *git_folders(project)[-1:]]
    return [each for each in map(Path, map(os.path.realpath, needed)) if not each.is_relative_to(here)]


def _in_repository(project: Path, since: float, task: Path) -> tuple[bool, list[str]] | None:
    """Whether there was a commit, and the newer files. None if this is not a repository.

    Git only lists names here, so no file is read.
    """
    try:
        said = _git(project, "rev-parse", "--absolute-git-dir", "--show-toplevel")
        git_dir, top = os.fsdecode(said).splitlines()
        listing = ("ls-files", "-z", "-c", "-o", "--exclude-standard", "--full-name", ":/")
        names = _git(project, *listing)
    except _NO_ANSWER:
        return None
    heads = [f"{git_dir}/{name}" for name in ("HEAD", "logs/HEAD")]
    committed = any(os.path.exists(head) and _mtime(head) >= since for head in heads)
    paths = {f"{top}/{os.fsdecode(name)}" for name in names.split(b"\0") if name}
    newer = [path for path in paths if not path.startswith(f"{task}/") and _mtime(path) >= since]
    return committed, [path for path in newer if not _is_note(path, top)]


def _git(folder: Path, *args: str) -> bytes:
    done = run(folder, *args, seconds=_PATIENCE)
    done.check_returncode()
    return done.stdout


def _in_folder(project: Path, since: float, task: Path) -> tuple[bool, list[str]]:
    """Whether anything came, went or changed, and the newer files. Used where there is no repository."""
    looked, moved = 0, False
    newer: list[str] = []
    for folder, folders, names in os.walk(project):
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED and (path := f"{folder}/{name}") != str(task) and not _is_note(path, str(project))
        ]
        looked += len(folders) + len(names)
        if looked > _MOST_LOOKED_AT:
            return True, newer
        moved = moved or _mtime(folder) >= since
        newer += [path for name in names if _mtime(path := f"{folder}/{name}") >= since]
    return moved, newer


def _is_note(path: str, top: str) -> bool:
    below = path.removeprefix(top) + "/"
    return any(notes in below for notes in NOTES)


def _mtime(path: str) -> float:
    """When a file last changed. For a file that is gone, when the nearest folder that is left last changed."""
    while True:
        try:
            return os.lstat(path).st_mtime
        except OSError:
            if path == os.path.dirname(path):
                return 0.0
            path = os.path.dirname(path)


def _ctime(path: str) -> float:
    """When a file came to be what it is. Unlike the mtime, this tells of an older file that was moved here."""
    try:
        return os.lstat(path).st_ctime
    except OSError:  # gone just now
        return 0.0


def _digest(path: str) -> str | None:
    """None for what is not a regular file, is too large, or cannot be read."""
    try:
        data = read_regular(path, _LARGEST_FILE)
    except OSError:
        return None
    return hashlib.sha256(data).hexdigest()[:16] if data is not None and len(data) <= _LARGEST_FILE else None


def _shown(path: str, project: Path) -> str:
    return os.fsencode(os.path.relpath(path, project)).decode("utf-8", "replace")
