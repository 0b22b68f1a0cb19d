"""Keep and revert with real repositories: what an agent does in between, and what of the user's is never touched."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from marathon.errors import WrongUsage
from marathon.git.lanes import LaneTree, Snapshot, diff_of, in_place, lane_tree
from marathon.git.worktree import GitFailed, git


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))


def _sh(folder: Path, script: str) -> None:
    names = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["sh", "-ec", script], cwd=folder, env={**os.environ, **names}, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with uncommitted work of the user in every form."""
    folder = tmp_path / "project"
    folder.mkdir()
    _sh(
        folder,
        """
        git init -q -b main
        printf 'slow\\n' > code.py; printf 'x\\n' > other.py; printf '*.log\\n' > .gitignore
        mkdir sub; printf 's\\n' > sub/a
        git add -A; git commit -qm first
        printf 'mine, staged\\n' > staged.py; git add staged.py
        printf 'mine, changed\\n' > other.py
        printf 'mine, untracked\\n' > notes.txt
        printf 'mine, ignored\\n' > run.log
        """,
    )
    return folder


@pytest.fixture
def lane(project: Path) -> LaneTree:
    return lane_tree(project, project / ".multiloop" / "worktrees" / "perf" / "r1", "multiloop/perf/r1")


_GROWING = (".multiloop", ".git/objects", ".git/worktrees", ".git/logs", ".git/refs")


def _bytes_of(folder: Path) -> dict[str, str]:
    """Everything in a folder except the loop's own and git's objects and logs, which only grow."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith(
            (".multiloop", ".git/objects", ".git/worktrees", ".git/logs", ".git/refs")
        ):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


# What agents leave behind in an iteration that is then reverted
LEFT_BEHIND = {
    "edits": "printf 'worse\\n' > code.py",
    "untracked files": "mkdir -p new/deep; printf x > new/deep/file; printf y > 'na me'",
    "deletions": "rm -r sub code.py",
    "commits": "printf worse > code.py; git commit -qam mine; printf more > code.py; git commit -qam again",
    "another branch": "git checkout -q -b elsewhere; printf worse > code.py; git commit -qam there",
    "no branch": "git checkout -q --detach; printf worse > code.py; git commit -qam there",
    "staged": "printf worse > code.py; git add -A; printf other > code.py",
    "a merge conflict": """git checkout -q -b side; printf a > code.py; git commit -qam a
        git checkout -q multiloop/perf/r1; printf b > code.py; git commit -qam b; git merge side || true""",
    "a rebase in the middle": """git checkout -q -b side; printf a > code.py; git commit -qam a
        git checkout -q multiloop/perf/r1; printf b > code.py; git commit -qam b; git rebase side || true""",
    "a hidden file": "printf '*.log\\nsecret\\n' > .gitignore; printf x > secret",
    "a clone": "git init -q inner; cd inner; printf x > f; git add f; git commit -qm inner",
    "a lock": 'touch "$(git rev-parse --git-path index.lock)"',
    "a file that git passes over": "git update-index --skip-worktree code.py; printf worse > code.py",
    "a mode": "chmod +x code.py",
    "a link": "rm code.py; ln -s /etc/passwd code.py",
    "a hook": """d=$(git rev-parse --git-common-dir)/hooks; mkdir -p "$d"
        printf '#!/bin/sh\\nexit 1\\n' > "$d/post-checkout"; chmod +x "$d/post-checkout"
        cp "$d/post-checkout" "$d/pre-commit" """,
    "nothing": "true",
}


def _now(lane: LaneTree) -> Snapshot:
    return Snapshot(git(lane.folder, "rev-parse", "HEAD"), lane.tree())


@pytest.mark.parametrize("script", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_a_revert_restores_the_tree_of_before(lane: LaneTree, script: str) -> None:
    before = _now(lane)
    _sh(lane.folder, script)
    lane.restore(before)
    assert _now(lane) == before
    assert git(lane.folder, "symbolic-ref", "HEAD") == "refs/heads/multiloop/perf/r1"
    assert git(lane.folder, "status", "--porcelain") == ""
    assert (lane.folder / "code.py").read_text() == "slow\n"


@pytest.mark.parametrize("script", ["printf 'fast\\n' > code.py; printf x > new", LEFT_BEHIND["commits"]])
def test_a_keep_is_one_commit_of_the_measured_tree(lane: LaneTree, script: str) -> None:
    before = _now(lane)
    _sh(lane.folder, script)
    measured = lane.tree()
    kept = lane.commit(before, measured, "Keep iteration 1\n\nmetric 80 against 100\n")
    (lane.folder / "left by verify").write_text("x")
    lane.restore(kept)
    assert _now(lane) == kept == lane.at(kept.commit)
    assert kept.tree == measured
    assert git(lane.folder, "rev-parse", f"{kept.commit}^") == before.commit
    assert git(lane.folder, "log", "-1", "--format=%B").startswith("Keep iteration 1\n\nmetric 80")
    assert git(lane.folder, "status", "--porcelain") == ""
    assert not (lane.folder / "left by verify").exists()


def test_a_tree_is_exported_without_git_and_without_what_is_ignored(lane: LaneTree, tmp_path: Path) -> None:
    _sh(lane.folder, "printf 'fast\\n' > code.py; printf n > new; rm -r sub; printf x > run.log; chmod +x new")
    lane.export(lane.tree(), tmp_path / "out")
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*"))
    assert found == [".gitignore", "code.py", "new", "other.py"]
    assert (tmp_path / "out" / "code.py").read_text() == "fast\n"
    assert os.access(tmp_path / "out" / "new", os.X_OK)


def test_only_what_is_kept_comes_into_the_users_repository(project: Path, tmp_path: Path) -> None:
    lane = lane_tree(project, tmp_path / "lane", "multiloop/perf/r1", tmp_path / "objects")
    before = _now(lane)
    stored = _objects(project)
    _sh(lane.folder, "head -c 3000000 /dev/urandom > big; printf 'worse\\n' > code.py")
    tried = lane.commit(before, lane.tree(), "tried")
    lane.restore(before)
    assert _objects(project) == stored
    _sh(project, "git gc -q --prune=now")
    assert "+worse" in diff_of(project, tried.commit, tmp_path / "objects")
    _sh(lane.folder, "printf 'fast\\n' > code.py")
    kept = lane.commit(before, lane.tree(), "kept")
    lane.take_over(kept.commit)
    lane.restore(kept)
    assert git(project, "show", "multiloop/perf/r1:code.py") == "fast"
    assert _objects(project) < 1_000_000
    _sh(project, "git fsck --strict")


def _objects(project: Path) -> int:
    return sum(path.stat().st_size for path in (project / ".git" / "objects").rglob("*") if path.is_file())


def test_a_large_new_file_is_in_no_tree(lane: LaneTree) -> None:
    before = lane.tree()
    _sh(lane.folder, "mkdir d; head -c 11000000 /dev/zero > 'd/lar ge'; head -c 11000000 /dev/zero > code.py")
    assert lane.large() == ["code.py", "d/lar ge"]
    assert lane.tree() == before


def test_the_user_s_tree_index_and_branch_stay_as_they_are_byte_for_byte(project: Path) -> None:
    before, index = _bytes_of(project), git(project, "status", "--porcelain", "--ignored")
    lane = lane_tree(project, project.parent / "elsewhere", "multiloop/perf/r1")
    for _ in range(2):
        start = _now(lane)
        _sh(lane.folder, LEFT_BEHIND["another branch"].replace("elsewhere", f"b{os.urandom(3).hex()}"))
        lane.restore(start)
    _sh(lane.folder, "printf fast > code.py")
    lane.restore(lane.commit(start, lane.tree(), "kept"))
    lane.remove()
    assert _bytes_of(project) == before
    assert git(project, "status", "--porcelain", "--ignored") == index
    assert git(project, "log", "--format=%s", "multiloop/perf/r1").splitlines() == ["kept", "first"]
    assert not (project.parent / "elsewhere").exists()


def test_in_place_needs_a_clean_tree(project: Path) -> None:
    with pytest.raises(WrongUsage, match="uncommitted work"):
        in_place(project)
    _sh(project, "git add -A; git commit -qm all")
    here = in_place(project)
    before = _now(here)
    _sh(project, "printf worse > code.py; printf x > untracked")
    here.restore(before)
    assert (project / "run.log").read_text() == "mine, ignored\n", "what git ignores is left alone"
    assert in_place(project).branch == "main"
    _sh(project, "git checkout -q --detach")
    with pytest.raises(WrongUsage, match="no branch"):
        in_place(project)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "not in a git repository"),
        (lambda folder: _sh(folder, "git init -q"), "has no commit yet"),
    ],
)
def test_a_project_that_cannot_have_a_worktree_is_told_why(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    make(folder)
    with pytest.raises((WrongUsage, GitFailed), match=said):
        lane_tree(folder, tmp_path / "lane", "multiloop/x/y")


def test_the_diff_of_a_kept_iteration(lane: LaneTree) -> None:
    before = _now(lane)
    _sh(lane.folder, "printf 'fast\\n' > code.py; printf 'n\\n' > new.py")
    shown = diff_of(lane.folder, lane.commit(before, lane.tree(), "kept").commit)
    assert "-slow" in shown
    assert "+fast" in shown
    assert "new.py" in shown
    assert "failed" in diff_of(lane.folder, "0" * 40)


def test_ctrl_c_does_not_reach_git(project: Path, tmp_path: Path) -> None:
    """The terminal sends it to the whole group. The runner asks twice, and git must not die in between."""
    begun = tmp_path / "begun"
    alias = f"!touch {begun}; sleep 0.5; echo whole"
    code = (
        "import signal, sys; from pathlib import Path; from marathon.git.worktree import git\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        f"print(git(Path({str(project)!r}), '-c', {f'alias.slow={alias}'!r}, 'slow'))"
    )
    runner = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True)
    while not begun.exists():
        assert runner.poll() is None
        time.sleep(0.01)
    os.killpg(runner.pid, signal.SIGINT)
    assert (runner.communicate()[0], runner.returncode) == ("whole\n", 0)
