"""A task's folder in another place, or another folder in its place: the record goes on after a question."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from tests.process.driver import Pty
from tests.support.world import World, chunk, finish, plan, research


def in_implement(world: World) -> None:
    """Research and plan are approved, and a session of implement has ended."""
    world.script(research(), plan(), chunk(append={"work.md": "chunk\n", "plan.md": "ticked\n"}), finish())
    for _ in range(2):
        assert world.run().returncode == 3
        assert world.cli("approve", "task").returncode == 0
    assert world.run("--max-iterations", "3").returncode == 4
    assert world.sessions() == 3


def move(world: World) -> None:
    world.task = world.task.rename(world.project / "elsewhere")
    world.adopts = False


def test_a_moved_task_goes_on_after_a_yes(world: World) -> None:
    in_implement(world)
    before = world.journal()
    old = world.task
    move(world)
    refused = world.run("--max-iterations", "9")
    assert refused.returncode == 3
    assert f"This task was at {old} before." in refused.stderr
    assert world.run("--max-iterations", "9", "--adopt").returncode == 0
    assert world.sessions() == 4, "what was reviewed is what was reviewed"
    assert world.journal()[: len(before)] == before
    assert world.run().returncode == 0


def test_a_document_that_was_changed_on_the_way_is_reviewed_again(world: World) -> None:
    in_implement(world)
    (world.task / "research.md").write_text("other findings\n")
    move(world)
    assert world.run("--max-iterations", "9", "--adopt").returncode == 3
    assert world.records("gate_opened")[-1]["phase"] == "research"
    for phase in ("research", "plan"):
        assert world.records("gate_opened")[-1]["phase"] == phase
        assert world.cli("approve", world.task.name).returncode == 0
        code = world.run("--max-iterations", "9").returncode
        assert code == (3 if phase == "research" else 0)
    assert world.sessions() == 4


def test_another_folder_in_its_place_is_one_question(world: World, on_terminal: Callable[..., Pty]) -> None:
    in_implement(world)
    shutil.rmtree(world.task)
    world.task.mkdir()
    (world.task / "instructions.md").write_text("# Another thing\n")
    world.adopts = False
    refused = world.run("--max-iterations", "9")
    assert refused.returncode == 3
    assert "Neither the instructions nor the reviewed documents" in refused.stderr
    assert world.sessions() == 3
    world.script(*[chunk()] * 3, research())
    terminal = on_terminal("--max-iterations", "9")
    terminal.expect(b"Continue with that record? [y/N]")
    terminal.send(b"n\r")
    terminal.expect(b"Begin anew?")
    terminal.send(b"y\r")
    shown = terminal.expect(b"[q]      Quit marathon")
    assert b"Phase: research" in shown
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert world.sessions() == 4
    assert len(world.records("session_started")) == 1
    (kept,) = world.kept.parent.glob("*.before-*")
    assert (kept / "journal.jsonl").exists()


def test_a_folder_made_anew_may_go_on_with_its_record(world: World) -> None:
    in_implement(world)
    (world.task / "instructions.md").write_text("# The same, told better\n")
    for name in ("research.md", "plan.md"):
        (world.task / name).write_text("rewritten\n")
    world.adopts = False
    assert world.run("--max-iterations", "9").returncode == 3
    assert world.run("--max-iterations", "9", "--adopt").returncode == 3
    assert world.records("gate_opened")[-1]["phase"] == "research"
    assert world.sessions() == 3


def test_a_human_who_rewrites_the_instructions_and_one_document_is_asked_nothing(world: World) -> None:
    in_implement(world)
    for name in ("instructions.md", "plan.md"):
        (world.task / name).write_text("# The same, told better\n\nAll of it.\n")
    world.adopts = False
    assert world.run("--max-iterations", "4").returncode == 0
    assert world.sessions() == 4
