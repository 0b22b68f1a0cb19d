"""A new worktree that can run the project: .worktreeinclude is copied there, and a setup command runs once."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.debian import need_bubblewrap
from tests.support.side import Side
from tests.support.world import World

INCLUDE = ".env\n/conf/\n*.log\n!keep.log\n/links/\n"
IGNORED = ".env\ndocs/\nconf/\nlinks/\nnode_modules/\n"


def project(world: World, *names: str) -> Side:
    side = Side(world, *names)
    side.sh(f"printf '{INCLUDE}' > .worktreeinclude; printf '{IGNORED}' > .gitignore; mkdir conf links node_modules")
    side.sh("git add -A; git -c user.name=a -c user.email=b commit -qm include")
    side.sh("echo K=1 > .env; chmod 640 .env; echo local > conf/app.toml; echo new > a.log; echo big > node_modules/x")
    side.sh("ln -s ../conf/app.toml links/inside; ln -s $PWD/code.txt links/back; mkfifo links/pipe")
    return side


def test_what_worktreeinclude_names_and_git_ignores_is_copied_and_secrets_are_named(world: World) -> None:
    side = project(world, "my-task")
    said = side.run("my-task", "--worktree", expected=3)
    tree = side.folder("my-task")
    assert "3 files that .worktreeinclude names: .env, conf/app.toml, links/inside" in said
    assert "The agent can read these, which may hold secrets: .env\n" in said
    assert "lead out, or no files: links/back" in said
    assert (
        "node_modules (0 MB) is not copied. To have it in new worktrees: echo node_modules >> .worktreeinclude" in said
    )
    assert (tree / ".env").read_text() == "K=1\n"
    assert (tree / ".env").stat().st_mode & 0o777 == 0o640
    assert os.readlink(tree / "links/inside") == "../conf/app.toml"
    assert not os.path.lexists(tree / "links/back"), "what is written through it would change the human's tree"
    assert not (tree / "a.log").exists(), "git does not ignore it, so it would be committed"
    (tree / ".env").write_text("changed")
    assert (side.project / ".env").read_text() == "K=1\n"
    assert "which may hold" not in side.run("my-task", "--auto-approve"), "once, in a new worktree"


def test_a_typed_setup_runs_once_in_a_new_worktree_before_the_agent(world: World) -> None:
    side = project(world, "my-task")
    setup = "test -e .env && test ! -e research.md && echo ran >> count"
    said = side.run("my-task", "--worktree", "--setup", setup, expected=3)
    assert "Setting up the worktree: test -e .env" in said
    side.run("my-task", "--auto-approve")
    assert (side.folder("my-task") / "count").read_text() == "ran\n"
    assert not (side.project / "count").exists()


def test_the_setup_of_checks_toml_needs_a_yes_and_a_failure_is_a_gate_with_its_end(world: World) -> None:
    side = project(world, "my-task")
    checks = side.task("my-task") / "checks.toml"
    checks.write_text('setup = "echo began; test -e repaired || { echo no such registry; exit 7; }"\n')
    asked = side.run("my-task", "--worktree", expected=3)
    assert "This command will prepare a new worktree:\n" in asked
    assert "no such registry; exit 7" in asked
    assert not (side.agent / "folder-my-task").exists()
    failed = side.run("my-task", "--trust", expected=1)
    assert "The worktree could not be set up: exit code 7." in failed
    assert "began\n" in failed
    assert "no such registry\n" in failed
    assert not (side.agent / "folder-my-task").exists(), "no agent works in half a worktree"
    log = next((side.task("my-task") / ".marathon/runs/001/setup").rglob("*.log"))
    assert log.read_text() == "began\nno such registry\n"
    checks.write_text('setup = "echo another > said"\n')
    assert "another > said" in side.run("my-task", expected=3), "a changed command needs a yes of its own"
    side.run("my-task", "--trust", expected=3)
    assert (side.folder("my-task") / "said").read_text() == "another\n"


def test_after_a_failed_setup_a_human_may_try_again_or_go_on_without(world: World) -> None:
    side = project(world, "again", "without")
    setup = ("--worktree", "--setup", "test -e $HOME/repaired")
    side.run("again", *setup, expected=1)
    side.run("without", *setup, expected=1)
    (world.home / "repaired").touch()
    side.type("approve", "again")
    assert "could not be set up" not in side.run("again", expected=3)
    (world.home / "repaired").unlink()
    side.type("redo", "without", "-m", "There is no network here.")
    assert "could not be set up" not in side.run("without", expected=3)
    assert "There is no network here." in (side.agent / "prompt-without-research").read_text()


def test_a_copied_secret_cannot_be_written_behind_the_wall(world: World) -> None:
    need_bubblewrap()
    side = project(world, "my-task")
    tried = "cd $MARATHON_TASK_DIR; echo x >> $OLDPWD/.env || touch refused; cat $OLDPWD/.env > read"
    tried += "; echo x >> $OLDPWD/conf/app.toml"
    agent = ("--agent", "command", "--workflow", "loop", "--max-iterations", "1", "--sandbox", "--worktree")
    (side.task("my-task") / "task.md").write_text("- [ ] it\n")
    side.type("--task", "my-task", *agent, "--", "sh", "-c", tried, expected=4)
    assert (side.task("my-task") / "refused").exists()
    assert (side.task("my-task") / "read").read_text() == "K=1\n"
    tree = next(path for path in Path(side.state / "worktrees").iterdir())
    assert (tree / "conf/app.toml").read_text() == "local\nx\n"
