"""A task or a project that is moved between runs works on; one that vanishes during a run ends it with one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from marathon.process import tree
from tests.faults.sweep import nobody_left, world_at
from tests.process.driver import Pty, alive, until
from tests.support.world import World, chunk, finish, plan, research

Start = Callable[..., subprocess.Popen[str]]
OnTerminal = Callable[..., Pty]


def one_sentence(output: str) -> str:
    """The one line in which we say what is wrong."""
    said = [line.rpartition("pi-marathon: ")[2] for line in output.splitlines() if "pi-marathon: " in line]
    (line,) = [line for line in said if "waits for you" not in line]
    assert "Traceback" not in output
    assert "something went wrong" not in output
    return line


def test_a_project_moved_between_runs_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    world.script(research(), plan(), chunk(), finish())
    assert world.run().returncode == 3
    assert world.cli("approve", "task", "-m", "check auth").returncode == 0
    shutil.move(world.project.parent, tmp_path / "elsewhere")
    moved = world_at(tmp_path / "elsewhere")
    assert moved.run("--auto-approve").returncode == 3
    assert moved.run("--auto-approve", "--adopt").returncode == 0
    assert moved.sessions() == 4
    assert "check auth" in moved.prompt(2)
    assert moved.read("human.md").count("check auth") == 1


def test_a_task_moved_within_its_project_goes_on_where_it_was(world: World) -> None:
    world.script(research(), plan(), chunk(), finish())
    assert world.run().returncode == 3
    (world.project / "done").mkdir()
    command = world.task_args()
    world.task = world.task.rename(world.project / "done" / "renamed")
    gone = world.cli(*command)
    assert gone.returncode == 7
    assert "task does not exist" in one_sentence(gone.stderr)
    agent = world.task_args()[world.task_args().index("--agent") :]
    asked = world.cli("--task", "done/renamed", *agent)
    assert asked.returncode == 3
    assert f"This task was at {world.project / 'task'} before." in asked.stderr
    assert world.cli("--task", "done/renamed", "--adopt", *agent).returncode == 3
    assert world.cli("approve", "done/renamed").returncode == 0
    done = world.cli("--task", "done/renamed", *agent)
    assert done.returncode == 3
    assert "Phase: plan | Iteration: 2" in done.stdout
    assert "done/renamed/plan.md" in done.stdout
    assert "`done/renamed`" in world.prompt(2)


def test_another_folder_than_before_is_no_place_to_work_in_unless_one_says_so(world: World) -> None:
    world.script(research(), plan(), plan())
    assert world.run().returncode == 3
    assert world.cli("approve", "task").returncode == 0
    elsewhere = world.project / "src"
    elsewhere.mkdir()
    agent = world.task_args()[world.task_args().index("--agent") :]

    def start(*args: str) -> subprocess.CompletedProcess[str]:
        argv = world.argv(*args, "--task", "../task", *agent)
        return subprocess.run(argv, cwd=elsewhere, env=world.env(), capture_output=True, text=True, check=False)

    refused = start()
    assert refused.returncode == 2
    assert f"cd {world.project} && pi-marathon --task task" in refused.stderr
    assert world.sessions() == 1
    assert start("--here").returncode == 3
    assert world.sessions() == 2
    assert start().returncode == 3, "now this is its place"


def test_a_project_that_was_copied_is_a_place_of_its_own(world: World, tmp_path: Path) -> None:
    world.script(research(), plan())
    assert world.run().returncode == 3
    copy = tmp_path / "copy"
    shutil.copytree(world.project, copy)
    argv = world.argv(*world.task_args("--adopt"))
    done = subprocess.run(argv, cwd=copy, env=world.env(), capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "Phase: research | Iteration: 1" in done.stdout


def test_a_copy_of_a_task_lives_on_its_own(world: World) -> None:
    world.script(research(), plan(), plan())
    assert world.run().returncode == 3
    shutil.copytree(world.task, world.project / "copy")
    agent = world.task_args()[world.task_args().index("--agent") :]
    assert world.cli("--task", "copy", *agent).returncode == 3, "it is adopted as it stands, and reviewed"
    for name in ("task", "copy"):
        assert world.cli("approve", name).returncode == 0
        done = world.cli("--task", name, *agent)
        assert done.returncode == 3
        assert "Phase: plan | Iteration: 2" in done.stdout


def test_a_task_moved_after_its_runner_was_killed_is_taken_up_again(world: World, in_background: Start) -> None:
    world.script({"hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(1), "the session")
    below = tree.descendants(runner.pid)
    runner.kill()
    runner.wait()
    until(lambda: not any(alive(process.pid) for process in below), "everything is gone")
    world.task.rename(world.project / "renamed")
    agent = world.task_args()[world.task_args().index("--agent") :]
    done = world.cli("--task", "renamed", "--adopt", *agent)
    assert done.returncode == 3
    assert "Phase: research | Iteration: 2" in done.stdout
    assert "cut off" in world.prompt(2)


@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_a_task_that_vanishes_during_a_session_stops_the_agent(world: World, in_background: Start, how: str) -> None:
    world.script({"run": "setsid sleep 1000 & true", "hold": True})
    runner = in_background()
    until(lambda: world.holding(1), "the session")
    below = tree.descendants(runner.pid)
    if how == "removed":
        shutil.rmtree(world.task)
    else:
        world.task.rename(world.project / "renamed")
    output, _ = runner.communicate(timeout=60)
    assert runner.returncode == 7
    assert "task was removed while the marathon ran. The agent was stopped." in one_sentence(output)
    assert not any(alive(process.pid) for process in below)
    assert nobody_left(world)
    assert not world.task.exists()


def test_an_agent_that_removes_its_own_task_ends_with_the_same_sentence(world: World) -> None:
    world.script({"run": "rm -rf task"})
    done = world.run()
    assert done.returncode == 7
    assert "task was removed while the marathon ran" in one_sentence(done.stderr)
    assert not world.task.exists()


@pytest.mark.parametrize("key", [b"\r", b"q", b""])
def test_a_task_removed_at_an_open_gate_is_not_made_again(world: World, on_terminal: OnTerminal, key: bytes) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    shutil.rmtree(world.task)
    if key:
        terminal.send(key)
    code = terminal.wait()
    shown = terminal.seen.decode(errors="replace")
    assert code in ((3, 7) if key == b"q" else (1, 7))
    assert code == 3 or "/task" in one_sentence(shown)
    assert "Traceback" not in shown
    assert terminal.cooked()
    assert not world.task.exists()
    assert world.sessions() == 1


def test_a_task_removed_during_a_wait_ends_it_with_one_sentence(world: World, in_background: Start) -> None:
    world.script({"exit": 1})
    runner = in_background("--retry-wait", "1h")
    until(lambda: (world.task / ".marathon/journal.jsonl").exists() and world.records("wait_started"), "the wait")
    shutil.rmtree(world.task)
    output, _ = runner.communicate(timeout=60)
    assert runner.returncode in (1, 7)
    assert "task" in one_sentence(output)
    assert not world.task.exists()
    assert world.sessions() == 1


def test_feedback_for_a_task_that_was_removed_makes_no_new_one(world: World, on_terminal: OnTerminal) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"f")
    terminal.expect(b"Alt+Enter")
    shutil.rmtree(world.task)
    terminal.send(b"because\r")
    assert terminal.wait() in (1, 7)
    assert "/task" in one_sentence(terminal.seen.decode(errors="replace"))
    assert terminal.cooked()
    assert not world.task.exists()
    assert world.sessions() == 1


def test_a_project_removed_during_a_session_stops_the_agent(world: World, in_background: Start) -> None:
    world.script({"hold": True})
    runner = in_background()
    until(lambda: world.holding(1), "the session")
    below = tree.descendants(runner.pid)
    shutil.rmtree(world.project)
    output, _ = runner.communicate(timeout=60)
    assert runner.returncode == 7
    assert "removed while the marathon ran" in one_sentence(output)
    assert not any(alive(process.pid) for process in below)


def test_started_in_a_directory_that_is_gone(world: World) -> None:
    line = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    argv = ["sh", "-c", line, "sh", *world.argv("--task", "../task", "--agent", "command", "--", "true")]
    done = subprocess.run(argv, cwd=world.project, env=world.env(), capture_output=True, text=True, check=False)
    assert done.returncode in (1, 7)
    one_sentence(done.stderr)
    assert os.listdir(world.task) == ["instructions.md"]
