"""Ending a run for good: it asks first, another key forgets it, and nothing is removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.listing import listing
from tests.support.world import World, research

KEYS_SHOWN = b"[q]      Quit marathon"
ASKED = b"Press c again"


def test_c_twice_cancels_and_a_restart_begins_a_new_run(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"c")
    terminal.expect(ASKED)
    assert not world.records("cancelled")
    terminal.send(b"c")
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
    [b"x", b"v", b"\r", b"q", b"\x1b[A"],
    ids=["no key", "a key of the gate", "Enter", "q", "an arrow"],
)
def test_any_other_key_forgets_a_cancel(world: World, on_terminal: Callable[..., Pty], other: bytes) -> None:
    world.script(research())
    terminal = on_terminal(PAGER="cat")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"c")
    terminal.expect(ASKED)
    terminal.send(other)
    terminal.expect(b"? shows the options")
    terminal.send(b"c")
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
    agreed.expect(b'To start again: pi-marathon -h "what to do" --task task --agent command')
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
