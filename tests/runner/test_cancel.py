"""Ending a run for good: it asks first, another key forgets it, and nothing is removed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.process.driver import Pty, until
from tests.support.listing import listing
from tests.support.world import World, research

KEYS_SHOWN = b"[q]      Quit marathon"
ASKED = b"Press x again"


def test_x_twice_cancels_and_a_restart_begins_a_new_run(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"x")
    terminal.expect(ASKED)
    assert not world.records("cancelled")
    terminal.send(b"x")
    terminal.expect(b"This run was cancelled")
    assert terminal.wait() == 3
    assert world.read("research.md") == "findings 1\n"
    assert "cancelled" in world.cli("status", "task").stdout
    again = world.run()
    assert again.returncode == 3
    assert "-h" in again.stdout
    assert world.sessions() == 1
    assert world.run("-h", "another way").returncode == 3
    assert "run 2" in world.prompt(2)


@pytest.mark.parametrize(
    "other",
    [b"z", b"v", b"\r", b"q", b"\x1b[A"],
    ids=["no key", "a key of the gate", "Enter", "q", "an arrow"],
)
def test_any_other_key_forgets_a_cancel(world: World, on_terminal: Callable[..., Pty], other: bytes) -> None:
    world.script(research())
    terminal = on_terminal(PAGER="cat")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"x")
    terminal.expect(ASKED)
    terminal.send(other)
    terminal.expect(b"? shows the options")
    terminal.send(b"x")
    terminal.expect(ASKED)
    terminal.send(other)
    terminal.expect(b"? shows the options")
    assert not world.records("gate_answered")
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert not world.records("cancelled")


def test_the_command_needs_a_yes(world: World, typed: Callable[..., Pty]) -> None:
    world.script(research())
    world.run()
    before = listing(world.task)
    refused = world.cli("cancel", "task")
    assert refused.returncode == 2
    assert "pi-marathon cancel task --yes" in refused.stderr
    asked = typed("cancel", "task")
    asked.expect(b"[y/N]")
    asked.send(b"n\r")
    asked.expect(b"Nothing was changed")
    assert asked.wait() == 0
    assert listing(world.task) == before
    agreed = typed("cancel", "task")
    agreed.expect(b"[y/N]")
    agreed.send(b"y\r")
    agreed.expect(b'To start again: pi-marathon -h "what to do" --task task')
    assert agreed.wait() == 0
    status = world.cli("status", "task").stdout
    assert "State:     cancelled" in status
    assert "approve" not in status
    assert "cancelled" in world.cli("list", ".").stdout
    assert world.run().returncode == 3
    assert world.records("cancelled")


def test_yes_on_the_command_line_asks_nothing(world: World) -> None:
    world.script(research())
    world.run()
    assert world.cli("cancel", "task", "--yes").returncode == 0
    ran = world.run()
    assert ran.returncode == 3
    assert "cancelled" in ran.stdout
    assert world.sessions() == 1


def test_a_session_that_runs_is_stopped_and_the_run_cancelled(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(research(hold=True))
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    asked = world.cli("cancel", "task", "--yes")
    assert (asked.returncode, asked.stdout.startswith("Asked the runner (pid")) == (0, True)
    shown = runner.communicate(timeout=30)[0]
    assert runner.returncode == 3
    assert "This run was cancelled." in shown
    assert [record["type"] for record in world.journal()][-2:] == ["session_ended", "cancelled"]
    assert world.state()["state"] == "paused"
    assert not list((world.task / ".marathon/inbox").iterdir())
    assert world.run().returncode == 3
    assert world.sessions() == 1


def test_a_terminal_at_its_gate_hears_a_cancel_from_another_shell(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    assert world.cli("cancel", "task", "--yes").returncode == 0
    terminal.expect(b"This run was cancelled")
    assert terminal.wait() == 3
    assert len(world.records("cancelled")) == 1


def test_a_run_at_rest_without_a_gate_is_cancelled_at_once(world: World) -> None:
    world.script({"append": {"a.md": "{n}"}, "state": {"state": "running", "phase": "research"}, "exit": 1})
    assert world.cli("cancel", "task", "--yes").returncode == 2, "there is no run yet"
    assert world.run("--retries", "0").returncode == 1
    assert world.cli("redo", "task", "-m", "once more").returncode == 0
    assert world.cli("cancel", "task", "--yes").returncode == 0
    assert world.journal()[-1]["type"] == "cancelled"
    assert "State:     cancelled" in world.cli("status", "task").stdout
    again = world.cli("cancel", "task", "--yes")
    assert (again.returncode, "because it is cancelled" in again.stderr) == (2, True)
    resumed = world.run()
    assert (resumed.returncode, world.sessions()) == (3, 1)


def test_a_cancel_whose_runner_died_before_it_heard_counts_at_the_next_start(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(research(hold=True))
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    runner.send_signal(signal.SIGSTOP)
    assert world.cli("cancel", "task", "--yes").returncode == 0
    runner.kill()
    runner.wait()
    assert world.run().returncode == 3
    assert (len(world.records("cancelled")), world.sessions()) == (1, 1)
