"""clean, archive, rm: each lists what goes and asks, and nothing that a human may still need goes with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty, until
from tests.support.listing import listing
from tests.support.side import Side
from tests.support.world import World


def kept_outside(side: Side) -> list[str]:
    """What lies in our own folder for tasks."""
    return sorted(
        each.name for name in ("tasks", "index", "codes", "worktrees") for each in (side.state / name).glob("*")
    )


def test_rm_takes_everything_of_a_task_but_its_branch(world: World, typed: Callable[..., Pty]) -> None:
    side = Side(world, "my-task", "other")
    side.run("my-task", "--worktree", "--auto-approve")
    side.run("other", "--worktree", expected=3)
    tree = side.folder("my-task")
    undone = (side.task("my-task") / ".marathon").resolve() / "runs/001/writes/001.patch"
    undone.parent.mkdir()
    undone.write_text("what a human may want back")
    before = listing(side.project / "docs")
    refused = side.type("rm", "my-task", expected=2)
    for part in (
        f"{undone}  (the only copy",
        f"{side.task('my-task')}  (the task",
        "what the runner kept",
        f"{tree}  (its worktree",
        "--yes",
    ):
        assert part in refused
    assert "The branch marathon/my-task stays" in refused
    at_terminal = typed("rm", "my-task")
    at_terminal.expect(b"Remove docs/tasks/my-task for good?")
    at_terminal.send(b"n\r")
    assert at_terminal.wait() == 0
    assert listing(side.project / "docs") == before
    assert tree.is_dir()

    side.type("rm", "my-task", "--yes")
    assert not side.task("my-task").exists()
    assert not tree.exists()
    assert side.sh("git branch --format='%(refname:short)'").split() == ["main", "marathon/my-task", "marathon/other"]
    assert set(side.listed()) == {"other"}
    side.type("rm", "other", "--yes")
    assert kept_outside(side) == []
    side.add("my-task")
    side.run("my-task", "--worktree=marathon/my-task", expected=3)  # the name is free again, and the branch goes on


def test_work_that_is_not_committed_goes_only_when_it_is_meant(world: World) -> None:
    side = Side(world, "my-task")
    (side.agent / "uncommitted").touch()
    side.run("my-task", "--worktree", "--auto-approve")
    tree = side.folder("my-task")
    for command in (("rm",), ("rm", "--archive")):
        refused = side.type(*command, "my-task", "--yes", expected=2)
        assert f"See it: git -C {tree} status   To remove it too: add --discard" in refused
    assert "Skipped" in side.type("rm", "--logs", "--yes")
    assert (tree / "my-task.txt").exists()
    assert "not committed: ?? my-task.txt" in side.type("rm", "my-task", "--yes", "--discard")
    assert not tree.exists()


def test_commits_on_no_branch_count_as_not_committed(world: World) -> None:
    side = Side(world, "my-task")
    side.run("my-task", "--worktree", "--auto-approve")
    tree = side.folder("my-task")
    side.sh(f"cd {tree}; git checkout -q --detach; git -c user.name=a -c user.email=b commit -q --allow-empty -m lost")
    assert "To remove it too: add --discard" in side.type("rm", "my-task", "--yes", expected=2)


def test_the_logs_and_the_archive_are_for_finished_tasks(world: World) -> None:
    side = Side(world, "done", "begun", "cancelled")
    side.run("done", "--worktree", "--auto-approve")
    side.run("begun", expected=3)
    side.run("cancelled", expected=3)
    side.type("cancel", "cancelled", "--yes")
    assert "docs/tasks/begun is not finished (gate)" in side.type("rm", "--archive", "begun", "--yes", expected=2)
    documents = {path.name for path in side.task("done").iterdir()} - {".marathon", ".gitignore"}
    assert "the events" in side.type("rm", "--logs", "--list")
    journal = (side.task("done") / ".marathon/journal.jsonl").read_bytes()
    assert "begun is not finished" in side.type("rm", "--logs", "begun", "--yes", expected=2)
    assert "Removed the logs of 1 task" in side.type("rm", "--logs", "cancelled", "--yes")
    assert "Removed the logs of 1 task" in side.type("rm", "--logs", "--yes")
    assert {path.name for path in side.task("done").iterdir()} - {".marathon", ".gitignore"} == documents
    assert (side.task("done") / ".marathon/journal.jsonl").read_bytes() == journal
    for name, left in (("done", False), ("cancelled", False), ("begun", True)):
        runs = side.task(name) / ".marathon/runs/001"
        assert [(runs / kind).exists() for kind in ("events", "prompts")] == [left, left]
    assert side.listed()["done"]["condition"] == "completed"
    assert "Nothing to remove" in side.type("rm", "--logs", "--yes")

    for _ in range(2):
        side.type("rm", "--archive", "done", "--yes")
        side.add("done")
        side.run("done", "--auto-approve")  # another task may have the name
    assert sorted(os.listdir(side.task("archive"))) == ["done", "done-2"]
    assert (side.task("archive") / "done" / "research.md").exists()
    assert "archive" not in side.listed()


def test_a_running_task_is_refused_by_name_and_an_agent_removes_nothing(world: World) -> None:
    side = Side(world, "my-task")
    side.hold("my-task")
    runner = side.start("--task", "my-task", "--auto-approve")
    try:
        until(lambda: side.works("my-task"), "the agent works", 60)
        refused = side.type("rm", "my-task", "--yes", expected=6)
        assert "my-task is running (pid" in refused
        assert "pi-marathon stop my-task" in refused
    finally:
        side.release("my-task")
        runner.communicate(timeout=60)
    for command in (("rm", "my-task"), ("rm", "--archive", "my-task"), ("rm", "--logs")):
        said = side.type(*command, "--yes", expected=2, MARATHON_RUNNER_ID="m-1")
        assert "does nothing inside an agent's session" in said
    assert side.task("my-task").exists()


@pytest.mark.parametrize("typed", ["linked", "docs/tasks/linked"])
def test_no_link_leads_out(world: World, tmp_path: Path, typed: str) -> None:
    side = Side(world, "my-task")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "instructions.md").write_text("Do it.\n")
    (precious / "STATE.json").write_text('{"state": "completed", "phase": "done"}')
    (precious / ".marathon").mkdir()
    (side.task("my-task") / "link").symlink_to(precious)
    os.symlink(precious, side.task("linked"))
    assert "leads elsewhere" in side.type("rm", typed, "--yes", expected=2)
    side.type("rm", "my-task", "--yes")
    assert "Nothing to remove" in side.type("rm", "--logs", "--yes")
    assert sorted(os.listdir(precious)) == [".marathon", "STATE.json", "instructions.md"]
