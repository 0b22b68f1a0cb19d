"""The code as it was at the last gate, and what changed in it since.

A git directory of our own in the task's `.marathon` holds the snapshots, and the project's repository only lends its
objects. So the user's index is never touched, and nothing that the repository's configuration names is run: no hook, no
filter, no external diff, no file system monitor.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from marathon.errors import DiskFailed
from marathon.store.files import make_private_directory, read_regular, write_atomic
from marathon.store.task import STATE

_DEADLINE = 10.0  # seconds for all git commands of one snapshot or one diff
_LARGEST_FILE = 8 * 1024 * 1024  # a larger file that git does not know yet is left out
NO_REPOSITORY = "This project is not a git repository."
_LONGEST_DIFF = 4 * 1024 * 1024
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
    """The snapshots of one task. Only for the holder of the lock."""

    def __init__(self, project: Path, own: Path) -> None:
        self._project = project
        self._own = own
        self._not_code = (own, own.parent / STATE)
        self._git_dir = own / "code.git"
        self._last = self._git_dir / "last-gate"  # the id of its tree
        self._until = 0.0

    def exists(self) -> bool:
        return self._last.exists()

    def take(self) -> None:
        """Remember the code as it is now. Without a repository, or where git takes too long, nothing is remembered."""
        with contextlib.suppress(OSError):
            self._last.unlink(missing_ok=True)  # if there is no new one, the old one is not called the last gate
        with contextlib.suppress(NoSnapshot, DiskFailed):  # it is only for looking, so the marathon goes on without it
            write_atomic(self._last, self._tree_now().encode(), durable=False)

    def changes(self, columns: int = 80) -> str:
        """Which files changed since the last snapshot, then the diff, as git says it. A sentence if that is unknown."""
        try:
            now = self._tree_now()
            before = (read_regular(self._last) or b"").decode("ascii", "replace")
            if not before:
                raise NoSnapshot("There is no copy of it from the last gate.")
            plainly = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")
            found = self._git("diff", f"--stat={columns}", "--patch", *plainly, before, now, "--")
        except NoSnapshot as missing:
            return f"What changed in the code is not known. {missing}"
        cut = "\n(cut here: the diff is very long)" if len(found) > _LONGEST_DIFF else ""
        return found[:_LONGEST_DIFF].decode("utf-8", "replace") + cut or "No file changed since the last gate."

    def _tree_now(self) -> str:
        self._until = time.monotonic() + _DEADLINE
        top = self._prepare()
        unknown = self._git("ls-files", "-z", "--others", "--exclude-standard", top=top).split(b"\0")
        large = [os.fsdecode(name) for name in unknown if name and _size(top, name) > _LARGEST_FILE]
        ours = [os.path.relpath(path, top) for path in self._not_code if path.is_relative_to(top)]
        left_out = [f":(exclude,top,literal){name}" for name in (*ours, *large)]
        # One file that cannot be read does not spoil the rest, so its error does not count.
        self._git("add", "--all", "--ignore-errors", "--", ".", *left_out, top=top, check=False)
        return self._git("write-tree", "--missing-ok", top=top).decode().strip()

    def _prepare(self) -> Path:
        """Make our git directory ready, and return the top folder of the project's repository."""
        if not any(os.path.lexists(folder / ".git") for folder in (self._project, *self._project.parents)):
            raise NoSnapshot(NO_REPOSITORY)
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
        return top

    def _create(self, theirs: Path) -> None:
        new = self._git_dir.with_name("code.git.new")
        shutil.rmtree(new, ignore_errors=True)
        make_private_directory(self._own)
        self._run(("init", "--quiet", "--bare", "--template=", str(new)), _alone())
        mine = ("config", "--global", "--type=path", "core.excludesFile")  # the user's, not the repository's
        if ignored := os.fsdecode(self._run(mine, dict(os.environ), check=False)).strip():
            self._run(("config", "--file", str(new / "config"), "core.excludesFile", ignored), _alone())
        with contextlib.suppress(OSError):  # the times in their index spare us from reading every file
            shutil.copy2(theirs / "index", new / "index", follow_symlinks=False)
        os.rename(new, self._git_dir)

    def _git(self, *args: str, top: Path | None = None, check: bool = True) -> bytes:
        env = {**_alone(), "GIT_DIR": str(self._git_dir)}
        if top is None:
            return self._run(args, env, check=check)
        return self._run(("-C", str(top), *args), {**env, "GIT_WORK_TREE": str(top)}, check=check)

    def _run(self, args: tuple[str, ...], env: dict[str, str], *, check: bool = True) -> bytes:
        try:
            done = subprocess.run(
                ["git", *args],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=max(0.1, self._until - time.monotonic()),
                env=env,
                check=check,
                umask=0o077,
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


def _size(top: Path, name: bytes) -> int:
    try:
        return os.lstat(os.path.join(os.fsencode(top), name)).st_size
    except OSError:
        return 0


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path) or b""
    except OSError:
        return b""
