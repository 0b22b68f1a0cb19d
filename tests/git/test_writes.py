"""What a session wrote where its phase may not write: kept as a patch and undone, in real repositories."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from marathon.core.records import Writes
from marathon.git.snapshot import NoSnapshot
from marathon.git.writes import Before, WriteGuard
from marathon.store.home import Home, home_of
from tests.git.test_snapshot import git
from tests.git.test_snapshot import project as project


def files(project: Path) -> dict[str, tuple[bytes, bool]]:
    """Every file of the project, with its contents and whether it can be executed."""
    found = [path for path in project.rglob("*") if path.is_file() and not {".git", ".marathon"} & {*path.parts}]
    return {str(path.relative_to(project)): (path.read_bytes(), os.access(path, os.X_OK)) for path in found}


def held(project: Path, guard: WriteGuard, before: Before) -> Writes | None:
    """As in a worktree."""
    return guard.hold(before, [project / "task"], home_of(project / "task") / "runs/001/writes/001.patch")


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
    git(project, "apply", str(Home(project / "task").path(writes.patch)))
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


@pytest.mark.parametrize("how", ["branch", "rewritten", "nested", "large"])
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
    writes = held(project, guard, before)
    assert writes is not None
    assert writes.left
    assert "+changed" in Home(project / "task").path(writes.patch).read_text()
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


# In a folder that others share


def changed(project: Path, guard: WriteGuard, before: Before, *, written: Sequence[str] = ()) -> Writes | None:
    paths = {os.path.realpath(project / name) for name in written}
    return guard.changed(before, [project / "task"], paths, lambda: [project / "other"])


def test_nothing_is_undone_beside_a_human_and_all_of_it_can_be(project: Path) -> None:
    (project / "gone.py").write_text("g\n")
    (project / "untracked.bin").write_bytes(b"\0\1")
    git(project, "add", "gone.py")
    guard = WriteGuard(project, project / "task")
    was, before = files(project), guard.look()
    (project / "code.py").write_text("changed\n")
    (project / "gone.py").unlink()
    (project / "untracked.bin").write_bytes(b"\0\2")
    (project / "ä b.py").write_text("new\n")
    (project / "large.bin").write_bytes(b"0" * 9_000_000)
    (project / "task" / "research.md").write_text("allowed\n")
    then = files(project)
    writes = changed(project, guard, before, written=["code.py", "untracked.bin", "unchanged.py"])
    assert writes
    assert files(project) == then
    assert set(writes.files) == {"code.py", "gone.py", "untracked.bin", "ä b.py", "large.bin"}
    assert writes.by_agent == ["code.py", "untracked.bin"]
    kept = guard.kept([writes])
    assert {each.name: each.by_agent for each in kept.files if not each.fixed} == {
        "code.py": True,
        "gone.py": False,
        "untracked.bin": True,
        "ä b.py": False,
    }
    assert [each.name for each in kept.files if each.fixed] == ["large.bin"]
    patch = home_of(project / "task") / "runs/001/writes/001.patch"
    done, problem = guard.undo([writes], [each.name for each in kept.files if not each.fixed], patch, head=False)
    assert problem == ""
    for name in ("large.bin", "task/research.md"):
        (project / name).unlink()
    assert files(project) == was
    subprocess.run(guard.command_back(done, project), shell=True, cwd=project, check=True)
    assert (project / "untracked.bin").read_bytes() == b"\0\2"
    assert (project / "ä b.py").exists()


def test_a_file_goes_back_to_before_the_first_session_that_changed_it(project: Path) -> None:
    """What a human did between two sessions is in no session, and stays."""
    guard = WriteGuard(project, project / "task")
    first = guard.look()
    (project / "a.py").write_text("first\n")
    one = changed(project, guard, first)
    (project / "b.py").write_text("between\n")
    second = guard.look()
    (project / "a.py").write_text("second\n")
    (project / "b.py").write_text("second\n")
    two = changed(project, guard, second)
    assert one
    assert two
    _, problem = guard.undo([one, two], ["a.py", "b.py"], home_of(project / "task") / "p", head=True)
    assert problem == ""
    assert not (project / "a.py").exists()
    assert (project / "b.py").read_text() == "between\n"


def test_what_a_human_has_staged_stays_staged(project: Path) -> None:
    (project / "code.py").write_text("staged by the human\n")
    git(project, "add", "code.py")
    guard = WriteGuard(project, project / "task")
    before = guard.look()
    (project / "code.py").write_text("theirs\n")
    (project / "new.py").write_text("theirs\n")
    git(project, "add", "new.py")
    writes = changed(project, guard, before)
    assert writes
    guard.undo([writes], writes.files, home_of(project / "task") / "p", head=False)
    assert git(project, "status", "--porcelain", "--", ":!task") == "M  code.py\n"


@pytest.mark.parametrize("how", ["branch", "rewritten", "later", "merge"])
def test_the_branch_moves_back_only_where_nothing_else_is_lost(project: Path, how: str) -> None:
    guard = WriteGuard(project, project / "task")
    before = guard.look()
    if how == "branch":
        git(project, "checkout", "-qb", "other")
    if how == "rewritten":
        git(project, "commit", "-q", "--amend", "-m", "another")
    else:
        git(project, "commit", "-q", "--allow-empty", "-m", "one")
        (project / "code.py").write_text("changed\n")
        git(project, "commit", "-qam", "two")
    writes = changed(project, guard, before)
    assert writes
    if how == "later":
        git(project, "commit", "-q", "--allow-empty", "-m", "by the human, at the gate")
    if how == "merge":
        (project / ".git" / "MERGE_HEAD").write_text(git(project, "rev-parse", "HEAD"))
    head = git(project, "rev-parse", "HEAD")
    kept = guard.kept([writes])
    assert kept.fixed
    assert not kept.back_to
    _, problem = guard.undo([writes], [], home_of(project / "task") / "p", head=True)
    assert problem == kept.fixed
    assert git(project, "rev-parse", "HEAD") == head


def test_another_task_counts_only_if_a_tool_of_the_agent_wrote_there(project: Path) -> None:
    (project / "other").mkdir()
    guard = WriteGuard(project, project / "task")
    before = guard.look()
    (project / "other" / "STATE.json").write_text("{}\n")
    git(project, "add", "other")
    git(project, "commit", "-qm", "the other's")
    assert changed(project, guard, before) is None
    writes = changed(project, guard, before, written=["other/STATE.json"])
    assert writes
    assert writes.by_agent == ["other/STATE.json"]


def test_the_others_are_asked_for_once_the_tree_is_taken(project: Path) -> None:
    guard = WriteGuard(project, project / "task")
    before = guard.look()

    def others() -> list[Path]:
        (project / "late").mkdir()
        (project / "late" / "STATE.json").write_text("{}\n")  # whoever comes now is not in the tree
        return []

    assert guard.changed(before, [], [], others) is None
