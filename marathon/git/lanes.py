"""Keep and revert for measured loops: a worktree per loop, one commit per kept iteration, and trees compared by hash.

To keep is to restore a new commit, to revert is to restore the one before. Nothing here asks what an agent did.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from marathon.core.text import one_line
from marathon.errors import MarathonError, WrongUsage
from marathon.git.run import run
from marathon.git.worktree import GitFailed, add_worktree, git, remove_worktree, repositories_in, top_of, uncommitted
from marathon.store.files import make_private_directory

_FILES = ("index", "index.lock", "HEAD", "HEAD.lock", "rebase-merge", "rebase-apply")
_IN_FULL = ("--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")
LARGE = 10_000_000  # bytes of a file that no change may bring
_NAME, _EMAIL = "pi-marathon", "pi-marathon@localhost"


class NotRestored(MarathonError):
    """After a revert the tree is not what it was."""


@dataclass(frozen=True)
class Snapshot:
    """A worktree at one moment: its branch's commit, and the hash of all files that git does not ignore."""

    commit: str
    tree: str


class LaneTree:
    """The folder that a lane works in, on a branch of its own."""

    def __init__(self, folder: Path, branch: str, objects: Path | None = None) -> None:
        """`objects` is where what is not kept is written, so that it never lies in the user's repository."""
        self.folder = folder
        self.branch = branch
        self.objects = objects
        self._trees: dict[str, str] = {}  # of commits, which never change

    def tree(self, large: Sequence[str] | None = None) -> str:
        """The hash of the files as they lie here, tracked or not, without those that are ignored or large."""
        with _index() as index:
            with contextlib.suppress(GitFailed):  # HEAD says what is tracked; without one, nothing is
                self._git("read-tree", "HEAD", env=index)
            self._add_all(index, self.large() if large is None else large)
            return self._git("write-tree", env=index)

    def large(self) -> list[str]:
        """New or changed files that are too large to be tried, as paths from the top."""
        listed = self._git("ls-files", "-z", "-o", "-m", "--exclude-standard", "--full-name", "--", ":/")
        return sorted({name for name in listed.split("\0") if name and _size(self.top / name) > LARGE})

    def export(self, tree: str, folder: Path) -> None:
        """Write the files of a tree into a folder, with nothing of git."""
        with _index() as index:
            self._git("read-tree", tree, env=index)
            self._git("checkout-index", "-a", "-f", f"--prefix={folder}/", env=index)

    def commit(self, before: Snapshot, tree: str, message: str) -> Snapshot:
        """A commit of this tree on top of the one before. What the agent committed in between is in the tree.

        The branch does not move yet. So a row can name the commit first, and `restore` follows from the row.
        """
        commit = self._git("commit-tree", tree, "-p", before.commit, env=self._identity, stdin=message)
        return Snapshot(commit, tree)

    def take_over(self, commit: str) -> None:
        """Bring a commit that is kept into the user's repository."""
        if self.objects is None:
            return
        new = self._git("rev-list", "--objects", commit, "--not", "--all").splitlines()
        names = "".join(f"{line.split()[0]}\n" for line in new)
        pack = os.fsdecode(self.objects / "keep")
        made = self._git("pack-objects", "-q", pack, stdin=names)
        try:
            with Path(f"{pack}-{made}.pack").open("rb") as packed:
                data = packed.read()
            done = run(self.folder, "unpack-objects", "-q", seconds=120, stdin=data)
            if done.returncode:
                raise GitFailed(f"git could not take over {commit}: {one_line(done.stderr.decode(), 200)}")
        finally:
            for end in (".pack", ".idx", ".rev"):
                Path(f"{pack}-{made}{end}").unlink(missing_ok=True)

    def restore(self, snapshot: Snapshot) -> None:
        """Put branch, index and files to a snapshot, and prove it by HEAD and the hash of every file."""
        for _ in range(2):
            self._point_at(snapshot.commit)
            # Twice -f: an agent may have cloned a repository into the tree. The .gitignore is the snapshot's by now.
            self._git("clean", "-ffdq", "--", ":/")
            if not (wrong := self._differences(snapshot)):
                return
            self._paths["index"].unlink(missing_ok=True)  # an agent may have told it which files to pass over
        raise NotRestored(f"{self.folder} could not be put back to {snapshot.commit}. git says: {wrong}.")

    def _differences(self, snapshot: Snapshot) -> str:
        """What git says about HEAD and every file, where that is not the snapshot."""
        with _index() as index:
            self._git("read-tree", snapshot.tree, env=index)
            lines = self._git("status", *_IN_FULL, env=index).split("\0")
            nested = repositories_in(self.folder, index)
        lines += [f"{name}/{line[3:]}" for name in nested for line in uncommitted(self.folder / name)]
        found = [one_line(line, 100) for line in lines if line and not line.startswith("# ")]
        return ", ".join(found[:5]) if f"# branch.oid {snapshot.commit}" in lines else "HEAD is elsewhere"

    def at(self, commit: str) -> Snapshot:
        """The snapshot that a commit is."""
        if commit not in self._trees:
            self._trees[commit] = self._git("rev-parse", f"{commit}^{{tree}}")
        return Snapshot(commit, self._trees[commit])

    def summary(self, before: str, after: str) -> str:
        """Such as: 2 files changed, 10 insertions(+), 3 deletions(-). Empty for two trees that are the same."""
        return self._git("diff", "--shortstat", before, after).strip()

    def nested(self, before: str, after: str) -> list[str]:
        """New repositories inside a tree (mode 160000). Git keeps only their names, so their contents would be lost."""
        said = self._git("diff", "--raw", "-z", before, after).split("\0")
        return [said[at + 1] for at, line in enumerate(said) if line[:1] == ":" and line[8:14] == "160000" != line[1:7]]

    def changed(self, before: str, after: str) -> list[tuple[str, bool]]:
        """The files in which two trees differ, as paths from the top, and whether each is new."""
        said = self._git("diff", "--name-status", "-z", "--no-renames", before, after).split("\0")
        return [(name, status == "A") for status, name in zip(said[0:-1:2], said[1::2], strict=False)]

    def remove(self) -> None:
        """Take the worktree away. Its branch with the kept commits stays."""
        remove_worktree(self.folder)

    def _add_all(self, env: dict[str, str], without: Sequence[str]) -> None:
        """Stage every file. Of a repository inside of this one git has to know only the commit, and not look in."""
        nested = repositories_in(self.folder, env)
        specs = [":/", *(f":(exclude,literal){name}" for name in nested)]
        specs += [f":(exclude,literal,top){name}" for name in without]
        self._git("add", "-A", "--", *specs, env=env)
        if nested:
            self._git("update-index", "-z", "--stdin", env=env, stdin="".join(f"{name}\0" for name in nested))

    def _point_at(self, commit: str) -> None:
        """The lane's branch, checked out, at this commit, whatever an agent left: another branch, a merge, a lock."""
        self._unlock()
        if any(self._paths[name].exists() for name in ("rebase-merge", "rebase-apply")):
            self._git("rebase", "--quit")
        head, branch = self._paths["HEAD"], f"refs/heads/{self.branch}"
        if not head.is_file() or head.read_bytes() != os.fsencode(f"ref: {branch}\n"):
            self._git("symbolic-ref", "HEAD", branch)
        self._git("reset", "--hard", "-q", commit)

    def _unlock(self) -> None:
        for lock in ("index.lock", "HEAD.lock"):
            self._paths[lock].unlink(missing_ok=True)  # no agent lives, so its owner is gone

    @cached_property
    def _paths(self) -> dict[str, Path]:
        """Where git keeps files of this worktree."""
        said = self._git("rev-parse", *(part for name in _FILES for part in ("--git-path", name)))
        return {name: Path(self.folder, path) for name, path in zip(_FILES, said.splitlines(), strict=True)}

    @cached_property
    def _identity(self) -> dict[str, str]:
        """The user's, else ours: a commit must not fail because no one told git a name."""
        try:
            self._git("var", "GIT_COMMITTER_IDENT")
        except GitFailed:
            return {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _OURS}
        return {}

    @cached_property
    def top(self) -> Path:
        return Path(git(self.folder, "rev-parse", "--show-toplevel"))

    @property
    def below(self) -> Path:
        """The folder that the commands run in, as seen from the top."""
        return self.folder.resolve().relative_to(self.top.resolve())

    @cached_property
    def _own_objects(self) -> dict[str, str]:
        if self.objects is None:
            return {}
        theirs = git(self.folder, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        make_private_directory(self.objects / "info")
        (self.objects / "info" / "alternates").write_text(f"{theirs}\n")
        return {"GIT_OBJECT_DIRECTORY": str(self.objects)}

    def _git(self, *args: str, env: dict[str, str] | None = None, stdin: str | None = None) -> str:
        return git(self.folder, *args, env={**self._own_objects, **(env or {})}, stdin=stdin)


_OURS = (("NAME", _NAME), ("EMAIL", _EMAIL))


@contextlib.contextmanager
def _index() -> Iterator[dict[str, str]]:
    """An index of our own for as long as the `with` lasts. It begins empty."""
    with tempfile.TemporaryDirectory(prefix="pi-marathon-") as made:
        yield {"GIT_INDEX_FILE": f"{made}/index"}


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def lane_tree(project: Path, folder: Path, branch: str, objects: Path | None = None) -> LaneTree:
    """The lane's worktree, made if it is not there."""
    return LaneTree(add_worktree(project, folder, branch), branch, objects)


def in_place(
    project: Path, since: str | None = "HEAD", left: Collection[str] = (), objects: Path | None = None
) -> LaneTree:
    """The project itself, with nothing in it that a revert would take away.

    Its files have to be those of a commit, or a tree that the loop has left. None: of a session that was cut off.
    """
    top = top_of(project)
    try:
        branch = git(top, "symbolic-ref", "--short", "HEAD")
    except GitFailed as error:
        raise WrongUsage(f"{top} is on no branch. Check one out, or leave --in-place out.") from error
    here = LaneTree(project, branch, objects)
    if since and ((large := here.large()) or here.tree(large) not in (here.at(since).tree, *left)):
        advice = "Commit or stash it, or leave --in-place out to work in a worktree."
        if since == "HEAD":
            raise WrongUsage(f"{top} has uncommitted work, which a revert would take away. {advice}")
        aside = f"git branch aside && git stash -u && git reset --hard {since[:12]}"
        raise WrongUsage(f"{top} is not as the loop left it. Put your changes aside, and run the loop again: {aside}")
    return here


def diff_of(project: Path, commit: str, objects: Path | None = None) -> str:
    """What a commit changed, or one line that says why git cannot tell."""
    try:
        return LaneTree(project, "", objects)._git("show", "--format=", commit, "--")
    except GitFailed as error:
        return str(error)
