"""The journal's last line cut off by a crash: it is dropped once and for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.forked import world as world
from tests.support.world import World, finish, plan, research


@pytest.fixture
def journal(world: World) -> Path:
    return world.kept / "journal.jsonl"


@pytest.mark.parametrize("kept", [1, 30, -2, -1])
def test_a_torn_last_line_is_dropped_and_noted(world: World, journal: Path, kept: int) -> None:
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    lines = journal.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["type"] == "gate_opened"
    whole = b"".join(lines[:-1])
    journal.write_bytes(whole + lines[-1][:kept])
    again = world.run("--auto-approve")
    assert again.returncode == 0
    assert world.sessions() == 3  # research was not done again
    after = journal.read_bytes()
    assert after.startswith(whole + lines[-1][:kept] + b"\n")
    records = [json.loads(line) for line in after.splitlines()[len(lines) :]]
    assert records[0]["type"] == "torn"
    assert records[0]["bytes"] == len(lines[-1][:kept])
    assert [record["type"] for record in records[1:3]] == ["gate_opened", "gate_answered"]


def test_a_torn_line_stays_passed_over_ever_after(world: World, journal: Path) -> None:
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    journal.write_bytes(journal.read_bytes()[:-20])
    for _ in range(2):
        again = world.run()
        assert again.returncode == 3
        assert "Phase: research" in again.stdout
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert world.sessions() == 2
    assert "your review of plan" in world.cli("status", "task").stdout


def test_a_journal_torn_in_its_very_first_record_begins_anew(world: World, journal: Path) -> None:
    world.script(research())
    journal.parent.mkdir(mode=0o700, parents=True)
    journal.write_bytes(b'{"n":1,"at":"2026-02-02T1')
    assert world.run().returncode == 3
    assert world.sessions() == 1
    torn, *whole = journal.read_bytes().splitlines()
    assert torn == b'{"n":1,"at":"2026-02-02T1'
    assert [json.loads(line)["type"] for line in whole][:2] == ["torn", "begun"]


def test_damage_inside_the_journal_is_refused_by_its_line(world: World, journal: Path) -> None:
    world.script(research(), plan())
    assert world.run().returncode == 3
    lines = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], b"\0" * 40 + b"\n", *lines[2:]])
    journal.write_bytes(damaged)
    for refused in (world.run(), world.cli("status", "task"), world.cli("approve", "task")):
        assert refused.returncode == 7
        assert "journal.jsonl line 2 is damaged" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert journal.read_bytes() == damaged
    assert world.sessions() == 1
