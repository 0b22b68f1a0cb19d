"""A phase that may not write the project does not: what it wrote is kept, undone, and shown at the gate."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.git.test_snapshot import git
from tests.process.driver import Pty, until
from tests.support.world import World, finish, plan, research


@pytest.fixture
def repository(world: World) -> World:
    (world.project / "code.py").write_text("before\n")
    git(world.project, "init", "-q")
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "all")
    return world


def test_research_may_not_change_code_and_implement_may(repository: World) -> None:
    world, change = repository, "echo changed > code.py; echo new > new.py"
    world.script(research(run=change), plan(), finish(run=change))
    ran = world.run()
    assert ran.returncode == 3
    kept = "task/.marathon/runs/001/writes/001.patch"
    said = f"research changed 2 files (code.py, new.py) although it may not. It was undone. A copy is kept as {kept}"
    assert said in ran.stdout.split("MARATHON PAUSED")[1]
    assert (world.project / "code.py").read_text() == "before\n"
    assert not (world.project / "new.py").exists()
    assert "+changed" in (world.project / kept).read_text()
    assert "In this phase write only in `task/`" in world.prompt(1)
    world.cli("approve", "task")
    assert "although it may not" not in world.run().stdout, "it was told at the gate before"
    world.cli("approve", "task")
    assert world.run().returncode == 0
    assert (world.project / "new.py").read_text() == "new\n"
    assert "In this phase write only" not in world.prompt(3)


def test_what_cannot_be_undone_is_a_gate_of_its_own(repository: World) -> None:
    world = repository
    world.script(research(run="git checkout -qb other; echo changed > code.py"), plan())
    ran = world.run("--auto-approve")
    assert ran.returncode == 3
    assert "The session left another branch checked out." in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "writes"
    world.cli("approve", "task")
    assert world.run().returncode == 3
    assert world.records("gate_opened")[-1]["reason"] == "review"


def test_a_session_whose_runner_was_killed_is_told_and_nothing_is_undone(repository: World) -> None:
    world = repository
    world.script(research(run="echo changed > code.py", hold=True))
    runner = world.start()
    deadline = time.monotonic() + 60
    while not world.holding(1):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate(timeout=60)
    ran = world.run()
    assert ran.returncode == 3
    assert "The runner was killed while the session ran." in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "writes"
    assert (world.project / "code.py").read_text() == "changed\n"


def test_without_a_repository_the_gate_says_that_nothing_was_checked(world: World) -> None:
    world.script({"write": {"half.md": "h\n"}, "state": {"state": "running", "phase": "research"}}, research())
    ran = world.run()
    start, gate = ran.stdout.split("MARATHON PAUSED", 1)
    said = "Not checked: whether research wrote where it may not. This project is not a git repository."
    assert start.count(said) == 1
    assert gate.count(said) == 1


def test_none_is_only_the_output(repository: World) -> None:
    world = repository
    folder = world.project / ".marathon" / "workflows" / "look"
    folder.mkdir(parents=True)
    phase = '[[phases]]\nid = "look"\nname = "Look"\nbrief = "b"\noutput = "o.md"\ngate = true\nwrites = "none"\n'
    (folder / "workflow.toml").write_text(f'name = "Look"\n{phase}')
    world.script({"write": {"o.md": "o\n", "more.md": "m\n"}, "state": {"state": "paused", "phase": "look"}})
    ran = world.run("--workflow", "look", "--trust")
    assert ran.returncode == 3
    assert "look changed 1 file (task/more.md) although it may not." in ran.stdout
    assert (world.task / "o.md").exists()
    assert not (world.task / "more.md").exists()
    assert "write only `task/o.md` and `task/STATE.json`" in world.prompt(1)


def test_a_human_puts_back_what_was_undone(repository: World, on_terminal: Callable[..., Pty]) -> None:
    world = repository
    world.script(research(run="echo mine > code.py; echo new > new.py"), plan(hold=True))
    terminal = on_terminal()
    shown = terminal.expect(b"Quit marathon").decode()
    command = shown.split("put it back:")[1].splitlines()[1].strip()
    assert f"  {command}\n" in world.cli("status", "task").stdout
    for said in (b"Put back: code.py, new.py.", b"There already: code.py, new.py."):
        terminal.send(b"u")
        terminal.expect(said)
        terminal.expect(b"? shows the options")
    assert (world.project / "code.py").read_text() == "mine\n"
    git(world.project, "checkout", "-q", "code.py")
    (world.project / "new.py").unlink()
    subprocess.run(command, shell=True, cwd=world.project, check=True)
    assert (world.project / "new.py").read_text() == "new\n"
    terminal.send(b"q")
    assert terminal.wait() == 3
    world.cli("approve", "task")
    assert command in world.cli("status", "task").stdout, "also after the gate was answered"


def test_a_task_that_is_made_or_started_meanwhile_is_not_undone(repository: World) -> None:
    """Several runners start at once, and a human makes a task while research runs."""
    world = repository
    folder = world.project / "docs/tasks/one"
    folder.mkdir(parents=True)
    (folder / "instructions.md").write_text("# One\n")
    world.script(research(hold=True))
    runner = world.start("--task", "docs/tasks/one")
    until(lambda: world.holding(1), "the agent works", 60)
    made = world.cli("new", "Two", "--goal", "Do it.")
    assert made.returncode == 0, made.stderr
    world.release(1)
    shown = runner.communicate(timeout=60)[0]
    assert "although it may not" not in shown
    assert len(list(world.project.glob("docs/tasks/*-two/instructions.md"))) == 1


def test_the_work_of_a_marathon_that_came_and_went_meanwhile_is_not_undone(repository: World) -> None:
    world = repository
    other = world.project / "docs/tasks/other"
    other.mkdir(parents=True)
    (other / "instructions.md").write_text("# Other\n")
    world.script(research(hold=True))
    runner = world.start()
    until(lambda: world.holding(1), "the agent works", 60)
    assert world.cli("--task", "other", "--agent", "rehearsal").returncode == 3
    (world.project / "code.py").write_text("by the other\n")
    world.release(1)
    shown = runner.communicate(timeout=60)[0]
    assert "Another marathon works in the same folder, or did so meanwhile." in shown
    assert (world.project / "code.py").read_text() == "by the other\n"
