"""Turns the kept commits of a loop into branches: one for all of them, or one for each set of files.

A branch is made from objects alone. No worktree, no index and no HEAD is touched, and nothing is merged or pushed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from marathon.git.worktree import GitFailed, git

Entries = dict[str, tuple[str, str]]  # a path, and the mode and the object that it has


@dataclass(frozen=True)
class Kept:
    """A commit that a loop kept, and what it changed."""

    commit: str
    parent: str
    changes: Entries


@dataclass(frozen=True)
class Branch:
    """A branch that is to be made: these commits in their order, on top of the commit where the loop began."""

    name: str
    commits: tuple[Kept, ...]

    @property
    def files(self) -> list[str]:
        return sorted({path for kept in self.commits for path in kept.changes})


def read_kept(project: Path, commits: Sequence[str]) -> list[Kept]:
    """What each kept commit changed. Every one has to stand on the one before it."""
    found: list[Kept] = []
    for name in commits:
        commit, *parents = git(project, "rev-list", "--parents", "-n", "1", f"{name}^{{commit}}", "--").split()
        if len(parents) != 1 or (found and parents[0] != found[-1].commit):
            before = found[-1].commit[:12] if found else "one other commit"
            raise GitFailed(f"The kept commit {commit[:12]} does not stand on {before}, so other work lies between.")
        found.append(Kept(commit, parents[0], _changes(project, parents[0], commit)))
    return found


def plan(kept: Sequence[Kept], name: str, *, split: bool) -> list[Branch]:
    """One branch, or several of which no two hold the same file."""
    sets = _without_shared_files(kept) if split else [list(kept)]
    if len(sets) == 1:
        return [Branch(name, tuple(kept))]
    return [Branch(f"{name}-{number}", tuple(commits)) for number, commits in enumerate(sets, start=1)]


def name_taken(project: Path, branches: Sequence[Branch]) -> str:
    """Why the branches cannot have their names, or nothing."""
    for branch in branches:
        try:
            git(project, "check-ref-format", "--branch", branch.name)
        except GitFailed:
            return f"{branch.name!r} cannot be the name of a branch."
        if git(project, "for-each-ref", "--count=1", f"refs/heads/{branch.name}"):
            return f"There is already a branch {branch.name}."
    return ""


def make(project: Path, kept: Sequence[Kept], branches: Sequence[Branch]) -> dict[str, str]:
    """Make all branches or none, and return the commit of each. Together they hold exactly what the loop kept."""
    base = kept[0].parent
    together = {path: entry for branch in branches for each in branch.commits for path, entry in each.changes.items()}
    if _tree(project, base, together) != git(project, "rev-parse", f"{kept[-1].commit}^{{tree}}"):
        raise GitFailed("The branches together would not be what the loop kept, so none was made.")
    tips = {}
    for branch in branches:
        tip = base
        for each in branch.commits:
            tip = _laid_on(project, tip, each)
        tips[branch.name] = tip
    orders = "".join(f"create refs/heads/{name}\0{tip}\0" for name, tip in tips.items())
    git(project, "update-ref", "-z", "--stdin", stdin=orders)  # all of them, or none if one cannot be made
    return tips


def _without_shared_files(kept: Sequence[Kept]) -> list[list[Kept]]:
    """Sets of commits, each with all commits that touch one of its files. The set of the oldest commit comes first."""
    touched = {path for each in kept for path in each.changes}
    sets: list[tuple[set[str], list[Kept]]] = []
    for each in kept:
        # Where a folder takes the place of a file, both belong together.
        paths = {name for path in each.changes for name in _with_parents(path) if name in touched}
        related = [one for one in sets if one[0] & paths]
        sets = [one for one in sets if not one[0] & paths]
        commits = [kept_before for one in related for kept_before in one[1]]
        sets.append((paths.union(*(one[0] for one in related)), [*commits, each]))
    place = {each.commit: number for number, each in enumerate(kept)}
    ordered = [sorted(commits, key=lambda one: place[one.commit]) for _, commits in sets]
    return sorted(ordered, key=lambda commits: place[commits[0].commit])


def _with_parents(path: str) -> list[str]:
    return [path, *(str(parent) for parent in PurePosixPath(path).parents)]


def _changes(project: Path, before: str, after: str) -> Entries:
    raw = git(project, "diff-tree", "-r", "-z", "--no-renames", before, after).split("\0")[:-1]
    # Each change is two fields: `:old-mode new-mode old-object new-object status`, and the path.
    return {path: (facts.split()[1], facts.split()[3]) for facts, path in zip(raw[::2], raw[1::2], strict=True)}


def _tree(project: Path, commit: str, changes: Mapping[str, tuple[str, str]]) -> str:
    """The tree of a commit with these changes. The mode 000000 removes a path."""
    with tempfile.TemporaryDirectory(prefix="pi-marathon-") as made:
        index = {"GIT_INDEX_FILE": f"{made}/index"}
        git(project, "read-tree", commit, env=index)
        # What is removed goes first, so that a folder can take the place of a file.
        entries = sorted(changes.items(), key=lambda change: change[1][0] != "000000")
        lines = "".join(f"{mode} {name}\t{path}\0" for path, (mode, name) in entries)
        git(project, "update-index", "-z", "--index-info", env=index, stdin=lines)
        return git(project, "write-tree", env=index)


def _laid_on(project: Path, parent: str, kept: Kept) -> str:
    """The same change on another commit, with its message, author and times. On its own parent, the same commit."""
    facts = git(project, "show", "-s", "--date=raw", "--format=%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd", kept.commit)
    names = [f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE")]
    told = dict(zip(names, facts.split("\0"), strict=True))
    message = git(project, "cat-file", "commit", kept.commit).partition("\n\n")[2]
    tree = _tree(project, parent, kept.changes)
    return git(project, "commit-tree", tree, "-p", parent, env=told, stdin=f"{message}\n")
