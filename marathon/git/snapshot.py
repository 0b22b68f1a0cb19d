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
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from marathon.core.text import counted
from marathon.errors import DiskFailed
from marathon.store.files import make_private_directory, opened, read_regular, write_atomic
from marathon.store.home import LINK, STATE

_DEADLINE = 10.0  # seconds for all git commands of one snapshot or one diff
_LARGEST_FILE = 8 * 1024 * 1024  # a larger file that git does not know yet is left out
NO_REPOSITORY = "This project is not a git repository."
LONGEST_DIFF = 4 * 1024 * 1024
_ALONE = {  # only our own git directory says how these run
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


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
                raise NoSnapshot("There is no copy of it from the last gate.")
            plainly = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")
            found = self._git("diff", f"--stat={columns}", "--patch", *plainly, before, now, "--", *self._code())
        except NoSnapshot as missing:
            return f"What changed in the code is not known. {missing}"
        cut = "\n(cut here: the diff is very long)" if len(found) > LONGEST_DIFF else ""
        return found[:LONGEST_DIFF].decode("utf-8", "replace") + cut or "No file changed since the last gate."

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
        left_out = [f":(exclude,top,literal){name}" for name in (*ours, *large)]
        # One file that cannot be read does not spoil the rest, so its error does not count.
        self._git("add", "--all", "--ignore-errors", "--", ".", *left_out, top=top, check=False)
        return self._git("write-tree", "--missing-ok", top=top).decode().strip()

    def _prepare(self) -> Path:
        """Make our git directory ready, and return the top folder of the project's repository."""
        asked = ("--path-format=absolute", "--show-toplevel", "--git-dir", "--git-path", "objects")
        said = self._run(("-C", str(self._project), "rev-parse", *asked), {**os.environ, "LC_ALL": "C"})
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
        self._run(("init", "--quiet", "--bare", "--template=", str(new)), _alone())
        mine = ("config", "--global", "--type=path", "core.excludesFile")  # the user's, not the repository's
        if ignored := os.fsdecode(self._run(mine, dict(os.environ), check=False)).strip():
            self._run(("config", "--file", str(new / "config"), "core.excludesFile", ignored), _alone())
        with contextlib.suppress(OSError):  # the times in their index spare us from reading every file
            shutil.copy2(theirs / "index", new / "index", follow_symlinks=False)
        os.rename(new, self._git_dir)

    def _git(self, *args: str, top: Path | None = None, env: Mapping[str, str] | None = None, **how: Any) -> bytes:
        env = {**_alone(), "GIT_DIR": str(self._git_dir), **(env or {})}
        if top is not None:
            args, env = ("-C", str(top), *args), {**env, "GIT_WORK_TREE": str(top)}
        return self._run(args, env, **how)

    def _run(
        self,
        args: tuple[str, ...],
        env: Mapping[str, str],
        check: bool = True,
        stdin: bytes = b"",
        private: bool = True,
    ) -> bytes:
        """`private` is for files that only we may read, otherwise the user's own umask counts."""
        try:
            done = subprocess.run(
                ["git", *args],
                input=stdin,
                capture_output=True,
                timeout=max(0.1, self._until - time.monotonic()),
                env=env,
                check=check,
                process_group=0,  # Ctrl+C is for the runner; it must not end git between two steps
                umask=0o077 if private else -1,
            )
        except subprocess.TimeoutExpired as late:
            raise NoSnapshot(f"git took longer than {_DEADLINE:.0f} seconds.") from late
        except OSError as error:
            raise NoSnapshot(f"git cannot be started: {error.strerror}.") from error
        except subprocess.CalledProcessError as failed:
            said = failed.stderr.decode("utf-8", "replace")
            if "not a git repository" in said:
                raise NoSnapshot(NO_REPOSITORY) from failed
            raise NoSnapshot(f"git says: {said.strip()}") from failed
        return done.stdout


def _alone() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ALONE


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
