"""wait and ask are for agents inside a session, who are known by their environment."""

from __future__ import annotations

import pytest

from tests.support.world import World

COMMANDS = [("wait", "5", "CI"), ("ask", "Which DB?")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_outside_of_a_session_they_are_refused(world: World, command: tuple[str, ...]) -> None:
    ran = world.cli(*command)
    assert ran.returncode == 2
    assert "inside a marathon's session" in ran.stderr
    assert not world.states.exists()


@pytest.mark.parametrize("runner", ["../x", "m-gone", "a b", "x" * 300, "-rf"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_a_runner_that_is_none_is_refused_and_nothing_made(world: World, command: tuple[str, ...], runner: str) -> None:
    ran = world.cli(*command, MARATHON_RUNNER_ID=runner)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert not world.states.exists()
    assert not list(world.project.parent.glob("x*"))


def test_an_empty_question_is_refused(world: World) -> None:
    assert world.cli("ask", "  ", MARATHON_RUNNER_ID="m-1").returncode == 2
