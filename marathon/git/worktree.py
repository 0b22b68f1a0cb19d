"""Worktrees on branches of their own, for measured loops and for tasks that run side by side.

Nothing here merges or pushes, and a branch that holds work is never removed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from marathon.core.text import one_line
from marathon.errors import MarathonError, WrongUsage
from marathon.git.run import GitTookTooLong, nested_in, run

_PATIENCE = 120.0


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
    top, common = git(folder, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir").splitlines()
    with _alone(folder):
        # By the repository itself: no one can stand in a folder that goes away, and the main one may be bare.
        git(Path(common), "worktree", "remove", "--force", "--force", top, env={"GIT_DIR": common})


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
    found = git(folder, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty").splitlines()
    inside = ((name, line) for name in repositories_in(folder) for line in uncommitted(Path(folder, name)))
    return [*found, *(f"{line[:3]}{name}/{line[3:]}" for name, line in inside)]


def repositories_in(folder: Path, env: dict[str, str] | None = None) -> list[str]:
    """The repositories inside of this one that its index holds and that are there, as paths from `folder`.

    Where git itself looks into one, it starts what that one's own configuration names.
    """
    listed = os.fsencode(git(folder, "ls-files", "-s", "-z", "--", ":/", env=env))
    return [name for name in map(os.fsdecode, nested_in(listed)) if os.path.lexists(Path(folder, name, ".git"))]


def diffstat(project: Path, branch: str) -> str:
    """What a branch changed since it left the project's own."""
    return git(project, "diff", "--stat=100", f"HEAD...refs/heads/{branch}", "--")


def holds_work(project: Path, branch: str) -> bool:
    """Whether a branch has commits that the project's last commit does not have."""
    top = top_of(project)
    return bool(has_branch(top, branch) and git(top, "rev-list", "-1", f"HEAD..refs/heads/{branch}"))


def commits_of(project: Path, branch: str) -> set[str]:
    """Every file in the commits that a branch has and the project's last commit does not; also one taken out again."""
    top = top_of(project)
    if not has_branch(top, branch):
        raise WrongUsage(f"The branch {branch} is gone.")
    said = git(top, "log", "-m", "-z", "--name-only", "--format=", f"HEAD..refs/heads/{branch}", "--")
    return {name for name in said.split("\0") if name}


def tip_of(project: Path, branch: str) -> str:
    return git(top_of(project), "rev-parse", "--verify", f"refs/heads/{branch}^{{commit}}")


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


def git(folder: Path, *args: str, env: dict[str, str] | None = None, stdin: str | None = None) -> str:
    """What git says, without the last newline."""
    try:
        done = run(folder, *args, seconds=_PATIENCE, env=env, stdin=os.fsencode(stdin or ""))
    except FileNotFoundError as error:
        raise GitFailed("git is not installed, and worktrees and measured loops need it.") from error
    except GitTookTooLong as error:
        raise GitFailed(str(error)) from error
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace"), 300)
        raise GitFailed(f"git {_shown(args)} failed in {folder}: {said}")
    return os.fsdecode(done.stdout).removesuffix("\n")


def _shown(args: Sequence[str]) -> str:
    return one_line(" ".join(args), 120)
