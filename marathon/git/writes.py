"""Holds a session to what its phase may write.

The tree is compared with what it was before, by content. What was written elsewhere is kept as a patch and undone.
Git's own merge of two trees undoes it, which refuses to touch a file that changed since it was looked at.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from marathon.core.records import Writes
from marathon.core.text import one_line
from marathon.errors import MarathonError
from marathon.git.changes import NOTES, SKIPPED
from marathon.git.snapshot import NoSnapshot, Snapshots
from marathon.git.worktree import GitFailed, git, top_of
from marathon.store.files import make_private_directory, write_atomic
from marathon.store.task import HUMAN, OWN, STATE

_NESTED = b"160000"  # the mode of a repository inside the tree, of which git keeps only the commit
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_LOOKS = 3  # what a changed .gitignore had hidden is seen once the .gitignore is back
_MOST_NAMES = 20
_PATIENCE = 8.0  # seconds for one look
_KEPT = "refs/pi-marathon/undone/"


class Before(NamedTuple):
    """The project before a session."""

    tree: str
    commit: str = ""
    head: bytes = b""  # what .git/HEAD says
    staged: bytes = b""  # the index
    large: tuple[tuple[str, int, int], ...] = ()  # new files that are too large to be kept: name, size, time
    others: tuple[Path, ...] = ()  # the folders of other tasks


class _Change(NamedTuple):
    mode: bytes
    id: bytes
    path: bytes
    new_mode: bytes


class WriteGuard(Snapshots):
    """Watches one task's project."""

    def __init__(self, project: Path, task: Path) -> None:
        super().__init__(project, task / OWN)
        self._task = task

    def look(self) -> Before:
        """NoSnapshot says why what is written cannot be compared later."""
        tree = self._tree_now(_PATIENCE)
        others = (path for path in self._task.parent.iterdir() if path != self._task and (path / OWN).is_dir())
        head, index = (_bytes(self._theirs / name) for name in ("HEAD", "index"))
        return Before(tree, self._commit(), head, index, self._large, tuple(others))

    def hold(self, before: Before, allowed: Sequence[Path], patch: Path, leave: str = "") -> Writes | None:
        """What was written outside of what is allowed. It is undone, unless `leave` says why not."""
        names: list[str] = []
        problem = leave
        for number in range(_LOOKS):
            after = self._tree_now(_PATIENCE)
            specs = self._elsewhere(before, allowed)
            if not (changes := list(self._changes(before.tree, after, specs))):
                break
            names += [name for each in changes if (name := os.fsdecode(each.path)) not in names]
            make_private_directory(patch.parent)
            diff = self._git("diff", "--binary", "--no-ext-diff", "--no-renames", before.tree, after, "--", *specs)
            _append(patch, diff, first=number == 0)
            problem = problem or self._cannot_undo(changes) or self._undo(changes, after)
            if problem:
                break
        large = [name for name, *_ in set(self._large) - set(before.large) if self._is_elsewhere(name, before, allowed)]
        if large and not problem:
            problem = f"{one_line(large[0], 100)} is too large to be put aside."
        commit, head_problem = self._hold_head(before, self._elsewhere(before, allowed), undo=not problem)
        problem = problem or head_problem
        if names and not problem:
            problem = self._restore_index(before)
        if not (names or large or commit):
            return None
        kept = os.path.relpath(patch, self._task) if names else ""
        files = [*names, *large]
        return Writes(files=files[:_MOST_NAMES], count=len(files), patch=kept, commit=commit, left=problem)

    def command_back(self, writes: Writes, home: Path) -> str:
        """What a human types in the folder `home` to bring back what was undone. Empty where nothing was."""
        patch = self._task.resolve() / writes.patch
        with contextlib.suppress(MarathonError):  # the repository is gone
            there, top = ["git"], top_of(self._project)
            if top != home.resolve():
                there = ["git", "-C", str(top)]
            elif patch.is_relative_to(top):
                patch = patch.relative_to(top)
            return " && ".join(shlex.join([*there, *step]) for step in _steps_back(writes, patch))
        return ""

    def put_back(self, undone: Sequence[Writes]) -> str:
        """Bring it back, and say so. What cannot be brought back is left as it is."""
        said = []
        for writes in undone:
            what = ", ".join(map(one_line, writes.files)) or writes.commit[:12]
            patch = self._task.resolve() / writes.patch
            try:
                top = top_of(self._project)
                if writes.patch and _is_there(top, patch):
                    said.append(f"There already: {what}.")
                    continue
                for step in _steps_back(writes, patch):
                    git(top, *step)
                said.append(f"Put back: {what}.")
            except MarathonError as error:
                said.append(f"Not put back: {what}. {error}")
        return "\n".join(said)

    def sees_task(self) -> bool:
        """Whether git would notice what is written in the task's folder."""
        with contextlib.suppress(GitFailed):
            git(self._project, "check-ignore", "-q", str(self._task / "any.md"))
            return False
        return self._task.is_relative_to(self._top)

    def _elsewhere(self, before: Before, allowed: Sequence[Path]) -> list[str]:
        """The pathspec of everything that may not be written."""
        mine = (*allowed, *before.others, *(self._task / name for name in (OWN, STATE, HUMAN)))
        inside = [os.path.relpath(path, self._top) for path in mine if path.is_relative_to(self._top)]
        made = [f":(exclude,glob)**/{name}/**" for name in sorted(SKIPPED - {OWN})]
        notes = [f":(exclude,glob)**{name}**" for name in NOTES]
        return [*(f":(exclude,literal){name}" for name in inside), *made, *notes]

    def _is_elsewhere(self, name: str, before: Before, allowed: Sequence[Path]) -> bool:
        return not any((self._top / name).is_relative_to(path) for path in (*allowed, *before.others))

    def _changes(self, before: str, after: str, specs: Sequence[str]) -> Iterator[_Change]:
        fields = self._git("diff-tree", "-r", "-z", "--no-renames", before, after, "--", *specs).split(b"\0")
        for facts, path in zip(fields[0:-1:2], fields[1::2], strict=True):
            old_mode, new_mode, id, *_ = facts.lstrip(b":").split()
            yield _Change(old_mode, id, path, new_mode)

    def _cannot_undo(self, changes: Sequence[_Change]) -> str:
        for each in changes:
            if _NESTED in (each.mode, each.new_mode):
                return f"{_shown(each.path)} is a repository of its own."
        paths = b"".join(each.path + b"\0" for each in changes)
        fields = self._git("check-attr", "-z", "--stdin", "filter", top=self._top, stdin=paths).split(b"\0")
        for path, value in zip(fields[0:-1:3], fields[2::3], strict=True):
            if value not in (b"unspecified", b"unset"):
                return f"{_shown(path)} goes through a filter of git ({_shown(value)})."
        return ""

    def _undo(self, changes: Sequence[_Change], after: str) -> str:
        """Put exactly these files back. The answer is why that was not possible."""
        lines = b"".join(b"%b %b\t%b\0" % (each.mode.lstrip(b"0") or b"0", each.id, each.path) for each in changes)
        index = {"GIT_INDEX_FILE": str(self._git_dir / "undo-index")}
        try:
            self._git("read-tree", after, env=index)
            self._git("update-index", "-z", "--index-info", env=index, stdin=lines)
            target = self._git("write-tree", "--missing-ok", env=index).decode().strip()
            with self._locked():
                self._git("read-tree", "-m", "-u", after, target, top=self._top, private=False)
        except NoSnapshot as failed:
            return one_line(str(failed), 300)
        return ""

    def _commit(self) -> str:
        with contextlib.suppress(GitFailed):
            return git(self._project, "rev-parse", "-q", "--verify", "HEAD^{commit}")
        return ""  # there is none yet

    def _hold_head(self, before: Before, specs: Sequence[str], *, undo: bool) -> tuple[str, str]:
        """The commit that the session left, if it may not stand, and why HEAD was not put back."""
        commit, head = self._commit(), _bytes(self._theirs / "HEAD")
        same = before.head == head or b"ref:" not in (before.head[:4], head[:4])
        if not before.head or (same and commit == before.commit):
            return "", ""
        follows = bool(before.commit) and _is_ancestor(self._project, before.commit, commit)
        if same and follows and not list(self._changes(before.commit, commit, specs)):
            return "", ""
        if commit:
            git(self._project, "update-ref", _KEPT + commit, commit)
        if not undo:
            return commit, ""
        if not same:
            return commit, "The session left another branch checked out."
        if not follows:
            return commit, "The commits before it were rewritten."
        if any((self._theirs / name).exists() for name in _UNDER_WAY):
            return commit, "A merge or a rebase is under way."
        try:
            git(self._project, "update-ref", "-m", "pi-marathon: not allowed here", "HEAD", before.commit, commit)
        except GitFailed as failed:
            return commit, one_line(str(failed), 300)
        return commit, self._restore_index(before)

    def _restore_index(self, before: Before) -> str:
        """As git does it: whoever makes index.lock may replace the index."""
        lock = self._theirs / "index.lock"
        if not before.staged or _bytes(self._theirs / "index") == before.staged:
            return ""
        try:
            with open(lock, "xb") as file:
                file.write(before.staged)
            os.replace(lock, self._theirs / "index")
        except OSError as error:
            return f"git's index could not be put back: {error.strerror}."
        return ""


def _steps_back(writes: Writes, patch: Path) -> list[list[str]]:
    """For git in the top folder. No commit that came later is taken off its branch."""
    if writes.left:
        return []
    follows, move = ["merge-base", "--is-ancestor", "HEAD", writes.commit], ["reset", "-q", writes.commit]
    apply = ["apply", "--whitespace=nowarn", str(patch)]
    return [*[follows] * bool(writes.commit), *[apply] * bool(writes.patch), *[move] * bool(writes.commit)]


def _is_there(top: Path, patch: Path) -> bool:
    with contextlib.suppress(GitFailed):
        git(top, "apply", "--check", "--reverse", str(patch))
        return True
    return False


def _is_ancestor(project: Path, older: str, newer: str) -> bool:
    try:
        return git(project, "merge-base", older, newer) == older
    except GitFailed:
        return False


def _append(patch: Path, diff: bytes, *, first: bool) -> None:
    write_atomic(patch, (b"" if first else patch.read_bytes()) + diff)


def _shown(name: bytes) -> str:
    return one_line(name.decode("utf-8", "replace"), 100)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
