"""What the work rests on: without its instructions, or without what was reviewed, a marathon asks in every mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import Entry, World, chunk, finish, plan, research

GATE = b"[q]      Quit marathon"
LOSSES: dict[str, tuple[str, str]] = {
    "a reviewed output is deleted": ("plan.md", 'rm "$MARATHON_TASK_DIR/plan.md"'),
    "a reviewed output is emptied": ("research.md", 'echo "# Research" >"$MARATHON_TASK_DIR/research.md"'),
    "the instructions are deleted": ("instructions.md", 'rm "$MARATHON_TASK_DIR/instructions.md"'),
}


@pytest.mark.parametrize("end", [chunk, finish], ids=["more is left", "called done"])
@pytest.mark.parametrize(("name", "loses"), LOSSES.values(), ids=LOSSES)
def test_no_mode_continues_without_it(world: World, end: Callable[..., Entry], name: str, loses: str) -> None:
    world.script(research(), plan(), end(run=loses), finish())
    ran = world.run("--auto-approve")
    assert ran.returncode == 3
    assert f"{name} is missing or blank" in ran.stdout
    assert world.sessions() == 3
    assert not world.records("finished")
    (world.task / name).write_text("It is back.\n")
    assert world.run("--auto-approve").returncode == 0, "the gate closes by itself"
    assert {record["by"] for record in world.records("gate_answered")} == {"auto"}


def test_at_the_terminal_the_gate_closes_when_the_file_is_back(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan(), chunk(run='rm "$MARATHON_TASK_DIR/plan.md"'), finish())
    terminal = on_terminal("--auto-approve")
    shown = terminal.expect(GATE)
    assert b"plan.md is missing or blank" in shown
    assert b"[Enter]  Continue anyway" in shown
    (world.task / "plan.md").write_text("- [ ] 1. step\n")
    terminal.expect(b"The files changed.")
    terminal.expect(b"Completed")
    assert terminal.wait() == 0


def test_the_human_may_continue_without_it_or_have_it_written_again(world: World) -> None:
    world.script(research(), plan(), chunk(run='rm "$MARATHON_TASK_DIR/plan.md"'), chunk(), plan(), finish())
    assert world.run("--auto-approve").returncode == 3
    assert world.cli("approve", "task").returncode == 0
    assert world.run("--auto-approve", "--max-iterations", "4").returncode == 4
    assert world.sessions() == 4, "no second question about the same file"
    assert world.cli("redo", "task", "--phase", "plan", "-m", "write it again").returncode == 0
    assert world.run("--auto-approve", "--max-iterations", "20").returncode == 0
    assert world.records("session_started")[4]["phase"] == "plan"


CRASHED, WAITS = {"exit": 1}, {"wait": ["1", "for the build"]}


@pytest.mark.parametrize("ends", [CRASHED, WAITS], ids=["crashed", "asked to wait"])
def test_beside_a_reached_limit_each_is_asked_once(world: World, ends: Entry) -> None:
    world.script(research(), plan(), chunk(run='rm "$MARATHON_TASK_DIR/plan.md"', **ends))
    assert world.run("--auto-approve", "--max-iterations", "3", timeout=20).returncode == 3
    assert world.run("--auto-approve", "--max-iterations", "3").returncode == 3
    assert world.cli("approve", "task").returncode == 0
    assert world.run("--auto-approve", "--max-iterations", "3").returncode == 4
    assert [gate["reason"] for gate in world.records("gate_opened")] == ["review", "review", "missing", "limit"]
    assert len(world.journal()) < 40
