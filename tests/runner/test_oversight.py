"""How often the human is asked: at reviews only, or after every session. The instructions never decide that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import World, chunk, finish, plan, research

GATE = b"[q]      Quit marathon"
VAGUE = "# Do it\n\nAll of it.\n"
GERMAN = "# Begrüßung\n\nWer `hello.py NAME` aufruft, soll gegrüßt werden. Sonst ändert sich nichts.\n"
WHOLE = (research(), plan(), chunk(), chunk(), finish())


def gates(world: World) -> list[str]:
    return [record["reason"] for record in world.records("gate_opened")]


@pytest.mark.parametrize("text", [VAGUE, GERMAN, "x"])
def test_a_start_is_never_refused_because_of_how_the_instructions_read(world: World, text: str) -> None:
    (world.task / "instructions.md").write_text(text)
    world.script(research())
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 1" in ran.stdout
    assert (world.sessions(), gates(world)) == (1, ["review"])


def test_on_a_terminal_too_the_first_thing_is_a_session(world: World, on_terminal: Callable[..., Pty]) -> None:
    (world.task / "instructions.md").write_text(VAGUE)
    world.script(research())
    terminal = on_terminal()
    assert b"Review the output" in terminal.expect(GATE)
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert world.sessions() == 1


def test_unless_told_the_human_is_asked_at_reviews_only(world: World) -> None:
    world.script(*WHOLE)
    assert world.run("--auto-approve").returncode == 0
    assert gates(world) == ["review", "review"]


@pytest.mark.parametrize("option", ["--oversight", "--shape"])
def test_a_colleague_is_asked_after_every_session(world: World, option: str) -> None:
    world.script(*WHOLE)
    assert world.run(option, "colleague", "--auto-approve").returncode == 0
    assert gates(world) == ["review", "review", "session", "session"]
    assert {record["by"] for record in world.records("gate_answered")} == {"auto"}


def test_it_can_be_changed_at_any_start(world: World) -> None:
    world.script(*WHOLE)
    for expected in ("review", "review", "session"):
        assert world.run("--oversight", "colleague").returncode == 3
        assert gates(world)[-1] == expected
        world.cli("approve", "task")
    assert "asked after every session" in world.cli("status", "task").stdout
    assert world.run("--oversight", "tool").returncode == 0
    assert gates(world) == ["review", "review", "session"]


def test_it_can_be_changed_at_any_gate(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(*WHOLE)
    terminal = on_terminal()
    terminal.expect(GATE)
    terminal.send(b"?")
    assert b"[m]      Ask me after every session from now on" in terminal.expect(GATE)
    terminal.send(b"m")
    terminal.expect(b"From now on you are asked after every session.")
    assert b"[m]" not in terminal.expect(b"? shows the options"), "the menu is not printed again"
    terminal.send(b"?")
    assert b"[m]      Ask me only at reviews from now on" in terminal.expect(GATE)
    for phase in (b"plan", b"implement"):
        terminal.send(b"\r")
        assert b"Phase: " + phase in terminal.expect(GATE)
    assert gates(world) == ["review", "review", "session"], "the first gate stayed the same one"
    terminal.send(b"m")
    terminal.expect(b"only at reviews")
    terminal.expect(b"? shows the options")
    terminal.send(b"\r")
    terminal.expect(b"Completed")


def test_the_agents_rating_of_the_instructions_is_shown_at_the_research_gate_and_nowhere_else(world: World) -> None:
    rated = {"state": "paused", "phase": "research", "rating": {"points": 6, "missing": ["which database"]}}
    world.script(research() | {"state": rated}, plan())
    shown = world.run().stdout
    assert "The agent rates the instructions 6 of 10." in shown
    assert "which database" in shown
    assert "rating" in world.prompt(1)
    world.cli("approve", "task")
    assert "rates the instructions" not in world.run().stdout
    assert gates(world) == ["review", "review"]


@pytest.mark.parametrize(
    "rating", [7, {"points": "many"}, {"points": 99}, {"points": True}, {"missing": ["x"]}, [], "good"]
)
def test_a_rating_that_makes_no_sense_is_none(world: World, rating: object) -> None:
    world.script(research() | {"state": {"state": "paused", "phase": "research", "rating": rating}})
    ran = world.run()
    assert (ran.returncode, "rates the instructions" in ran.stdout) == (3, False)


def test_a_project_cannot_choose_for_whoever_checks_it_out(world: World) -> None:
    config = world.project / ".marathon" / "config.toml"
    config.parent.mkdir()
    config.write_text('oversight = "tool"\n')
    ran = world.run()
    assert (ran.returncode, "oversight" in ran.stderr) == (2, True)
