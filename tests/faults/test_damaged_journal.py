"""A journal whose line is whole but no record: it is never passed over, and the human decides what is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.forked import world as world
from tests.support.world import World, finish, plan, research


@pytest.fixture
def journal(world: World) -> Path:
    return world.kept / "journal.jsonl"


def damage_last(world: World, journal: Path) -> bytes:
    """The last record becomes JSON that is no record. Returns the good lines before it."""
    *before, last = journal.read_bytes().splitlines(keepends=True)
    changed = json.dumps({**json.loads(last), "type": "finish"}).encode() + b"\n"
    journal.write_bytes(b"".join([*before, changed]))
    return b"".join(before)


def test_a_completed_task_does_not_open_again_by_damage(world: World, journal: Path, typed: Callable[..., Pty]) -> None:
    world.script(research(), plan(), finish())
    assert world.run("--auto-approve").returncode == 0
    before = damage_last(world, journal)
    number = before.count(b"\n") + 1
    found = journal.read_bytes()
    for refused in (world.run("--auto-approve"), world.cli("status", "task"), world.cli("approve", "task")):
        assert refused.returncode == 7
        assert f"journal.jsonl line {number} is damaged: there is no record of type 'finish'." in refused.stderr
        assert "pi-marathon repair TASK" in refused.stderr
    assert journal.read_bytes() == found
    terminal = typed("repair", "task")
    shown = terminal.expect(b"Repair it? [y/N]")
    assert f"line {number}: finish 2".encode() in shown
    terminal.send(b"n\r")
    assert terminal.wait() == 0
    assert journal.read_bytes() == found
    terminal = typed("repair", "task")
    terminal.expect(b"Repair it? [y/N]")
    terminal.send(b"y\r")
    shown = terminal.expect(b"pi-marathon status task")
    assert terminal.wait() == 0
    assert journal.read_bytes() == before
    (kept,) = journal.parent.glob("journal.jsonl.before-repair-*")
    assert kept.name.encode() in shown
    assert kept.read_bytes() == found
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 3, "what the good records tell was not done again"


def test_a_repair_goes_back_to_the_last_good_record(world: World, journal: Path) -> None:
    """Everything from the damaged line on is shown, and kept."""
    world.script(research(), plan())
    assert world.run().returncode == 3
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b"\0" * 40 + b"\n", *lines[3:]]))
    told = world.cli("repair", "task")
    assert told.returncode == 2
    assert told.stdout.count("  line ") == len(lines) - 2
    assert "pi-marathon repair task --yes" in told.stderr
    assert world.cli("repair", "task", "--yes").returncode == 0
    assert journal.read_bytes() == b"".join(lines[:2])
    assert "in order" in world.cli("repair", "task").stdout
