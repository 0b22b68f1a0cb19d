"""Branches made of what a loop kept, with real repositories: the user's files stay, and no file is in two."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from marathon.git.finalize import Branch, make, name_taken, plan, read_kept
from marathon.git.worktree import GitFailed, git
from tests.process.driver import Pty
from tests.support.world import World


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))


def _sh(folder: Path, script: str) -> str:
    names = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env={**os.environ, **names}, check=True, capture_output=True, text=True
    )
    return done.stdout


def _repository(folder: Path) -> list[str]:
    """A loop's branch with four kept commits, and the user's own work beside it. Returns the kept commits."""
    _sh(
        folder,
        """
        git init -q -b main
        printf 'a\\n' > a.py; printf 'b\\n' > b.py; printf 'file\\n' > place; printf 'old\\n' > old.py
        git add a.py b.py place old.py; git commit -qm first
        git worktree add -q -b multiloop/perf/r1 ../lane
        """,
    )
    lane = folder.parent / "lane"
    _sh(
        lane,
        """
        printf 'a2\\n' > a.py; git commit -qam 'perf: one'
        printf 'b2\\n' > b.py; git rm -q old.py; printf 'x\\n' > 'new ö.py'; git add -A; git commit -qm 'perf: two'
        git rm -q place; mkdir place; printf 'in\\n' > place/file; git add -A; git commit -qm 'perf: three'
        printf 'a3\\n' > a.py; printf 'in2\\n' > place/file; git commit -qam 'perf: four'
        """,
    )
    _sh(folder, "printf 'mine\\n' > a.py; printf 'staged\\n' > s.py; git add s.py; printf 'new\\n' > u.txt")
    return _sh(lane, "git rev-list --reverse main..HEAD").split()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def _mine(project: Path) -> tuple[str, ...]:
    """What is the user's: the files, the index, HEAD, and every branch but the new ones."""
    files = {str(path): path.read_bytes() for path in project.rglob("*") if path.is_file() and ".git" not in path.parts}
    branches = [line for line in git(project, "show-ref").splitlines() if "refs/heads/loop/" not in line]
    return (str(sorted(files.items())), git(project, "status", "--porcelain=v2", "--branch"), str(branches))


def test_one_branch_is_exactly_what_was_kept(project: Path) -> None:
    kept = read_kept(project, _repository(project))
    before = _mine(project)
    branches = plan(kept, "loop/perf", split=False)
    assert make(project, kept, branches) == {"loop/perf": kept[-1].commit}
    assert git(project, "rev-parse", "loop/perf") == git(project, "rev-parse", "multiloop/perf/r1")
    assert _mine(project) == before


def test_several_branches_share_no_file_and_are_together_what_was_kept(project: Path, tmp_path: Path) -> None:
    """A file that became a folder stays with it: commits three and four, and so one, belong together."""
    kept = read_kept(project, _repository(project))
    before = _mine(project)
    branches = plan(kept, "loop/perf", split=True)
    assert [(each.name, each.files) for each in branches] == [
        ("loop/perf-1", ["a.py", "place", "place/file"]),
        ("loop/perf-2", ["b.py", "new ö.py", "old.py"]),
    ]
    make(project, kept, branches)
    log = ["log", "--reverse", "--format=%s %an"]
    assert git(project, *log, "main..loop/perf-1").splitlines() == [f"perf: {n} a@b" for n in ("one", "three", "four")]
    assert git(project, *log, "main..loop/perf-2") == "perf: two a@b"
    assert _mine(project) == before
    _sh(project, f"git worktree add -q --detach {tmp_path}/merged main")
    _sh(tmp_path / "merged", "git merge -q -m both loop/perf-1 loop/perf-2")
    assert git(tmp_path / "merged", "diff", "--stat", "HEAD", kept[-1].commit) == ""


def test_all_branches_are_made_or_none(project: Path) -> None:
    kept = read_kept(project, _repository(project))
    _sh(project, "git branch loop/perf-2/in-the-way")
    refs = git(project, "show-ref")
    with pytest.raises(GitFailed, match="perf-2"):
        make(project, kept, plan(kept, "loop/perf", split=True))
    assert git(project, "show-ref") == refs


def test_branches_that_would_not_hold_everything_are_not_made(project: Path) -> None:
    kept = read_kept(project, _repository(project))
    with pytest.raises(GitFailed, match="none was made"):
        make(project, kept, [Branch("loop/perf", tuple(kept[:2]))])
    assert "refs/heads/loop" not in git(project, "show-ref")


def test_other_work_between_two_kept_commits_is_told(project: Path) -> None:
    commits = _repository(project)
    with pytest.raises(GitFailed, match="does not stand on"):
        read_kept(project, [commits[0], commits[2]])


@pytest.mark.parametrize("name", ["main", "a..b", "-x", "x.lock"])
def test_names_that_are_taken_or_wrong_are_told(project: Path, name: str) -> None:
    kept = read_kept(project, _repository(project))
    assert name_taken(project, plan(kept, name, split=False))


# As a person types it


@pytest.fixture
def finished(world: World) -> World:
    """A loop that the runner measured and that kept what `_repository` made."""
    commits = _repository(world.project)
    run = world.project / ".multiloop" / "active" / "perf" / "r1"
    run.mkdir(parents=True)
    state = {"lane": "perf", "runTag": "r1", "status": "completed", "baseline": 9.0, "measuredBy": "runner"}
    rows: list[dict[str, Any]] = [{"iteration": 0, "action": "baseline", "metric": 9.0, "setup": {"lane": "perf"}}]
    rows.append({"iteration": 1, "action": "revert", "metric": 10.0, "hypothesis": "worse"})
    for place, commit in enumerate(commits):
        kept = {"action": "keep", "metric": 8.0 - place, "baseline": 9.0 - place, "commit": commit}
        rows.append({"iteration": 2 + place, "hypothesis": f"idea {place}\x1b[31m", **kept})
    (run / "state.json").write_text(json.dumps(state))
    (run / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return world


def test_without_a_terminal_it_shows_the_preview_and_waits_for_yes(finished: World) -> None:
    before = _mine(finished.project)
    ran = finished.cli("loop", "finalize", "perf")
    assert ran.returncode == 3
    assert "perf/r1 kept 4 commits on top of" in ran.stdout
    assert "Branch loop/perf, 6 files: a.py, b.py" in ran.stdout
    assert "9 → 8, -1 (-11.1 %), improved" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "pi-marathon loop finalize perf/r1 --yes" in ran.stderr
    assert "refs/heads/loop" not in git(finished.project, "show-ref")
    made = finished.cli("loop", "finalize", "perf", "--split", "--yes", "--json")
    assert [each["branch"] for each in json.loads(made.stdout)["branches"]] == ["loop/perf-1", "loop/perf-2"]
    assert _mine(finished.project) == before
    again = finished.cli("loop", "finalize", "perf", "--split", "--yes")
    assert again.returncode == 2
    assert "already a branch loop/perf-1. Choose another name" in again.stderr


def test_at_a_terminal_it_asks(finished: World) -> None:
    def answered(key: bytes) -> int:
        terminal: Pty = finished.typed("loop", "finalize", "perf", "--branch", "faster")
        terminal.expect(b"Make this branch? [y/N]:")
        terminal.send(key)
        return terminal.wait()

    assert answered(b"n\r") != 0
    assert "refs/heads/faster" not in git(finished.project, "show-ref")
    assert answered(b"y\r") == 0
    assert git(finished.project, "rev-parse", "faster") == git(finished.project, "rev-parse", "multiloop/perf/r1")


def test_a_loop_that_kept_nothing_is_refused(finished: World) -> None:
    finished.cli("loop", "start", "Faster", "--lane", "none", "--measured-by", "agent")
    ran = finished.cli("loop", "finalize", "none", "--yes")
    assert ran.returncode == 2
    assert "has kept no commit. See what it did: pi-marathon loop status none/" in ran.stderr
