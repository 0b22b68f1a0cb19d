"""What a task has used in all stands at each of its gates, wherever a human meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.process.driver import Pty
from tests.support.world import Entry, World, plan, research


def spends(**usage: float) -> dict[str, Any]:
    return {"say": [json.dumps({"marathon_usage": {"turns": 1, **usage}})]}


TWO_ROUNDS: tuple[Entry, ...] = (research(**spends(cost=0.9)), research(**spends(cost=0.3)))


def test_the_terminal_shows_the_round_and_the_total(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(*TWO_ROUNDS)
    terminal = on_terminal("--max-cost", "10")
    assert b"Phase: research | Iteration: 1 | Total: $0.90 of $10.00" in terminal.expect(b"Quit marathon")
    terminal.send(b"r")
    terminal.expect(b"Why should research be done again?")
    terminal.send(b"too shallow\r")
    assert b"Iteration: 2 | Total: $1.20 of $10.00" in terminal.expect(b"Quit marathon")


def test_status_and_its_json_show_it(world: World) -> None:
    world.script(*TWO_ROUNDS)
    world.run("--max-cost", "10")
    world.cli("redo", "task", "-m", "too shallow")
    assert "| Total: $1.20 of $10.00" in world.run().stdout
    assert "Budget:    $1.20 of $10.00\n" in world.cli("status", "task").stdout
    assert json.loads(world.cli("status", "task", "--json").stdout)["gate"]["total"] == "$1.20 of $10.00"


@pytest.mark.parametrize(
    ("setting", "used", "said"),
    [
        ("", {"cost": 0.9}, "$0.90"),
        ("max_cost = 10.0", {"cost": 0.9}, "$0.90 of $10.00"),
        ("max_tokens = 5000", {"input": 1200}, "1.2k of 5.0k tokens"),
        ('max_time = "2h"', {}, "1s of 2h 00m of working time"),
    ],
)
def test_a_budget_of_the_settings_counts_like_one_that_was_typed(
    world: World, setting: str, used: dict[str, float], said: str
) -> None:
    config = world.home / ".config" / "pi-marathon" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(setting)
    world.script(research(**spends(**used)))
    ran, status = world.run().stdout, world.cli("status", "task", "--json").stdout
    shown = [ran, json.loads(status)["gate"]["total"]]
    if "max_time" in setting:  # whose seconds are real
        assert all("s of 2h 00m of working time" in each for each in shown)
    else:
        assert all(said in each for each in shown)


def test_more_that_was_allowed_shows_at_once(world: World) -> None:
    world.script(research(**spends(cost=0.9)), plan())
    world.run("--max-cost", "10")
    assert "Total: $0.90 of $15.00" in world.run("--max-cost", "+5").stdout
