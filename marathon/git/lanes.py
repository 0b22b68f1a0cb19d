"""Keep and revert for measured loops: a worktree per lane, one commit per kept iteration, and trees compared by hash.

To keep is to restore a new commit, to revert is to restore the one before. Nothing here asks what an agent did.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from marathon.core.text import one_line
from marathon.errors import MarathonError, WrongUsage

_PATIENCE = 120.0
# Whatever the repository's configuration says, no hook runs and no watcher is started.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
_LOCKS, _REBASES = ("index.lock", "HEAD.lock"), ("rebase-merge", "rebase-apply")
_NAME, _EMAIL = "pi-marathon", "pi-marathon@localhost"


class GitFailed(MarathonError):
    """git could not do what a loop needs."""


class NotRestored(MarathonError):
    """After a revert the tree is not what it was."""


@dataclass(frozen=True)
class Snapshot:
    """A worktree at one moment: its branch's commit, and the hash of all files that git does not ignore."""

    commit: str
    tree: str


class LaneTree:
    """The folder that a lane works in, on a branch of its own."""

    def __init__(self, folder: Path, branch: str) -> None:
        self.folder = folder
        self.branch = branch
        self._trees: dict[str, str] = {}  # of commits, which never change

    def snapshot(self) -> Snapshot:
        return Snapshot(self._git("rev-parse", "HEAD^{commit}"), self.tree())

    def tree(self) -> str:
        """The hash of the files as they lie here, tracked or not, without those that are ignored."""
        with tempfile.TemporaryDirectory(prefix="pi-marathon-") as made:
            index = {"GIT_INDEX_FILE": f"{made}/index"}
            with contextlib.suppress(GitFailed):  # an index to start from makes it quick; none is not wrong
                self._git("read-tree", "HEAD", env=index)
            self._git("add", "-A", "--", ":/", env=index)
            return self._git("write-tree", env=index)

    def commit(self, before: Snapshot, tree: str, message: str) -> Snapshot:
        """A commit of this tree on top of the one before. What the agent committed in between is in the tree.

        The branch does not move yet. So a row can name the commit first, and `restore` follows from the row.
        """
        commit = self._git("commit-tree", tree, "-p", before.commit, env=self._identity(), stdin=message)
        return Snapshot(commit, tree)

    def restore(self, snapshot: Snapshot, *, ignored_too: bool = False) -> None:
        """Put branch, index and files to a snapshot, and prove it by HEAD and the hash of the tree."""
        self._point_at(snapshot.commit)
        # Twice -f: an agent may have cloned a repository into the tree. The .gitignore is the snapshot's again by now.
        self._git("clean", "-ffdq", *(["-x"] if ignored_too else []), "--", ":/")
        if (found := self.snapshot()) != snapshot:
            raise NotRestored(f"{self.folder} could not be put back: it is at {found}, not at {snapshot}.")

    def put(self, tree: str) -> None:
        """Lay a tree out to be measured, while the branch stays. What a measurement left behind goes."""
        self._unlock()
        self._git("add", "-A", "--", ":/")  # so that git knows every file that the next line has to take away
        self._git("read-tree", "--reset", "-u", tree)

    def at(self, commit: str) -> Snapshot:
        """The snapshot that a commit is."""
        if commit not in self._trees:
            self._trees[commit] = self._git("rev-parse", f"{commit}^{{tree}}")
        return Snapshot(commit, self._trees[commit])

    def changes(self, before: Snapshot, after: str) -> str:
        """The diff of an iteration, between two trees."""
        return self._git("diff", "--no-ext-diff", "--no-textconv", "--no-color", before.tree, after)

    def summary(self, before: str, after: str) -> str:
        """Such as: 2 files changed, 10 insertions(+), 3 deletions(-). Empty for two trees that are the same."""
        return self._git("diff", "--shortstat", "--no-ext-diff", "--no-textconv", before, after).strip()

    def nested(self, tree: str) -> set[str]:
        """Repositories inside the tree. Git keeps only a name of each, so their contents could not be kept."""
        lines = self._git("ls-tree", "-r", "-z", tree).split("\0")
        return {line.partition("\t")[2] for line in lines if line.startswith("160000 ")}

    def remove(self) -> None:
        """Take the worktree away. Its branch with the kept commits stays."""
        top = self._git("rev-parse", "--show-toplevel")
        self._git("worktree", "remove", "--force", "--force", top, folder=main_of(self.folder))

    def _point_at(self, commit: str) -> None:
        """The lane's branch, checked out, at this commit, whatever an agent left: another branch, a merge, a lock."""
        self._unlock()
        if any(path.exists() for path in self._paths[len(_LOCKS) :]):
            self._git("rebase", "--quit")
        self._git("symbolic-ref", "HEAD", f"refs/heads/{self.branch}")
        self._git("reset", "--hard", "-q", commit)

    def _unlock(self) -> None:
        for lock in self._paths[: len(_LOCKS)]:
            lock.unlink(missing_ok=True)  # no agent lives, so its owner is gone

    @cached_property
    def _paths(self) -> list[Path]:
        """Where git keeps its locks and an unfinished rebase of this worktree."""
        names = [part for name in (*_LOCKS, *_REBASES) for part in ("--git-path", name)]
        return [Path(self.folder, path) for path in self._git("rev-parse", *names).splitlines()]

    def _identity(self) -> dict[str, str]:
        """The user's, else ours: a commit must not fail because no one told git a name."""
        try:
            self._git("var", "GIT_COMMITTER_IDENT")
        except GitFailed:
            return {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _OURS}
        return {}

    def _git(
        self, *args: str, env: dict[str, str] | None = None, stdin: str | None = None, folder: Path | None = None
    ) -> str:
        return git(folder or self.folder, *args, env=env, stdin=stdin)


_OURS = (("NAME", _NAME), ("EMAIL", _EMAIL))


def add_worktree(project: Path, folder: Path, branch: str) -> LaneTree:
    """The lane's worktree, made if it is not there. What is not committed in the project stays where it is.

    The lane works in the same folder below the top as the project does.
    """
    top, head = top_of(project), head_of(project)
    if not (folder / ".git").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        git(top, "worktree", "prune")
        known = git(top, "branch", "--list", branch)
        new = () if known else ("-b", branch)
        git(top, "worktree", "add", "-q", "--no-track", *new, str(folder), branch if known else head)
    below = folder / project.resolve().relative_to(top)
    return LaneTree(below if below.is_dir() else folder, branch)


def holds_work(project: Path, branch: str) -> bool:
    """Whether a branch has commits that the project's last commit does not have."""
    top = top_of(project)
    return bool(git(top, "branch", "--list", branch) and git(top, "rev-list", "-1", f"HEAD..refs/heads/{branch}"))


def head_of(project: Path) -> str:
    try:
        return git(project, "rev-parse", "--verify", "HEAD^{commit}")
    except GitFailed as error:
        raise WrongUsage(f"{project} has no commit yet. Type: git add -A && git commit -m start") from error


def in_place(project: Path, *, begun: bool = False) -> LaneTree:
    """The project itself. It has to be clean at first, because a revert would take uncommitted work away."""
    top = top_of(project)
    try:
        branch = git(top, "symbolic-ref", "--short", "HEAD")
    except GitFailed as error:
        raise WrongUsage(f"{top} is on no branch. Check one out, or leave --in-place out.") from error
    here = LaneTree(project, branch)
    if not begun and here.tree() != git(top, "rev-parse", "HEAD^{tree}"):
        advice = "Commit or stash it, or leave --in-place out to work in a worktree."
        raise WrongUsage(f"{top} has uncommitted work, which a revert would take away. {advice}")
    return here


def diff_of(project: Path, commit: str) -> str:
    """What a commit changed, or one line that says why git cannot tell."""
    try:
        return git(project, "show", "--format=", "--no-ext-diff", "--no-textconv", "--no-color", commit, "--")
    except GitFailed as error:
        return str(error)


def top_of(project: Path) -> Path:
    try:
        return Path(git(project, "rev-parse", "--show-toplevel"))
    except GitFailed as error:
        advice = "Make it one (git init, then a commit), or use a loop that the agent measures."
        raise WrongUsage(f"{project} is not in a git repository. {advice}") from error


def main_of(folder: Path) -> Path:
    """The main worktree of the repository that a worktree belongs to."""
    listed = git(folder, "worktree", "list", "--porcelain", "-z").split("\0")
    return Path(listed[0].removeprefix("worktree "))


def git(folder: Path, *args: str, env: dict[str, str] | None = None, stdin: str | None = None) -> str:
    """What git says, without the last newline. The environment of a hook that started us does not count."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *_QUIET, *args],
            input=os.fsencode(stdin or ""),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            process_group=0,  # Ctrl+C is for the runner; it must not end git between two steps
            env={**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(env or {})},
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not installed, and measured loops keep and revert with it.") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {_shown(args)} did not end within {_PATIENCE:.0f} seconds.") from error
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace"), 300)
        raise GitFailed(f"git {_shown(args)} failed in {folder}: {said}")
    return os.fsdecode(done.stdout).removesuffix("\n")


def _shown(args: Sequence[str]) -> str:
    return one_line(" ".join(args), 120)
