"""The working tree of a measured loop: what a session left, as a git tree; kept as a commit, or taken back.

A loop has a branch and, unless it works in place, a worktree of its own. Every tree is compared by its git hash, which
covers tracked and untracked files. Files that git ignores are left alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from marathon.errors import MarathonError, WrongUsage

_PATIENCE = 120.0
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")
_SOMEONE = {"NAME": "pi-marathon", "EMAIL": "pi-marathon@localhost"}


class GitFailed(MarathonError):
    exit_code = 1


class LaneTree:
    """One loop's tree. `folder` is its worktree, or the project's own where the loop works in place."""

    def __init__(self, project: Path, folder: Path, branch: str) -> None:
        self.project = project
        self.folder = folder
        self.branch = branch

    # Making it

    def ensure(self) -> None:
        """Make the worktree and its branch if they are not there."""
        if (self.folder / ".git").exists():
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        _git(self.project, "worktree", "prune")
        known = _git(self.project, "branch", "--list", self.branch).strip()
        new = () if known else ("-b", self.branch)
        _git(self.project, "worktree", "add", "--quiet", *new, str(self.folder), *((self.branch,) if known else ()))

    def is_clean(self) -> bool:
        return not _git(self.folder, "status", "--porcelain").strip()

    def remove(self) -> None:
        """Remove the worktree. The branch with what was kept stays."""
        _git(self.project, "worktree", "remove", "--force", "--force", str(self.folder))

    # What it holds

    def head(self) -> str:
        return self._text("rev-parse", "--verify", f"refs/heads/{self.branch}^{{commit}}")

    def tree_of(self, commit: str) -> str:
        return self._text("rev-parse", "--verify", f"{commit}^{{tree}}")

    def snapshot(self) -> str:
        """The hash of everything in the folder that git does not ignore. The index of the folder is not touched."""
        index = Path(self._text("rev-parse", "--path-format=absolute", "--git-path", "index"))
        own = index.with_name("index.pi-marathon")
        own.with_name(f"{own.name}.lock").unlink(missing_ok=True)  # of a git that was killed
        if index.exists():
            shutil.copyfile(index, own)
        try:
            self._text("add", "--all", env={"GIT_INDEX_FILE": str(own)})
            return self._text("write-tree", env={"GIT_INDEX_FILE": str(own)})
        finally:
            own.unlink(missing_ok=True)

    def nested(self, tree: str) -> list[str]:
        """Repositories inside the tree. Git keeps only a name of each, so their contents could not be kept."""
        lines = self._text("ls-tree", "-r", "-z", tree).split("\0")
        return [line.partition("\t")[2] for line in lines if line.startswith("160000 ")]

    def summary(self, before: str, after: str) -> str:
        """Such as: 2 files changed, 10 insertions(+), 3 deletions(-)"""
        return self._text("diff", "--shortstat", "--no-ext-diff", "--no-textconv", before, after)

    def hold(self, tree: str) -> None:
        """Keep a tree from being collected as garbage until the next one is held."""
        self._text("update-ref", f"refs/pi-marathon/{self.branch}", tree)

    # Changing it

    def show(self, tree: str, commit: str) -> None:
        """Make the folder hold exactly this tree, on the loop's branch at this commit."""
        self._text("symbolic-ref", "HEAD", f"refs/heads/{self.branch}")
        self._text("update-ref", f"refs/heads/{self.branch}", commit)
        for name in ("index.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"):
            Path(self._text("rev-parse", "--path-format=absolute", "--git-path", name)).unlink(missing_ok=True)
        self._text("read-tree", "--reset", "-u", tree)
        self._text("clean", "-ffdq")
        if (left := self.snapshot()) != tree:
            raise GitFailed(f"{self.folder} could not be brought back to tree {tree[:12]}; it holds {left[:12]}.")

    def keep(self, tree: str, parent: str, message: str) -> str:
        """Commit a tree on top of a commit, whatever the agent committed itself."""
        commit = self._text("commit-tree", tree, "-p", parent, "-m", message, env=self._author())
        self.show(tree, commit)
        return commit

    def _author(self) -> dict[str, str]:
        """Whoever the user is to git. Without a name, git would refuse."""
        try:
            self._text("var", "GIT_COMMITTER_IDENT")
        except GitFailed:
            return {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _SOMEONE.items()}
        return {}

    def _text(self, *args: str, env: dict[str, str] | None = None) -> str:
        return _git(self.folder, *args, env=env).strip()


def repository_of(project: Path) -> Path:
    """The top folder of the project's repository, which has at least one commit."""
    try:
        top = Path(_git(project, "rev-parse", "--show-toplevel").strip())
        _git(project, "rev-parse", "--verify", "HEAD")
    except GitFailed as error:
        said = f"A loop that the runner measures needs a git repository with a commit: {error}"
        raise WrongUsage(f"{said} To begin one: git init && git add -A && git commit -m start") from error
    return top


def current_branch(project: Path) -> str:
    try:
        return _git(project, "symbolic-ref", "--short", "HEAD").strip()
    except GitFailed as error:
        raise WrongUsage("--in-place needs a branch, but HEAD is detached. Type: git switch -c NAME") from error


def _git(folder: Path, *args: str, env: dict[str, str] | None = None) -> str:
    names: Iterable[str] = (name for name in os.environ if not name.startswith("GIT_"))
    plain = {name: os.environ[name] for name in names}
    argv: Sequence[str] = ["git", "-C", str(folder), *_QUIET, *args]
    safe = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            env={**plain, **safe, **(env or {})},
            check=True,
        )
    except subprocess.CalledProcessError as failed:
        said = failed.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(f"git {args[0]} failed: {said}") from failed
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"git {args[0]} failed: {error}") from error
    return done.stdout.decode("utf-8", "surrogateescape")
