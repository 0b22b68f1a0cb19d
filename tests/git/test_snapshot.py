"""The code since the last gate, in real repositories, also in hostile ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from marathon.git.snapshot import Snapshots
from marathon.store.home import home_of


def git(folder: Path, *args: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e")
    return subprocess.run(["git", "-C", folder, *who, *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "task" / ".marathon").mkdir(parents=True)
    (folder / "code.py").write_text("before\n")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "task" / ".marathon" / ".gitignore").write_text("*\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return folder


def snapshots(project: Path) -> Snapshots:
    return Snapshots(project, project / "task", home_of(project / "task"))


def test_changed_new_removed_committed_and_staged_files_are_all_there(project: Path) -> None:
    (project / "removed.py").write_text("gone soon\n")
    snapshots(project).take()
    (project / "code.py").write_text("after\n")
    (project / "committed.py").write_text("c\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "more")
    (project / "staged.py").write_text("s\n")
    git(project, "add", "staged.py")
    (project / "a new file").write_text("u\n")
    (project / "removed.py").unlink()
    for left_out in ("x.log", "task/.marathon/journal.jsonl", "task/STATE.json"):
        (project / left_out).write_text("no\n")
    status = git(project, "status", "--porcelain=v2")
    index = (project / ".git" / "index").read_bytes()
    said = snapshots(project).changes()
    assert "5 files changed, 4 insertions(+), 2 deletions(-)" in said
    for line in ("-before", "+after", "+c", "+s", "+u", "-gone soon"):
        assert f"\n{line}\n" in said
    assert (project / ".git" / "index").read_bytes() == index
    assert git(project, "status", "--porcelain=v2") == status


def test_a_new_snapshot_begins_anew(project: Path) -> None:
    ours = snapshots(project)
    ours.take()
    (project / "code.py").write_text("after\n")
    ours.take()
    assert ours.changes() == "No file changed since it last waited for you."
    (project / "code.py").write_text("later\n")
    assert "-after\n+later" in snapshots(project).changes()


def test_a_hostile_repository_runs_nothing(project: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    evil = project / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    (project / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for name in (
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command"),
        *("diff.evil.textconv", "diff.external", "core.fsmonitor", "core.pager", "core.sshCommand", "core.editor"),
    ):
        git(project, "config", name, str(evil))
    git(project, "config", "filter.evil.required", "true")
    for hook in ("post-index-change", "pre-commit", "fsmonitor-watchman", "reference-transaction"):
        (project / ".git" / "hooks").mkdir(exist_ok=True)
        os.symlink(evil, project / ".git" / "hooks" / hook)
    snapshots(project).take()
    (project / "code.py").write_text("after\n")
    assert "+after" in snapshots(project).changes()
    assert not ran.exists()
    subprocess.run(["git", "-C", project, "add", "-A"], check=False, capture_output=True)
    assert ran.exists(), "this repository is hostile to a plain git"


def test_a_huge_new_file_an_unreadable_one_and_a_repository_inside_do_not_spoil_the_rest(project: Path) -> None:
    snapshots(project).take()
    with (project / "huge").open("wb") as file:
        file.truncate(9 << 20)
    os.mkfifo(project / "pipe")
    (project / "inner").mkdir()
    git(project / "inner", "init", "-q")
    (project / "code.py").write_text("after\n")
    said = snapshots(project).changes()
    assert "1 file changed" in said
    assert "+after" in said


def test_a_git_that_was_killed_leaves_no_lock_behind(project: Path) -> None:
    snapshots(project).take()
    (home_of(project / "task") / "code.git" / "index.lock").touch()
    (project / "code.py").write_text("after\n")
    assert "+after" in snapshots(project).changes()


def test_the_diff_and_its_summary_are_about_the_code_and_not_the_tasks_own_files(project: Path) -> None:
    snapshots(project).take()
    assert not snapshots(project).summary(9.9)
    (project / "task" / "plan.md").write_text("a plan\n")
    assert not snapshots(project).summary(9.9)
    assert snapshots(project).changes() == "No file changed since it last waited for you."
    (project / "code.py").write_text("after\nmore\n")
    assert snapshots(project).summary(9.9) == "1 file +2 −1"


@pytest.mark.parametrize("what", ["no repository", "no snapshot"])
def test_what_is_not_known_is_said(project: Path, tmp_path: Path, what: str) -> None:
    if what == "no repository":
        plain = tmp_path / "plain"
        plain.mkdir()
        snapshots(plain).take()
        assert not snapshots(plain).exists()
        assert snapshots(plain).changes().endswith("This project is not a git repository.")
        assert not list(plain.iterdir())
    else:
        assert snapshots(project).changes().endswith("There is no copy of it from when it last waited for you.")
