"""A report counts the sessions of every run, as it counts their time and their cost."""

from __future__ import annotations

import re

from tests.process.driver import until
from tests.support.world import World, chunk, finish, plan, research


def counts(world: World) -> tuple[str, ...]:
    described = world.cli("report", "task", "--markdown").stdout
    page = world.cli("report", "task").stdout
    return tuple(
        match[0] if (match := re.search(r"\d+ sessions?[^·<]*?, (?=\d+s)", text)) else "" for text in (described, page)
    )


def test_the_sessions_of_all_runs_are_counted(world: World) -> None:
    world.script(research(), plan(), finish(), research(), chunk(hold=True))
    world.run("--auto-approve")
    assert counts(world) == ("3 sessions, ", "3 sessions, ")
    world.run("-h", "once more")
    assert counts(world) == ("4 sessions, ", "4 sessions, ")
    world.cli("approve", "task")
    runner = world.start()
    try:
        until(lambda: world.holding(5), "the session")
        assert counts(world) == ("5 sessions, one not over, ", "5 sessions, one not over, ")
        world.release(5)
    finally:
        runner.terminate()
        runner.wait()
