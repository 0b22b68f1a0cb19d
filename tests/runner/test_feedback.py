"""What the human tells without a restart, and -h that asks before it leaves unfinished work behind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.process.driver import Pty, until
from tests.support.world import Entry, World, chunk, finish, plan, research

STEPS: Entry = {**plan(), "write": {"plan.md": "- [x] a\n- [x] b\n- [x] c\n- [ ] d\n- [ ] e\n"}}
ASKED = "implement is not finished; 3 of 5 steps are done. Restart from research?"


def in_implement(world: World, *more: Entry) -> None:
    world.script(research(), STEPS, chunk(), *more)
    assert world.run("--auto-approve", "--max-iterations", "3").returncode == 4


def test_what_is_told_at_an_open_gate_waits_for_the_next_session_and_approves_nothing(world: World) -> None:
    world.script(research(), plan())
    assert world.run().returncode == 3
    said = world.cli("tell", "task", "use tabs")
    assert said.returncode == 0
    assert "The task still waits for you" in said.stdout
    assert "1 message for the next session" in world.cli("status", "task").stdout
    assert world.run().returncode == 3
    assert world.sessions() == 1
    world.cli("approve", "task")
    assert world.run().returncode == 3
    assert "> use tabs" in world.prompt(2)
    assert world.read("human.md").count("use tabs") == 1
    assert "## Told · " in world.read("human.md")
    world.cli("redo", "task", "-m", "no")
    world.run()
    assert "> use tabs" not in world.prompt(3)  # it was delivered once


def test_what_is_told_while_a_runner_runs_comes_with_the_next_session(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(chunk(hold=True), finish())
    world.leave_state("running", "implement", 0)
    runner = in_background()
    until(lambda: world.holding(1), "the agent works")
    assert world.cli("tell", "use tabs").returncode == 0
    world.release(1)
    assert runner.wait(60) == 0
    assert "> use tabs" in world.prompt(2)


def test_what_is_told_too_late_is_said_to_be_there(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(finish(hold=True))
    world.leave_state("running", "implement", 0)
    runner = in_background()
    until(lambda: world.holding(1), "the agent works")
    assert world.cli("tell", "use tabs").returncode == 0
    world.release(1)
    told, _ = runner.communicate(timeout=60)
    assert runner.returncode == 0
    assert "1 message of yours came after the last session began" in told
    over = world.cli("tell", "task", "more")
    assert over.returncode == 2
    assert "-h" in over.stderr


def test_telling_inside_a_session_is_refused(world: World) -> None:
    assert world.cli("tell", "task", "x", MARATHON_RUNNER_ID="m-1").returncode == 2
    assert not (world.task / ".marathon").exists()


def test_without_a_terminal_a_restart_of_unfinished_work_needs_a_yes(world: World) -> None:
    in_implement(world, research())
    before = world.journal()
    refused = world.run("-h", "another way")
    assert refused.returncode == 2
    assert ASKED in refused.stderr
    assert 'pi-marathon tell task "TEXT"' in refused.stderr
    assert "--yes" in refused.stderr
    assert world.journal() == before
    assert world.run("-h", "another way", "--yes").returncode == 3
    assert "run 2, iteration 1" in world.prompt(4)


@pytest.mark.parametrize(("key", "sessions"), [(b"r", "run 2, iteration 1"), (b"f", "run 1, iteration 4")])
def test_on_a_terminal_a_restart_of_unfinished_work_is_asked_about(
    world: World, on_terminal: Callable[..., Pty], key: bytes, sessions: str
) -> None:
    in_implement(world)
    terminal = on_terminal("-h", "another way", "--max-iterations", "+1", "--mode", "stream")
    terminal.expect(ASKED.encode())
    terminal.expect(b"[q]")
    terminal.send(b"sure, r")  # a sentence does nothing
    terminal.expect(b"Press r, f or q.")
    terminal.send(key)
    terminal.expect(b"MARATHON PAUSED")
    assert sessions in world.prompt(4)
    assert "> another way" in world.prompt(4)
    assert len(world.records("restart_begun")) == (key == b"r")


def test_q_and_ctrl_c_change_nothing(world: World, on_terminal: Callable[..., Pty]) -> None:
    in_implement(world)
    before = world.journal()
    for key, code in ((b"q", 3), (b"\x03", 130), (b"\x04", 3)):
        terminal = on_terminal("-h", "another way")
        terminal.expect(b"[q]")
        terminal.send(key)
        assert terminal.wait() == code
        assert terminal.cooked()
    assert world.journal() == before
    assert not (world.task / "human.md").exists()
