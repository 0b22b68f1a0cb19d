"""A STATE.json that cannot be trusted: kept aside byte by byte, restored, told to the human and to the next session."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tests.faults.sweep import Sweeper
from tests.support.world import Entry, World, plan, research

GOOD = b'{"state":"paused","phase":"research","iteration":1,"updatedAt":"2026-02-02T14:30:00Z","note":null}'

# What the agent leaves -> a word of the reason, which names the field where there is one. Not every way to be wrong:
# tests/core/test_state.py has the whole table.
CORRUPT: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it is empty"),
    "nul bytes": (b"\0" * 64, "it is not JSON"),
    "half written": (GOOD[:40], "it is not JSON"),
    "markdown fence": (b"```json\n" + GOOD + b"\n```\n", "Markdown fence"),
    "too large": (GOOD[:-1] + b',"pad":"' + b"x" * (1 << 20) + b'"}', "larger than"),
    "utf-16": (GOOD.decode().encode("utf-16"), "not UTF-8"),
    "lone surrogate": (GOOD.replace(b"null", b'"\\ud800"'), "hex escape"),
    "duplicate key": (GOOD[:-1] + b',"state":"running"}', "'state' is there twice"),
    "nan": (GOOD.replace(b"1,", b"NaN,"), "it is not JSON"),
    "true as a number": (GOOD.replace(b"1,", b"true,"), "field iteration"),
    "5,000 digits": (GOOD.replace(b"1,", b"9" * 5000 + b","), "out of range"),
    "10,000 deep": (GOOD[:-1] + b',"mine":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "recursion limit"),
    "unknown phase": (GOOD.replace(b"research", b"testing"), "field phase"),
}


def leave(world: World, name: str, data: bytes) -> Entry:
    """A session that does some work and leaves these bytes."""
    (world.agent / name).write_bytes(data)
    return {"append": {"work.md": "{n}\n"}, "run": f"cp '../agent/{name}' task/STATE.json"}


@pytest.mark.parametrize("kind", CORRUPT)
def test_a_corrupt_state_is_kept_aside_and_the_phase_goes_on(cli: Sweeper, world: World, kind: str) -> None:
    data, reason = CORRUPT[kind]
    world.script(leave(world, "bad", data), research())
    assert cli.run(world, *world.task_args()) == 3
    printed = cli.printed(world)
    assert "Traceback" not in printed
    (kept,) = world.task.glob("STATE.json.invalid-*")
    assert kept.read_bytes() == data
    told = next(line for line in printed.splitlines() if "STATE.json was not valid" in line)
    assert reason in told
    assert kept.name in told
    assert reason in world.prompt(2)
    assert world.sessions() == 2
    assert world.records("session_ended")[0]["proposal"] is None
    assert "Phase: research | Iteration: 2" in printed
    assert "note" in world.state()


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "removed"])
def test_something_else_in_its_place_is_set_aside_too(cli: Sweeper, world: World, kind: str) -> None:
    make = {"a directory": "mkdir task/STATE.json", "a pipe": "mkfifo task/STATE.json", "removed": "true"}[kind]
    world.script({"append": {"work.md": "{n}\n"}, "run": f"rm task/STATE.json; {make}"}, research())
    assert cli.run(world, *world.task_args()) == 3
    assert "STATE.json was not valid" in cli.printed(world)
    assert world.sessions() == 2
    kept = list(world.task.glob("STATE.json.invalid-*"))
    modes = {"a directory": stat.S_ISDIR, "a pipe": stat.S_ISFIFO}
    assert [modes[kind](os.lstat(path).st_mode) for path in kept] == ([] if kind == "removed" else [True])
    assert world.state()["phase"] == "research"


def test_the_second_one_in_a_row_is_a_gate_and_both_are_kept(world: World) -> None:
    world.script(leave(world, "one", b"first"), leave(world, "two", b"second"), research())
    done = world.run()
    assert done.returncode == 3
    assert "STATE.json could not be read, twice in a row" in done.stdout
    assert world.sessions() == 2
    assert sorted(path.read_bytes() for path in world.task.glob("STATE.json.invalid-*")) == [b"first", b"second"]
    assert world.cli("approve", "task").returncode == 0
    done = world.run()
    assert done.returncode == 3
    assert "Phase: research | Iteration: 3" in done.stdout
    assert world.records("gate_opened")[-1]["reason"] == "review"


def test_a_corrupt_state_found_at_a_gate_is_not_a_reset(world: World) -> None:
    world.script(research(), plan())
    assert world.run().returncode == 3
    (world.task / "STATE.json").write_bytes(b"{half")
    assert world.cli("approve", "task").returncode == 0
    done = world.run()
    assert done.returncode == 3
    assert "STATE.json was not valid" in done.stdout
    assert "Phase: plan | Iteration: 2" in done.stdout
    assert [path.read_bytes() for path in world.task.glob("STATE.json.invalid-*")] == [b"{half"]


def test_a_corrupt_state_without_a_journal_is_refused_and_left_alone(world: World) -> None:
    world.script(research())
    (world.task / "STATE.json").write_bytes(b'{"state":"paused"}')
    done = world.run()
    assert done.returncode == 7
    assert "task/STATE.json" in done.stderr
    assert "field phase" in done.stderr
    assert world.read("STATE.json") == '{"state":"paused"}'
    assert world.sessions() == 0


def test_fields_we_do_not_know_survive_every_rewrite(world: World) -> None:
    mine = {"ticket": "A-1 ü", "deep": {"list": [1, 2.5, None, {"x": []}]}, "big": 12345678901234567890, "": False}
    first, second = research(), plan()
    first["state"].update(mine)
    second["state"].update(mine, ticket="A-2")
    world.script(first, second, {"hold": True})
    assert world.run().returncode == 3
    assert {name: world.state()[name] for name in mine} == mine
    assert world.state()["state"] == "paused"
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert {name: world.state()[name] for name in mine} == {**mine, "ticket": "A-2"}


def test_fields_we_do_not_know_survive_adoption_and_restart(world: World) -> None:
    (world.task / "STATE.json").write_text(json.dumps({"state": "running", "phase": "research", "mine": [1]}))
    world.script({"append": {"work.md": "x"}, "exit": 0})
    assert world.run("--max-iterations", "1").returncode == 4
    assert world.state()["mine"] == [1]
    assert world.run("--max-iterations", "1", "-h", "again").returncode == 4
    assert world.state()["mine"] == [1]
