"""The code as it was at the last gate, and what changed in it since.

A git directory of our own in the task's home holds the snapshots, and the project's repository only lends its
objects. So the user's index is never touched, and nothing that the repository's configuration names is run: no hook, no
filter, no external diff, no file system monitor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from marathon.core.text import counted
from marathon.errors import DiskFailed
from marathon.git.run import GitTookTooLong, nested_in, run, users_own
from marathon.store.files import make_private_directory, opened, read_regular, write_atomic
from marathon.store.home import LINK, STATE

_DEADLINE = 10.0  # seconds for all git commands of one snapshot or one diff
_LARGEST_FILE = 8 * 1024 * 1024  # a larger file that git does not know yet is left out
NO_REPOSITORY = "This project is not a git repository."
LONGEST_DIFF = 4 * 1024 * 1024


class NoSnapshot(Exception):
    """There is none; says why, as a sentence."""


class Snapshots:
    """The snapshots of one task. The runner takes them; any process may compare."""

    def __init__(self, project: Path, task: Path, own: Path) -> None:
        self._project = project
        self._task = task
        self._own = own
        self._not_code = (task / LINK, task / STATE)
        self._git_dir = own / "code.git"
        self._last = self._git_dir / "last-gate"  # the id of its tree
        self._until = 0.0
        self.problem = ""  # why there is none
        self._top = self._theirs = project  # of the repository: the top folder, and its git directory
        self._large: tuple[tuple[str, int, int], ...] = ()  # new files that are left out: name, size, time

    def exists(self) -> bool:
        return self._last.exists()

    def take(self) -> None:
        """Remember the code as it is now. Without a repository, or where git takes too long, nothing is remembered."""
        with contextlib.suppress(OSError):
            self._last.unlink(missing_ok=True)  # if there is no new one, the old one is not called the last gate
        try:
            write_atomic(self._last, self._tree_now().encode(), durable=False)
        except (NoSnapshot, DiskFailed) as error:  # it is only for looking, so the marathon goes on without it
            self.problem = str(error)

    def changes(self, columns: int = 80) -> str:
        """Which files changed since the last snapshot, then the diff, as git says it, without the task's own.

        A sentence if that is unknown.
        """
        try:
            now = self._tree_now()
            before = (read_regular(self._last) or b"").decode("ascii", "replace")
            if not before:
                raise NoSnapshot("There is no copy of it from when it last waited for you.")
            how = (f"--stat={columns}", "--patch", "--find-renames")
            found = self._git("diff", *how, before, now, "--", *self._code())
        except NoSnapshot as missing:
            return f"What changed in the code is not known. {missing}"
        cut = "\n(cut here: the diff is very long)" if len(found) > LONGEST_DIFF else ""
        return found[:LONGEST_DIFF].decode("utf-8", "replace") + cut or "No file changed since it last waited for you."

    def summary(self, seconds: float) -> str:
        """Such as 4 files +120 −8, without the task's own. Empty if nothing changed, or if git takes longer."""
        try:
            before = (read_regular(self._last) or b"").decode("ascii", "replace")
            if not before:
                return ""
            found = self._git("diff", "--shortstat", before, self._tree_now(seconds), "--", *self._code())
        except (NoSnapshot, DiskFailed, OSError):
            return ""
        counts = dict.fromkeys(("file", "insertion", "deletion"), 0)
        counts |= {unit: int(count) for count, unit in re.findall(r"(\d+) (file|insertion|deletion)", found.decode())}
        return f"{counted(counts['file'], 'file')} +{counts['insertion']} −{counts['deletion']}" if found else ""

    def _code(self) -> tuple[str, ...]:
        """What is compared: all but the task's folder, whose documents are reviewed by themselves."""
        task = self._task
        inside = task.is_relative_to(self._top) and task != self._top
        return (f":(exclude,literal){os.path.relpath(task, self._top)}",) if inside else ()

    def _tree_now(self, seconds: float = _DEADLINE) -> str:
        """One process at a time, because the page or another terminal may compare at the same gate."""
        self._until = time.monotonic() + seconds
        if not any(os.path.lexists(folder / ".git") for folder in (self._project, *self._project.parents)):
            raise NoSnapshot(NO_REPOSITORY)
        make_private_directory(self._own)
        with self._locked(fcntl.LOCK_NB if seconds < 1 else 0):
            return self._write_tree(self._prepare())

    @contextlib.contextmanager
    def _locked(self, how: int = 0) -> Iterator[None]:
        with opened(self._own, os.O_RDONLY) as alone:
            fcntl.flock(alone, fcntl.LOCK_EX | how)
            yield

    def _write_tree(self, top: Path) -> str:
        unknown = self._git("ls-files", "-z", "--others", "--exclude-standard", top=top).split(b"\0")
        sizes = ((os.fsdecode(name), *_size(top, name)) for name in unknown if name)
        self._large = tuple(each for each in sizes if each[1] > _LARGEST_FILE)
        large = [name for name, *_ in self._large]
        ours = [os.path.relpath(path, top) for path in self._not_code if path.is_relative_to(top)]
        nested = nested_in(self._git("ls-files", "-s", "-z", top=top))
        left_out = [f":(exclude,top,literal){name}" for name in (*ours, *large, *map(os.fsdecode, nested))]
        # One file that cannot be read does not spoil the rest, so its error does not count.
        self._git("add", "--all", "--ignore-errors", "--", ".", *left_out, top=top, check=False)
        if nested:  # of these only the commit counts
            paths = b"".join(name + b"\0" for name in nested)
            self._git("update-index", "--remove", "-z", "--stdin", top=top, stdin=paths, check=False)
        return self._git("write-tree", "--missing-ok", top=top).decode().strip()

    def _prepare(self) -> Path:
        """Make our git directory ready, and return the top folder of the project's repository."""
        asked = ("--path-format=absolute", "--show-toplevel", "--git-dir", "--git-path", "objects")
        said = self._run(self._project, ("rev-parse", *asked))
        if len(lines := os.fsdecode(said).splitlines()) != 3:
            raise NoSnapshot("The name of the repository's folder has a line break.")
        top, theirs, objects = map(Path, lines)
        try:
            if not self._git_dir.is_dir():
                self._create(theirs)
            for folder in ("info", "objects/info"):
                (self._git_dir / folder).mkdir(parents=True, exist_ok=True)
            (self._git_dir / "objects/info/alternates").write_bytes(os.fsencode(objects) + b"\n")
            (self._git_dir / "info/exclude").write_bytes(_bytes(objects.parent / "info/exclude"))
            (self._git_dir / "index.lock").unlink(missing_ok=True)  # of a git that was killed
        except OSError as error:
            raise NoSnapshot(f"{self._git_dir} cannot be written: {error.strerror}.") from error
        self._top, self._theirs = top, theirs
        return top

    def _create(self, theirs: Path) -> None:
        new = self._git_dir.with_name("code.git.new")
        shutil.rmtree(new, ignore_errors=True)
        own = {"GIT_DIR": str(new)}
        self._run(None, ("init", "--quiet", "--bare", "--template=", str(new)), own)
        try:
            users = users_own(self._project, "core.excludesfile", max(0.1, self._until - time.monotonic()))
        except GitTookTooLong as late:
            raise NoSnapshot(str(late)) from late
        for ignored in users:
            self._run(None, ("config", "--file", str(new / "config"), "core.excludesFile", ignored), own)
        with contextlib.suppress(OSError):  # the times in their index spare us from reading every file
            shutil.copy2(theirs / "index", new / "index", follow_symlinks=False)
        os.rename(new, self._git_dir)

    def _git(self, *args: str, top: Path | None = None, env: Mapping[str, str] | None = None, **how: Any) -> bytes:
        env = {"GIT_DIR": str(self._git_dir), **({"GIT_WORK_TREE": str(top)} if top else {}), **(env or {})}
        return self._run(top, args, env, **how)

    def _run(
        self,
        folder: Path | None,
        args: tuple[str, ...],
        env: Mapping[str, str] | None = None,
        check: bool = True,
        stdin: bytes = b"",
        private: bool = True,
    ) -> bytes:
        """`private` is for files that only we may read, otherwise the user's own umask counts."""
        left = max(0.1, self._until - time.monotonic())
        try:
            done = run(folder, *args, seconds=left, env=env, stdin=stdin, private=private)
        except GitTookTooLong as late:
            raise NoSnapshot(str(late)) from late
        except OSError as error:
            raise NoSnapshot(f"git cannot be started: {error.strerror}.") from error
        if check and done.returncode:
            said = done.stderr.decode("utf-8", "replace")
            raise NoSnapshot(NO_REPOSITORY if "not a git repository" in said else f"git says: {said.strip()}")
        return done.stdout


def _size(top: Path, name: bytes) -> tuple[int, int]:
    try:
        facts = os.lstat(os.path.join(os.fsencode(top), name))
    except OSError:
        return 0, 0
    return facts.st_size, facts.st_mtime_ns


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path) or b""
    except OSError:
        return b""
