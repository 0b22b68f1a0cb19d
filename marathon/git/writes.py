"""What changed in a project while a session ran that may not write everywhere.

The tree is compared with what it was before, by content. In a worktree only the agent works, so that is undone. In a
folder that others share it is kept, and undone only as far as a human says so. A patch is kept first. Git's own merge
of two trees undoes it, which refuses to touch a file that changed since it was looked at.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from marathon.core.records import Writes
from marathon.core.text import one_line
from marathon.errors import MarathonError
from marathon.git.changes import NOTES, SKIPPED
from marathon.git.snapshot import LONGEST_DIFF, NoSnapshot, Snapshots
from marathon.git.worktree import GitFailed, git, top_of
from marathon.store.files import make_private_directory, write_atomic
from marathon.store.home import STATE, Home, home_of
from marathon.store.task import HUMAN, OWN

_NESTED = b"160000"  # the mode of a repository inside the tree, of which git keeps only the commit
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_LOOKS = 3  # what a changed .gitignore had hidden is seen once the .gitignore is back
_MOST_NAMES = 1000
_PATIENCE = 8.0  # seconds for one look
_KEPT = "refs/pi-marathon/undone/"


class Before(NamedTuple):
    """The project before a session."""

    tree: str
    commit: str = ""
    head: str = ""  # what .git/HEAD says
    staged: bytes = b""  # the index
    # New files that are too large to be kept: name, size, time. None: not known any more.
    large: tuple[tuple[str, int, int], ...] | None = None


class Touched(NamedTuple):
    """A file that changed and was kept."""

    name: str
    by_agent: bool  # a tool call of the agent names it
    fixed: str  # why it cannot be undone


class Kept(NamedTuple):
    """What is still as the sessions left it, for a human who may undo some of it."""

    diff: str = ""
    files: Sequence[Touched] = ()
    back_to: str = ""  # the commit that the branch may be moved back to, such as "1a2b3c4 Fix it"
    fixed: str = ""  # why it may not


class _Change(NamedTuple):
    mode: bytes
    id: bytes
    path: bytes
    new_mode: bytes
    new_id: bytes

    @property
    def name(self) -> str:
        return os.fsdecode(self.path)


class WriteGuard(Snapshots):
    """Watches one task's project."""

    def __init__(self, project: Path, task: Path) -> None:
        super().__init__(project, task, home_of(task))

    def look(self) -> Before:
        """NoSnapshot says why what is written cannot be compared later."""
        tree = self._tree_now(_PATIENCE)
        return Before(tree, self._commit(), self._head(), _bytes(self._theirs / "index"), self._large)

    def changed(
        self,
        before: Before,
        allowed: Sequence[Path],
        written: Collection[str],
        others: Callable[[], Sequence[Path]],
    ) -> Writes | None:
        """What changed outside of what is allowed. All of it is kept.

        `written` are the real paths that tool calls of the agent name. What belongs to others does not count, unless it
        is among them. They are asked for once the tree is taken, because they may come at any time.
        """
        after = self._tree_now(_PATIENCE)
        specs, theirs = self._elsewhere(allowed), others()
        by_agent = set()

        def foreign(name: str) -> bool:
            path = self._top / name
            if os.path.realpath(path) in written:
                by_agent.add(name)
                return True
            return not any(path.is_relative_to(other) for other in theirs)

        names = [each.name for each in self._changes(before.tree, after, specs) if foreign(each.name)]
        if before.large is not None:
            large = [name for name, *_ in self._large if name not in {name for name, *_ in before.large}]
            names += [name for name in large if self._is_elsewhere(name, allowed) and foreign(name)]
        commit, fixed = self._moved(before, specs, foreign)
        if not (names or commit):
            return None
        follows = commit and before.commit and _is_ancestor(self._project, before.commit, commit)
        return Writes(
            files=names[:_MOST_NAMES],
            count=len(names),
            tree=before.tree,
            commit=commit,
            was=before.commit if commit else "",
            commits=int(git(self._project, "rev-list", "--count", f"{before.commit}..{commit}")) if follows else 0,
            fixed=fixed,
            by_agent=[name for name in names[:_MOST_NAMES] if name in by_agent],
        )

    def kept(self, found: Sequence[Writes]) -> Kept:
        """What of these writes is still there. NoSnapshot says why no one knows."""
        now = self._tree_now()
        changes, by_agent = self._still_there(found, now), {name for each in found for name in each.by_agent}
        fixed = self._fixed(changes)
        diff = self._git("diff", "--no-renames", self._target(changes, now), now)
        files = [Touched(each.name, each.name in by_agent, fixed.get(each.path, "")) for each in changes]
        known = {each.name for each in changes}
        files += [
            Touched(name, name in by_agent, "It is too large to be put aside.")
            for name, *_ in self._large
            if name not in known and any(name in each.files for each in found)
        ]
        back_to, why_not = self._back_to(found)
        subject = git(self._project, "log", "-1", "--format=%h %s", back_to) if back_to else ""
        return Kept(diff[:LONGEST_DIFF].decode("utf-8", "replace"), files, subject, why_not)

    def undo(self, found: Sequence[Writes], names: Collection[str], patch: Path, *, head: bool) -> tuple[Writes, str]:
        """Undo these files of what was kept, and with `head` move the branch back. What was undone, and a problem."""
        now, done = self._tree_now(), Writes()
        changes = [each for each in self._still_there(found, now) if each.name in names]
        if problem := next(iter(self._fixed(changes).values()), ""):
            return done, problem
        if changes:
            target = self._target(changes, now)
            make_private_directory(patch.parent)
            write_atomic(patch, self._git("diff", "--binary", "--no-renames", target, now))
            if problem := self._switch(now, target):
                patch.unlink()
                return done, problem
            files = [each.name for each in changes]
            done = Writes(files=files, count=len(files), patch=Home(self._task).shown(patch))
        if head:
            back_to, problem = self._back_to(found)
            commit = self._commit()
            if back_to and not problem:
                problem = self._move_back(commit, back_to)
            if back_to and not problem:
                done = replace(done, commit=commit)
                changes += self._changes(back_to, commit)  # as `git reset` does it: the files stay, and are not staged
        return done, problem or self._unstage(changes)

    def hold(self, before: Before, allowed: Sequence[Path], patch: Path) -> Writes | None:
        """What was written outside of what is allowed, which is undone."""
        names: list[str] = []
        problem = ""
        for number in range(_LOOKS):
            after = self._tree_now(_PATIENCE)
            specs = self._elsewhere(allowed)
            if not (changes := list(self._changes(before.tree, after, specs))):
                break
            names += [each.name for each in changes if each.name not in names]
            make_private_directory(patch.parent)
            diff = self._git("diff", "--binary", "--no-renames", before.tree, after, "--", *specs)
            _append(patch, diff, first=number == 0)
            problem = next(iter(self._fixed(changes).values()), "") or self._undo(changes, after)
            if problem:
                break
        large = [name for name, *_ in set(self._large) - set(before.large or ()) if self._is_elsewhere(name, allowed)]
        if large and not problem:
            problem = f"{one_line(large[0], 100)} is too large to be put aside."
        commit, head_problem = self._moved(before, self._elsewhere(allowed))
        if commit:
            git(self._project, "update-ref", _KEPT + commit, commit)
        problem = problem or head_problem
        if commit and not problem:
            problem = self._move_back(commit, before.commit) or self._restore_index(before)
        if names and not problem:
            problem = self._restore_index(before)
        if not (names or large or commit):
            return None
        kept = Home(self._task).shown(patch) if names else ""
        files = [*names, *large]
        return Writes(files=files[:_MOST_NAMES], count=len(files), patch=kept, commit=commit, left=problem)

    def command_back(self, writes: Writes, home: Path) -> str:
        """What a human types in the folder `home` to bring back what was undone. Empty where nothing was."""
        patch = Home(self._task).path(writes.patch)
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
            patch = Home(self._task).path(writes.patch)
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

    def _elsewhere(self, allowed: Sequence[Path]) -> list[str]:
        """The pathspec of everything that may not be written."""
        mine = (*allowed, *(self._task / name for name in (OWN, STATE, HUMAN)))
        inside = [os.path.relpath(path, self._top) for path in mine if path.is_relative_to(self._top)]
        made = [f":(exclude,glob)**/{name}/**" for name in sorted(SKIPPED - {OWN})]
        notes = [f":(exclude,glob)**{name}**" for name in NOTES]
        return [*(f":(exclude,literal){name}" for name in inside), *made, *notes]

    def _is_elsewhere(self, name: str, allowed: Sequence[Path]) -> bool:
        return not any((self._top / name).is_relative_to(path) for path in allowed)

    def _still_there(self, found: Sequence[Writes], now: str) -> list[_Change]:
        """The changes of all these sessions, each file against what it was before the first that changed it."""
        changes: dict[str, _Change] = {}
        seen: set[str] = set()
        for writes in found:
            new = set(writes.files) - seen
            seen |= new
            if new:
                changes |= {each.name: each for each in self._changes(writes.tree, now) if each.name in new}
        return list(changes.values())

    def _changes(self, before: str, after: str, specs: Sequence[str] = ()) -> Iterator[_Change]:
        fields = self._git("diff-tree", "-r", "-z", "--no-renames", before, after, "--", *specs).split(b"\0")
        for facts, path in zip(fields[0:-1:2], fields[1::2], strict=True):
            old_mode, new_mode, id, new_id, *_ = facts.lstrip(b":").split()
            yield _Change(old_mode, id, path, new_mode, new_id)

    def _fixed(self, changes: Sequence[_Change]) -> dict[bytes, str]:
        """The files among them that cannot be undone, each with the reason."""
        if not changes:
            return {}
        nested = [each.path for each in changes if _NESTED in (each.mode, each.new_mode)]
        found = {path: f"{_shown(path)} is a repository of its own." for path in nested}
        paths = b"".join(each.path + b"\0" for each in changes)
        fields = self._git("check-attr", "-z", "--stdin", "filter", top=self._top, stdin=paths).split(b"\0")
        for path, value in zip(fields[0:-1:3], fields[2::3], strict=True):
            if value not in (b"unspecified", b"unset"):
                found[path] = f"{_shown(path)} goes through a filter of git ({_shown(value)})."
        return found

    def _undo(self, changes: Sequence[_Change], after: str) -> str:
        """Put exactly these files back. The answer is why that was not possible."""
        try:
            return self._switch(after, self._target(changes, after))
        except NoSnapshot as failed:
            return one_line(str(failed), 300)

    def _target(self, changes: Sequence[_Change], after: str) -> str:
        """The tree without these changes."""
        lines = b"".join(b"%b %b\t%b\0" % (each.mode.lstrip(b"0") or b"0", each.id, each.path) for each in changes)
        index = {"GIT_INDEX_FILE": str(self._git_dir / "undo-index")}
        self._git("read-tree", after, env=index)
        self._git("update-index", "-z", "--index-info", env=index, stdin=lines)
        return self._git("write-tree", "--missing-ok", env=index).decode().strip()

    def _switch(self, after: str, target: str) -> str:
        """From one tree to the other in the project's folder. The answer is why that was not possible."""
        try:
            with self._locked():
                self._git("read-tree", "-m", "-u", after, target, top=self._top, private=False)
        except NoSnapshot as failed:
            return one_line(str(failed), 300)
        return ""

    def _head(self) -> str:
        return _bytes(self._theirs / "HEAD").decode("utf-8", "replace")

    def _commit(self) -> str:
        with contextlib.suppress(GitFailed):
            return git(self._project, "rev-parse", "-q", "--verify", "HEAD^{commit}")
        return ""  # there is none yet

    def _moved(
        self, before: Before, specs: Sequence[str], foreign: Callable[[str], bool] = lambda name: True
    ) -> tuple[str, str]:
        """The commit that is checked out now, if it may not stand, and why HEAD cannot be put back."""
        commit, head = self._commit(), self._head()
        same = before.head == head or "ref:" not in (before.head[:4], head[:4])
        if not before.head or (same and commit == before.commit):
            return "", ""
        follows = bool(before.commit) and _is_ancestor(self._project, before.commit, commit)
        if (
            same
            and follows
            and not [each for each in self._changes(before.commit, commit, specs) if foreign(each.name)]
        ):
            return "", ""
        if not same:
            return commit, "Another branch is checked out."
        return commit, "" if follows else "The commits before it were rewritten."

    def _back_to(self, found: Sequence[Writes]) -> tuple[str, str]:
        """The commit from which these sessions moved the branch, and why it cannot be moved back there."""
        moves = [each for each in found if each.commit]
        to = commit = self._commit() if moves else ""
        for each in reversed(moves):
            if each.commit != to:
                break
            if each.fixed:
                return "", each.fixed
            to = each.was
        if to == commit:
            return "", "The branch has moved on since." if moves else ""
        if any((self._theirs / name).exists() for name in _UNDER_WAY):
            return "", "A merge or a rebase is under way."
        return to, ""

    def _move_back(self, commit: str, to: str) -> str:
        """Move the branch back. The commit stays reachable. The answer is why that was not possible."""
        if any((self._theirs / name).exists() for name in _UNDER_WAY):
            return "A merge or a rebase is under way."
        try:
            git(self._project, "update-ref", _KEPT + commit, commit)
            git(self._project, "update-ref", "-m", "pi-marathon: not allowed here", "HEAD", to, commit)
        except GitFailed as failed:
            return one_line(str(failed), 300)
        return ""

    def _unstage(self, changes: Sequence[_Change]) -> str:
        """What was undone does not stay staged. What a human has staged in these files before stays."""
        new = {(each.path, each.new_id) for each in changes}
        lines = []
        try:
            listed = os.fsencode(git(self._top, "ls-files", "-s", "-z")).split(b"\0") if new else []
            for facts, _, path in (line.partition(b"\t") for line in listed):
                if facts and (path, facts.split()[1]) in new:
                    lines.append(self._committed(path))
            if lines:
                said = os.fsdecode(b"".join(lines))
                git(self._top, "update-index", "-z", "--index-info", stdin=said)
        except GitFailed as failed:
            return f"git's index could not be put back: {one_line(str(failed), 300)}"
        return ""

    def _committed(self, path: bytes) -> bytes:
        """The line that gives a file the entry in the index that HEAD has for it."""
        found = git(self._top, "ls-tree", "-z", "HEAD", "--", os.fsdecode(path)) if self._commit() else ""
        mode, _, id = (found.partition("\t")[0].split() or ["0", "", "0" * 40])[:3]
        return b"%b %b\t%b\0" % (mode.encode(), id.encode(), path)

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
