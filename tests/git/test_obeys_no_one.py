"""Our own git in repositories that want it to start programs, or that lead it elsewhere."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from marathon.agents.codex import settings as codex_settings
from marathon.git.changes import changes_since
from marathon.git.finalize import make, plan, read_kept
from marathon.git.lanes import LaneTree, diff_of, in_place
from marathon.git.run import GitTookTooLong, run
from marathon.git.snapshot import Snapshots
from marathon.git.worktree import (
    GitFailed,
    add_worktree,
    diffstat,
    git,
    holds_work,
    remove_worktree,
    top_of,
    uncommitted,
)
from marathon.git.writes import WriteGuard
from marathon.store.home import home_of

HOOKS = (
    *("post-index-change", "post-checkout", "post-commit", "pre-commit", "reference-transaction", "pre-auto-gc"),
    *("fsmonitor-watchman", "post-rewrite", "applypatch-msg", "prepare-commit-msg", "commit-msg", "post-merge"),
)
NAMED = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand", "core.alternateRefsCommand"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command", "diff.evil.textconv"),
    *("filter.users.clean", "filter.users.smudge", "filter.users.process"),
    *("diff.external", "merge.evil.driver", "gpg.program", "gpg.ssh.program", "credential.helper", "sequence.editor"),
    *("alias.status", "alias.add", "alias.ls-files", "alias.diff", "alias.rev-parse", "alias.config"),
)


def sh(folder: Path, script: str) -> str:
    names = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **names}
    return subprocess.run(["sh", "-ec", script], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def _users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "docs" / "task" / ".marathon").mkdir(parents=True)
    (folder / "code.py").write_text("before\n")
    (folder / "docs" / "task" / ".marathon" / ".gitignore").write_text("*\n")
    sh(folder, "git init -q -b main; git add -A; git commit -qm all")
    return folder


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Path]:
    """Where the hostile program notes that it was started."""
    note = tmp_path / "ran"
    yield note
    assert not note.exists(), note.read_text()


@pytest.fixture
def evil(tmp_path: Path, ran: Path) -> Path:
    program = tmp_path / "evil"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
    program.chmod(0o755)
    return program


def poison(folder: Path, evil: Path) -> None:
    """Everything in a repository's configuration, hooks and attributes that names a program."""
    git_dir = Path(sh(folder, "git rev-parse --path-format=absolute --git-common-dir").strip())
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    hooks = folder / ".husky"
    hooks.mkdir()
    (git_dir / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        for where in (hooks, git_dir / "hooks"):
            (where / name).unlink(missing_ok=True)
            (where / name).symlink_to(evil)
    config = (git_dir / "config").read_text()
    lines = [f'[include]\n path = "{git_dir}/more"', "[log]\n showSignature = true", "[commit]\n gpgSign = true"]
    lines += ['[filter "evil"]\n required = true', f'[hook "evil"]\n command = {evil}\n event = reference-transaction']
    (git_dir / "config").write_text(config + "\n".join(lines) + "\n")
    more = []
    for name in (*NAMED, "core.hooksPath"):
        section, _, key = name.rpartition(".")
        head, _, middle = section.partition(".")
        value = hooks if name == "core.hooksPath" else f"!{evil}" if head == "alias" else evil
        more.append(f'[{head} "{middle}"]\n {key} = "{value}"' if middle else f'[{head}]\n {key} = "{value}"')
    (git_dir / "more").write_text("\n".join(more) + "\n")


def act_snapshot(project: Path) -> None:
    ours = Snapshots(project, project / "docs" / "task", home_of(project / "docs" / "task"))
    ours.take()
    assert not ours.problem
    (project / "code.py").write_text("after\n")
    assert "+after" in ours.changes()
    assert ours.summary(9)


def act_changes(project: Path) -> None:
    (project / "code.py").write_text("after\n")
    assert changes_since(project, time.time() - 60, project / "docs" / "task").files
    settings = codex_settings(project, {"MARATHON_TASK_DIR": str(project / "docs" / "task")})
    assert "writable_roots" in str(settings)


def act_guard(project: Path) -> None:
    sh(project, f"mv {project}/.git/info/attributes {project}/.git/info/aside")  # what goes through a filter stays
    guard = WriteGuard(project, project / "docs" / "task")
    before = guard.look()
    (project / "code.py").write_text("after\n")
    tree = sh(project, "git -c core.hooksPath=/dev/null -c core.fsmonitor= write-tree").strip()
    made = sh(project, f"git commit-tree {tree} -p HEAD -m theirs").strip()
    sh(project, f"git -c core.hooksPath=/dev/null -c core.fsmonitor= update-ref HEAD {made}")
    found = guard.changed(before, [], (), list)
    assert found is not None
    guard.kept([found])
    _, problem = guard.undo([found], found.files, home_of(project / "docs" / "task") / "p" / "1.patch", head=True)
    assert not problem
    assert (project / "code.py").read_text() == "before\n"
    (project / "code.py").write_text("again\n")
    held = guard.hold(before, [], home_of(project / "docs" / "task") / "p" / "2.patch")
    assert held is not None
    assert not held.left
    guard.put_back([held])
    assert guard.sees_task()


def act_worktree(project: Path) -> None:
    folder = add_worktree(project, project.parent / "tree", "marathon/one")
    assert (folder / "code.py").read_text() == "before\n"
    (folder / "new.py").write_text("n\n")
    assert "?? new.py" in uncommitted(folder)
    assert not holds_work(project, "marathon/one")
    assert not diffstat(project, "marathon/one")
    remove_worktree(folder)


def act_lane(project: Path) -> None:
    lane = LaneTree(add_worktree(project, project.parent / "lane", "multiloop/one"), "multiloop/one")
    before = lane.at(git(project, "rev-parse", "HEAD"))
    (lane.folder / "code.py").write_text("after\n")
    kept = lane.commit(before, lane.tree(), "kept\n")
    lane.restore(kept)
    lane.export(before.tree, project.parent / "out")
    lane.restore(before)
    assert (lane.folder / "code.py").read_text() == "before\n"
    assert "+after" in diff_of(project, kept.commit)
    assert lane.summary(before.tree, kept.tree)
    assert not lane.nested(before.tree, kept.tree)
    found = read_kept(project, [kept.commit])
    assert make(project, found, plan(found, "kept", split=False)) == {"kept": kept.commit}
    sh(project, "rm -rf .husky")
    in_place(project)


ACTS = (act_snapshot, act_changes, act_guard, act_worktree, act_lane)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("act", ACTS)
def test_nothing_that_a_repository_names_is_started(project: Path, evil: Path, act: Callable[[Path], None]) -> None:
    poison(project, evil)
    act(project)


def test_this_repository_is_hostile_to_a_plain_git(project: Path, evil: Path, tmp_path: Path) -> None:
    poison(project, evil)
    subprocess.run(["git", "-C", project, "add", "-A"], check=False, capture_output=True)
    said = (tmp_path / "ran").read_text()
    assert "filter" in said or str(evil) in said
    (tmp_path / "ran").unlink()


@pytest.mark.usefixtures("ran")
def test_nor_what_a_repository_inside_of_it_names(project: Path, evil: Path) -> None:
    """git itself looks whether a repository inside of another has changes, by the inner one's own configuration."""
    inner = project / "inner"
    inner.mkdir()
    (inner / "x").write_text("x\n")
    sh(inner, "git init -q; git add x; git commit -qm x")
    sh(project, "git add inner 2>/dev/null; git commit -qm inner")
    poison(inner, evil)
    (inner / "x").write_text("y\n")
    act_snapshot(project)
    assert " M inner/x" in uncommitted(project)
    sh(inner, "rm -rf .husky")
    (inner / "x").write_text("x\n")
    lane = in_place(project, None)
    (inner / "x").write_text("y\n")
    assert lane.tree() == lane.tree()
    assert " M inner/x" in uncommitted(project)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("act", [act_snapshot, act_changes])
def test_a_bare_repository_inside_of_the_project_is_none(
    project: Path, evil: Path, act: Callable[[Path], None]
) -> None:
    """Any folder with HEAD, objects and refs is one, and an agent can make them like other files."""
    part = project / "part"
    (part / "docs" / "task" / ".marathon").mkdir(parents=True)
    (part / "objects").mkdir()
    (part / "refs").mkdir()
    (part / "HEAD").write_text("ref: refs/heads/main\n")
    (part / "config").write_text(
        f"[core]\n repositoryformatversion = 0\n bare = false\n worktree = {part}\n fsmonitor = {evil}\n"
    )
    (part / "code.py").write_text("before\n")
    for call in (top_of, holds_work, uncommitted, diffstat):
        with pytest.raises(Exception, match=r"bare|not in a git repository"):
            call(part, *(["main"] if call in (holds_work, diffstat) else []))
    if act is act_changes:
        act(part)
    else:
        assert "bare" in Snapshots(part, part / "docs" / "task", home_of(part / "docs" / "task")).changes()


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_EXTERNAL_DIFF", "GIT_NAMESPACE"]
)
@pytest.mark.usefixtures("ran")
def test_variables_that_redirect_git_do_not_count(
    project: Path, evil: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sh(project.parent, "mkdir other; cd other; git init -q; echo o > o; git add o; git commit -qm o")
    monkeypatch.setenv(name, str(evil if name == "GIT_EXTERNAL_DIFF" else project.parent / "other" / ".git"))
    assert top_of(project) == project
    act_snapshot(project)
    act_changes(project)


def test_settings_in_the_environment_start_nothing(
    project: Path, evil: Path, monkeypatch: pytest.MonkeyPatch, ran: Path
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    for number, name in enumerate(("core.fsmonitor", "core.hooksPath")):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", str(evil))
    act_snapshot(project)
    act_worktree(project)
    assert not ran.exists()


def test_a_repository_does_not_say_that_its_files_lie_elsewhere(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("s\n")
    sh(project, f"git config core.worktree {elsewhere}")
    assert top_of(project) == project
    act_snapshot(project)
    lane = in_place(project, None)
    lane.restore(lane.at(git(project, "rev-parse", "HEAD")))
    assert (elsewhere / "secret").read_text() == "s\n"


def test_a_worktree_is_checked_out_through_the_user_s_own_filter_and_no_other(
    project: Path, evil: Path, tmp_path: Path, ran: Path
) -> None:
    """As Git LFS is one. A filter of the same name in the repository does not replace it."""
    users = tmp_path / "users"
    users.write_text('#!/bin/sh\ncase "$1" in clean) echo pointer;; smudge) echo the large file;; esac\n')
    users.chmod(0o755)
    for how in ("clean", "smudge"):
        sh(project, f"git config --global filter.users.{how} '{users} {how}'")
    sh(project, "git config --global filter.users.required true")
    (project / ".gitattributes").write_text("*.bin filter=users\n")
    (project / "a.bin").write_text("the large file\n")
    sh(project, "git add -A; git commit -qm bin")
    for how in ("clean", "smudge"):
        sh(project, f"git config filter.users.{how} '{evil} {how}'")
    folder = add_worktree(project, tmp_path / "tree", "marathon/one")
    assert (folder / "a.bin").read_text() == "the large file\n"
    assert uncommitted(folder) == []
    lane = LaneTree(folder, "marathon/one")
    assert lane.tree() == lane.at("HEAD").tree
    assert not ran.exists()


def test_the_user_s_own_settings_count_where_the_repository_has_none(project: Path) -> None:
    sh(project, "git config --global user.email me@home; git config --global core.excludesFile '~/ignored'")
    (project.parent / "home" / "ignored").write_text("*.mine\n")
    (project / "a.mine").write_text("m\n")
    (project / "b.new").write_text("m\n")
    assert uncommitted(project) == ["?? b.new"]
    assert "<me@home>" in git(project, "var", "GIT_AUTHOR_IDENT")
    sh(project, "git config user.email me@work")
    (project / "code.py").write_text("x\n")
    commit = git(project, "commit-tree", "HEAD^{tree}", "-m", "x")
    assert git(project, "log", "-1", "--format=%ae", commit) == "me@work"


def test_a_pipe_instead_of_a_gitignore_costs_time_once(project: Path) -> None:
    (project / "sub").mkdir()
    os.mkfifo(project / "sub" / ".gitignore")
    listing = ("ls-files", "-o", "--exclude-standard")
    with pytest.raises(GitTookTooLong, match=r"sub/\.gitignore, which is a pipe"):
        run(project, *listing, seconds=1)
    began = time.monotonic()
    for _ in range(5):
        with pytest.raises(GitTookTooLong, match="Remove it"):
            run(project, *listing, seconds=5)
        assert changes_since(project, time.time(), project / "docs" / "task") is not None
        ours = Snapshots(project, project / "docs" / "task", home_of(project / "docs" / "task"))
        ours.take()
        assert "sub/.gitignore, which is a pipe" in ours.problem
    assert time.monotonic() - began < 2
    (project / "sub" / ".gitignore").unlink()
    act_snapshot(project)


def test_what_git_started_ends_with_it(project: Path, tmp_path: Path) -> None:
    """A filter of the user that hangs holds git's own streams open."""
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 60\n")
    slow.chmod(0o755)
    sh(project, f"git config --global filter.slow.clean {slow}")
    (project / ".gitattributes").write_text("*.py filter=slow\n")
    began = time.monotonic()
    with pytest.raises(GitTookTooLong, match="took longer"):
        run(project, "add", "-A", seconds=1)
    assert time.monotonic() - began < 4
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_is_fetched(project: Path, evil: Path, ran: Path) -> None:
    """In a partial clone an object that is not here would be asked for, by a program that the repository names."""
    sh(project, "git config core.repositoryFormatVersion 1; git config extensions.partialClone o")
    sh(project, f"git config remote.o.url 'ext::{evil}'; git config remote.o.promisor true")
    sh(project, "git config protocol.allow always; git config protocol.ext.allow always")
    sh(project, "rm -rf .git/objects/pack; find .git/objects -type f -delete")
    for args in (("diff", "HEAD", "0" * 40), ("log", "-1"), ("reset", "--hard")):
        with pytest.raises(GitFailed):
            git(project, *args)
    assert not ran.exists()
