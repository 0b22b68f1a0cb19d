"""What a session wrote where its phase may not write: kept as a patch and undone, in real repositories."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from marathon.core.records import Writes
from marathon.git.snapshot import NoSnapshot
from marathon.git.writes import WriteGuard
from tests.git.test_snapshot import git
from tests.git.test_snapshot import project as project


def files(project: Path) -> dict[str, tuple[bytes, bool]]:
    """Every file of the project, with its contents and whether it can be executed."""
    found = [path for path in project.rglob("*") if path.is_file() and not {".git", ".marathon"} & {*path.parts}]
    return {str(path.relative_to(project)): (path.read_bytes(), os.access(path, os.X_OK)) for path in found}


def held(project: Path, guard: WriteGuard, before: object, leave: str = "") -> Writes | None:
    patch = project / "task/.marathon/runs/001/writes/001.patch"
    return guard.hold(before, [project / "task"], patch, leave)  # type: ignore[arg-type]


def test_everything_is_put_back_and_the_patch_brings_it_all_again(project: Path) -> None:
    (project / "code.py").write_text("the human's own, not committed\n")
    (project / "staged.py").write_text("staged\n")
    git(project, "add", "staged.py")
    (project / "untracked.bin").write_bytes(b"\0\1\2")
    (project / "gone.py").write_text("g\n")
    (project / "link").symlink_to("code.py")
    guard = WriteGuard(project, project / "task")
    was, status, before = files(project), git(project, "status", "--porcelain=v2"), guard.look()

    (project / "code.py").write_text("changed\n")
    (project / "untracked.bin").write_bytes(b"\0other\xff")
    (project / "gone.py").unlink()
    (project / "staged.py").chmod(0o755)
    (project / "link").unlink()
    (project / "link").write_text("no link\n")
    (project / "new folder").mkdir()
    (project / "new folder" / "ä.py").write_text("n\n")
    (project / ".gitignore").write_text("*.log\nhidden*\n")
    (project / "hidden.py").write_text("the new .gitignore hides it\n")
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "x.pyc").write_bytes(b"x")
    (project / "x.log").write_text("ignored\n")
    (project / "task" / "research.md").write_text("allowed\n")
    git(project, "add", "-A")
    then = files(project)
    writes = held(project, guard, before)

    assert writes is not None
    assert not writes.left
    names = {".gitignore", "code.py", "gone.py", "hidden.py", "link", "new folder/ä.py", "staged.py", "untracked.bin"}
    assert set(writes.files) == names
    allowed = {"__pycache__/x.pyc", "task/research.md", "x.log"}
    assert files(project) == {**was, **{name: then[name] for name in allowed}}
    assert (project / "link").is_symlink()
    new = ("? __pycache__/", "? task/")
    assert [line for line in git(project, "status", "--porcelain=v2").splitlines() if line not in new] == (
        status.splitlines()
    )
    assert held(project, guard, before) is None, "nothing is left to undo"

    for left_over in allowed:
        (project / left_over).unlink()
    git(project, "apply", str(project / "task" / writes.patch))
    assert {name: files(project)[name] for name in names - {"gone.py"}} == {
        name: then[name] for name in names & then.keys()
    }


def test_a_commit_is_taken_back_and_stays_reachable_but_one_of_the_task_alone_may_stand(project: Path) -> None:
    guard = WriteGuard(project, project / "task")
    head, before = git(project, "rev-parse", "HEAD"), guard.look()
    (project / "task" / "research.md").write_text("r\n")
    git(project, "add", "task")
    git(project, "commit", "-qm", "the task's own")
    assert held(project, guard, before) is None
    assert git(project, "rev-parse", "HEAD") != head

    head, before = git(project, "rev-parse", "HEAD"), guard.look()
    (project / "code.py").write_text("committed\n")
    git(project, "commit", "-qam", "not allowed")
    commit = git(project, "rev-parse", "HEAD").strip()
    writes = held(project, guard, before)
    assert writes is not None
    assert (writes.commit, writes.left, writes.files) == (commit, "", ["code.py"])
    assert git(project, "rev-parse", "HEAD") == head
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "for-each-ref", "--contains", commit, "--format=%(refname)").strip().endswith(commit)


@pytest.mark.parametrize("how", ["branch", "rewritten", "nested", "large", "told"])
def test_what_cannot_be_undone_safely_is_left_and_said(project: Path, how: str) -> None:
    guard = WriteGuard(project, project / "task")
    before = guard.look()
    if how == "branch":
        git(project, "checkout", "-qb", "other")
    elif how == "rewritten":
        git(project, "commit", "-q", "--amend", "-m", "another")
    elif how == "nested":
        git(project, "init", "-q", "inner")
        (project / "inner" / "x").write_text("x")
        git(project / "inner", "add", "x")
        git(project / "inner", "commit", "-qm", "x")
    elif how == "large":
        with (project / "large.bin").open("wb") as file:
            file.truncate(9 * 1024 * 1024)
    (project / "code.py").write_text("changed\n")
    writes = held(project, guard, before, "Another marathon works here." if how == "told" else "")
    assert writes is not None
    assert writes.left
    assert "+changed" in (project / "task" / writes.patch).read_text()
    assert ((project / "code.py").read_text() == "before\n") is (how in ("branch", "rewritten", "large"))


def test_without_a_repository_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "task" / ".marathon").mkdir(parents=True)
    with pytest.raises(NoSnapshot, match="not a git repository"):
        WriteGuard(tmp_path, tmp_path / "task").look()


def test_an_unchanged_project_costs_little(project: Path) -> None:
    for number in range(1000):
        (project / f"f{number}.py").write_text(f"{number}\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "many")
    guard = WriteGuard(project, project / "task")
    before, took = guard.look(), []
    for _ in range(5):
        began = time.perf_counter()
        assert held(project, guard, before) is None
        took.append(time.perf_counter() - began)
    print(f"{min(took) * 1000:.0f} ms")
    assert min(took) < 1


@pytest.mark.parametrize("below", ["", "sub folder"])
def test_the_command_brings_everything_back_as_it_is_printed(project: Path, below: str) -> None:
    """Also from a project that is only a part of the repository, and with a commit of the human's own."""
    home = project / below
    home.mkdir(exist_ok=True)
    (home / "old.bin").write_bytes(b"\0\1")
    (project / "gone.py").write_text("g\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "more")
    guard = WriteGuard(home, project / "task")
    before, head = guard.look(), git(project, "rev-parse", "HEAD")

    (home / "old.bin").write_bytes(b"\0\2")
    (project / "code.py").write_text("trailing space \n")
    (project / "gone.py").unlink()
    (project / "new.bin").write_bytes(b"\0\3")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "mine")
    commit = git(project, "rev-parse", "HEAD")
    (project / "later.py").write_text("not committed\n")
    then = files(project)
    writes = held(project, guard, before)
    assert writes is not None
    assert git(project, "rev-parse", "HEAD") == head
    command = guard.command_back(writes, home)
    assert ("-C" in command) == bool(below)

    subprocess.run(command, shell=True, cwd=home, check=True)
    assert files(project) == then
    assert git(project, "rev-parse", "HEAD") == commit
    assert git(project, "status", "--porcelain", "--", ":!task") == "?? later.py\n"


def test_a_put_back_never_takes_a_later_commit_off_the_branch(project: Path) -> None:
    guard = WriteGuard(project, project / "task")
    before = guard.look()
    (project / "new.py").write_text("n\n")
    git(project, "add", "new.py")
    git(project, "commit", "-qm", "mine")
    writes = held(project, guard, before)
    assert writes is not None
    git(project, "commit", "-q", "--allow-empty", "-m", "later")
    later = git(project, "rev-parse", "HEAD")
    assert "Not put back" in guard.put_back([writes])
    assert subprocess.run(guard.command_back(writes, project), shell=True, cwd=project).returncode
    assert git(project, "rev-parse", "HEAD") == later
