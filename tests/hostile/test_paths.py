"""An agent turns the runner's folders into links out of the task. Nothing is written behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.driver import until
from tests.support.world import World, plan, research

FOLDERS = [".marathon/inbox", ".marathon/runs", ".marathon/runs/001/rounds", ".marathon/runs/001/iterations"]


def replaced_by_a_link(name: str, outside: Path) -> str:
    """The shell command of an agent that does it."""
    return f"rm -rf task/{name}; mkdir -p $(dirname task/{name}); ln -s {outside} task/{name}"


@pytest.mark.parametrize("name", [*FOLDERS, ".marathon"])
def test_a_folder_that_an_agent_made_a_link_ends_the_run_with_a_sentence(
    world: World, outside: Path, name: str
) -> None:
    world.script(research(run=replaced_by_a_link(name, outside)), plan())
    ran = world.run()
    assert ran.returncode == 7
    assert f"task/{name} is a link" in ran.stderr
    assert "remove it: rm " in ran.stderr
    assert list(outside.rglob("*")) == []
    assert world.sessions() == 1
    assert world.run().returncode == 7
    assert list(outside.rglob("*")) == []


@pytest.mark.parametrize("command", [("steer", "task", "faster"), ("stop", "task")])
def test_a_message_is_not_put_behind_a_link(world: World, outside: Path, command: tuple[str, ...]) -> None:
    """The agent still works, so no runner has looked yet."""
    world.script(research(run=replaced_by_a_link(".marathon/inbox", outside), hold=True))
    runner = world.start()
    try:
        until(lambda: world.holding(1), "the agent to work")
        sent = world.cli(*command)
        assert sent.returncode == 7
        assert "task/.marathon/inbox is a link" in sent.stderr
        assert list(outside.iterdir()) == []
    finally:
        world.release(1)
        runner.communicate(timeout=30)


def test_what_lies_behind_a_linked_inbox_is_neither_read_nor_removed(world: World, outside: Path) -> None:
    (outside / "0001.json").write_text('{"kind": "steer", "text": "from elsewhere"}')
    world.script(research(run=replaced_by_a_link(".marathon/inbox", outside)), plan())
    assert world.run().returncode == 7
    assert (outside / "0001.json").exists()


def test_without_the_link_the_task_continues_at_its_gate(world: World, outside: Path) -> None:
    world.script(research(run=replaced_by_a_link(".marathon/inbox", outside)), plan())
    assert world.run().returncode == 7
    (world.task / ".marathon" / "inbox").unlink()
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research" in ran.stdout
    assert world.sessions() == 1
