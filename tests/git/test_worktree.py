"""Worktrees of one repository that are made and removed at the same time, with the real git."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marathon.git.worktree import add_worktree, git, has_branch, remove_worktree


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    names = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in ("git init -q -b main", "git commit -q --allow-empty -m first"):
        subprocess.run(command.split(), cwd=folder, env={**os.environ, **names}, check=True)
    return folder


def test_many_at_once(project: Path, tmp_path: Path) -> None:
    names = [f"marathon/{number}" for number in range(12)]

    def make_anew(name: str) -> None:
        for _ in range(3):
            remove_worktree(add_worktree(project, tmp_path / name, name))
        add_worktree(project, tmp_path / name, name)

    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(make_anew, names))
    assert len(git(project, "worktree", "list").splitlines()) == 1 + len(names)


def test_a_branch_is_known_by_its_whole_name(project: Path) -> None:
    git(project, "branch", "marathon/one")
    assert has_branch(project, "marathon/one")
    assert not has_branch(project, "marathon")
