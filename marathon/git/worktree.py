"""Worktrees on branches of their own, for measured loops and for tasks that run side by side.

Nothing here merges or pushes, and a branch that holds work is never removed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from marathon.core.text import one_line
from marathon.errors import MarathonError, WrongUsage

_PATIENCE = 120.0
# Whatever the repository's configuration says, no hook runs and no watcher is started.
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")


class GitFailed(MarathonError):
    """git could not do what a loop needs."""


def add_worktree(project: Path, folder: Path, branch: str) -> Path:
    """A worktree on a branch of its own, made if it is not there, and the same folder in it as the project is below
    its top. What is not committed in the project stays where it is."""
    top, head = top_of(project), head_of(project)
    if not (folder / ".git").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        known = has_branch(top, branch)
        new = () if known else ("--no-track", "-b", branch)
        with _alone(top):
            git(top, "worktree", "prune")
            git(top, "worktree", "add", "-q", *new, str(folder), branch if known else head)
    below = folder / project.resolve().relative_to(top)
    return below if below.is_dir() else folder


def remove_worktree(folder: Path) -> None:
    """Take a worktree away with all that is in it. Its branch with the commits stays."""
    top = git(folder, "rev-parse", "--show-toplevel")
    with _alone(folder):
        git(main_of(folder), "worktree", "remove", "--force", "--force", top)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One `git worktree` at a time in a repository. A second one fails on what the first has half made."""
    common = os.open(Path(folder, git(folder, "rev-parse", "--git-common-dir")), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(common, fcntl.LOCK_EX)
        yield
    finally:
        os.close(common)


def has_branch(project: Path, branch: str) -> bool:
    name = f"refs/heads/{branch}"
    return name in git(project, "for-each-ref", "--format=%(refname)", name).splitlines()


def branch_of(folder: Path) -> str:
    """The branch that is checked out. Empty for a detached HEAD."""
    try:
        return git(folder, "symbolic-ref", "--short", "HEAD")
    except GitFailed:
        return ""


def uncommitted(folder: Path) -> list[str]:
    """Every file that is changed or new and not committed, as `git status --short` names it."""
    return git(folder, "status", "--porcelain", "--untracked-files=all").splitlines()


def diffstat(project: Path, branch: str) -> str:
    """What a branch changed since it left the project's own."""
    plainly = ("--no-ext-diff", "--no-textconv", "--no-color")
    return git(project, "diff", "--stat=100", *plainly, f"HEAD...refs/heads/{branch}", "--")


def holds_work(project: Path, branch: str) -> bool:
    """Whether a branch has commits that the project's last commit does not have."""
    top = top_of(project)
    return bool(has_branch(top, branch) and git(top, "rev-list", "-1", f"HEAD..refs/heads/{branch}"))


def head_of(project: Path) -> str:
    try:
        return git(project, "rev-parse", "--verify", "HEAD^{commit}")
    except GitFailed as error:
        raise WrongUsage(f"{project} has no commit yet. Type: git add -A && git commit -m start") from error


def top_of(project: Path) -> Path:
    try:
        return Path(git(project, "rev-parse", "--show-toplevel"))
    except GitFailed as error:
        advice = "Make it one: git init && git add -A && git commit -m start"
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
        raise GitFailed("git is not installed, and worktrees and measured loops need it.") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {_shown(args)} did not end within {_PATIENCE:.0f} seconds.") from error
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace"), 300)
        raise GitFailed(f"git {_shown(args)} failed in {folder}: {said}")
    return os.fsdecode(done.stdout).removesuffix("\n")


def _shown(args: Sequence[str]) -> str:
    return one_line(" ".join(args), 120)
