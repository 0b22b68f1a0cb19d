"""--worktree: a task works on a branch of its own, its files stay in the project, and nothing is merged by itself."""

from __future__ import annotations

import re
import shutil

import pytest

from marathon.runner.status_query import read_task
from tests.process.driver import until
from tests.support.side import Side
from tests.support.world import World


def test_a_task_works_in_its_worktree_and_its_files_stay_in_the_project(world: World) -> None:
    side = Side(world, "20260202-143000-my-task")
    task = side.task("20260202-143000-my-task")
    (task / "instructions.md").write_text("# Do it\n\n## Success Criteria\n\n- `test -f 20260202-143000-my-task.txt`\n")
    (side.project / ".env").write_text("secret")
    gate = side.run("my-task", "--worktree", "--trust", expected=3)
    tree = side.folder(task.name)
    assert tree.parent == side.state / "worktrees"
    assert f"on the branch marathon/my-task, in {tree}" in gate
    assert "such as .env or node_modules, are not copied" in gate
    assert not (tree / ".env").exists()
    assert (task / "research.md").exists()
    prompt = (side.agent / f"prompt-{task.name}-research").read_text()
    assert f"Read: {task}/instructions.md" in prompt, "the agent finds the task from the worktree"
    facts = side.status("my-task")
    assert (facts["worktree"], facts["branch"]) == (str(tree), "marathon/my-task")
    assert f"Worktree:  {tree} (branch marathon/my-task)" in side.type("status", "my-task")

    done = side.run("my-task", "--auto-approve")  # without the option it goes on there
    assert side.folder(task.name) == tree
    assert "not copied" not in done
    assert f"{task.name}.txt | 1 +" in done
    assert "\n  Take it:        git merge marathon/my-task\n" in done
    assert re.search(r"\n  Or propose it:  .*pi-marathon pr my-task\n", done)
    assert side.sh("git log --format=%s main; ls") == "start\ncode.txt\ndocs"
    assert side.world.cli("check", "my-task").returncode == 0, "checks run where the work is"


def test_work_that_the_agent_did_not_commit_is_named_and_left_alone(world: World) -> None:
    side = Side(world, "my-task")
    (side.agent / "uncommitted").touch()
    done = side.run("my-task", "--worktree=feature/x", "--auto-approve")
    tree = side.folder("my-task")
    assert f"1 file is not committed. See: git -C {tree} status" in done
    assert "The branch has no commits of its own yet" in done
    assert (tree / "my-task.txt").exists()
    assert side.sh("git branch --list feature/x").endswith("feature/x")


def test_a_worktree_that_is_gone_is_made_again_from_its_branch(world: World) -> None:
    side = Side(world, "my-task")
    side.run("my-task", "--worktree", expected=3)
    shutil.rmtree(side.folder("my-task"))
    side.type("approve", "my-task")
    assert "on the branch marathon/my-task" in side.run("my-task", expected=3)
    assert (side.folder("my-task") / "code.txt").exists()
    shutil.rmtree(side.folder("my-task"))
    side.sh("git worktree prune; git branch -D marathon/my-task")
    refused = side.run("my-task", expected=2)
    assert "is gone, and so is its branch marathon/my-task" in refused
    assert "keeps it" in side.run("my-task", "--worktree=other", expected=2)
    side.run("my-task", "--here", "--auto-approve")
    assert side.folder("my-task") == side.project
    assert side.status("my-task")["branch"] == ""


def test_what_cannot_be_is_refused_with_the_way_out(world: World) -> None:
    side = Side(world, "my-task")
    assert "is not a valid branch name" in side.run("my-task", "--worktree=a..b", expected=1)
    shutil.rmtree(side.project / ".git")
    assert "is not in a git repository" in side.run("my-task", "--worktree", expected=2)
    assert not (side.task("my-task") / ".marathon").exists(), "nothing was begun"


def test_a_second_marathon_in_one_working_tree_is_warned_and_goes_on(world: World) -> None:
    side = Side(world, "first", "second", "third")
    side.hold("first")
    first = side.start("--task", "first", "--auto-approve")
    try:
        until(lambda: side.works("first"), "the first one works", 60)
        warned = side.run("second", expected=3)
        assert f"first (in implement) works in {side.project} too" in warned
        assert "--worktree" in warned
        assert " too. " not in side.run("third", "--worktree", expected=3)
    finally:
        side.release("first")
        first.communicate(timeout=60)


def test_attach_and_the_page_compare_the_worktree_and_not_the_project(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Side(world, "my-task")
    monkeypatch.setenv("XDG_STATE_HOME", str(side.state.parent))
    side.run("my-task", "--worktree", expected=3)
    (side.project / "mine.txt").write_text("in the project\n")
    (side.folder("my-task") / "its.txt").write_text("in the worktree\n")
    changes = read_task(side.task("my-task"), side.project).snapshots.changes()
    assert "its.txt" in changes
    assert "mine.txt" not in changes
