"""Every so many sessions the agent looks back before it goes on."""

from __future__ import annotations

import json

from tests.support.world import Entry, World

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
HEADING = "## Look back first"


def test_every_third_session_is_followed_by_one_that_looks_back(world: World) -> None:
    world.script(MORE)
    assert world.run("--reflect-every", "3", "--max-iterations", "10").returncode == 4
    assert [number for number in range(1, 11) if HEADING in world.prompt(number)] == [4, 7, 10]
    started = world.records("session_started")
    assert [record["iteration"] for record in started if record["reflects"]] == [4, 7, 10]
    facts = json.loads((world.task / ".marathon/runs/001/iterations/004.json").read_text())
    assert facts["reflects"] is True


def test_nobody_looks_back_unless_told(world: World) -> None:
    world.script(MORE)
    world.run("--max-iterations", "4")
    assert not any(HEADING in world.prompt(number) for number in range(1, 5))


def test_the_humans_own_words_replace_ours(world: World) -> None:
    (world.task / "reflect.md").write_text("Ask yourself: why?\n")
    world.script(MORE)
    world.run("--reflect-every", "1", "--max-iterations", "2")
    assert f"{HEADING}\n\nAsk yourself: why?" in world.prompt(2)
    (world.task / "reflect.md").write_text("And: how?\n")
    world.run("--reflect-every", "1", "--max-iterations", "3")
    assert "And: how?" in world.prompt(3)
    assert "why?" not in world.prompt(3)
