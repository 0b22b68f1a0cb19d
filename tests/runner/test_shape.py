"""How much the instructions say decides how closely a human looks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import World, chunk, finish, plan, research

GATE = b"[q]      Quit marathon"
CLEAR = """# Greet

## Goal

A user who runs `python hello.py NAME` sees "Hello, NAME!" on the screen, which is not so today.

## Scope

Only `hello.py`; the files in `lib/` stay out.

## Constraints

- Nothing but the standard library; no other file is changed.

## Success Criteria

- The greeting is printed for a name with spaces.
- `hello.py` exists and is committed.
"""
SOME = "# Greet\n\nMake `hello.py` print a greeting for the name it is given. It must not crash.\n"
VAGUE = "# Do it\n\nAll of it.\n"


def instruct(world: World, text: str) -> None:
    (world.task / "instructions.md").write_text(text)


def test_too_little_is_asked_about_before_the_first_session(world: World) -> None:
    instruct(world, VAGUE)
    world.script(research())
    ran = world.run("--auto-approve", PI_MARATHON_SHAPE="")
    assert ran.returncode == 3
    assert "What is missing:" in ran.stdout
    assert world.sessions() == 0
    assert world.records("scored")[0]["shape"] == "clarify"


def test_what_the_human_says_is_missing_reaches_the_agent(world: World, on_terminal: Callable[..., Pty]) -> None:
    instruct(world, VAGUE)
    world.script(research())
    terminal = on_terminal(PI_MARATHON_SHAPE="")
    assert b"[f]      Say what is missing" in terminal.expect(GATE)
    terminal.send(b"f")
    terminal.expect(b"Feedback:")
    terminal.send(b"only hello.py\r")
    assert b"Phase: research | Iteration: 1" in terminal.expect(GATE)
    assert "only hello.py" in world.prompt(1)
    assert "only hello.py" in world.read("human.md")
    terminal.send(b"q")
    assert terminal.wait() == 3


def test_better_instructions_dissolve_the_gate(world: World) -> None:
    instruct(world, VAGUE)
    world.script(research())
    assert world.run(PI_MARATHON_SHAPE="").returncode == 3
    instruct(world, CLEAR)
    ran = world.run(PI_MARATHON_SHAPE="")
    assert "Phase: research | Iteration: 1" in ran.stdout
    assert world.records("scored")[-1]["shape"] == "tool"


def test_starting_all_the_same_means_a_look_after_every_session(world: World) -> None:
    instruct(world, VAGUE)
    world.script(research(), plan(), chunk(), chunk(), finish())
    assert world.run(PI_MARATHON_SHAPE="").returncode == 3
    world.cli("approve", "task")
    seen = []
    for _ in range(10):
        ran = world.run(PI_MARATHON_SHAPE="")
        if ran.returncode == 0:
            break
        assert ran.returncode == 3
        seen.append(world.records("gate_opened")[-1]["reason"])
        world.cli("approve", "task")
    assert seen == ["review", "review", "session", "session"]


@pytest.mark.parametrize(("shape", "kinds"), [("tool", []), ("colleague", ["session", "session"])])
def test_the_human_may_choose_otherwise(world: World, shape: str, kinds: list[str]) -> None:
    instruct(world, VAGUE)
    world.script(research(), plan(), chunk(), chunk(), finish())
    assert world.run("--shape", shape, "--auto-approve", PI_MARATHON_SHAPE="").returncode == 0
    opened = [record["reason"] for record in world.records("gate_opened")]
    assert opened == ["review", "review", *kinds]
    assert {record["by"] for record in world.records("gate_answered")} == {"auto"}


def test_clear_instructions_are_left_alone_between_reviews(world: World) -> None:
    instruct(world, CLEAR.replace("- The greeting is printed for a name with spaces.\n", ""))
    status = {"`hello.py` exists and is committed.": True}
    done = {
        "state": "completed",
        "phase": "done",
        "criteriaStatus": status,
        "criteriaEvidence": {name: "looked" for name in status},
    }
    world.script(research(), plan(), chunk(), chunk(), finish(state=done))
    assert world.run("--auto-approve", PI_MARATHON_SHAPE="").returncode == 0
    assert [record["reason"] for record in world.records("gate_opened")] == ["review", "review"]


def test_what_was_begun_is_not_rated_in_the_middle(world: World) -> None:
    instruct(world, VAGUE)
    (world.task / "research.md").write_text("found\n")
    world.leave_state("running", "plan", 2)
    world.script(plan())
    assert world.run(PI_MARATHON_SHAPE="").returncode == 3
    assert not world.records("scored")


def test_a_project_cannot_choose_for_whoever_checks_it_out(world: World) -> None:
    config = world.project / ".marathon" / "config.toml"
    config.parent.mkdir()
    config.write_text('shape = "tool"\n')
    ran = world.run(PI_MARATHON_SHAPE="")
    assert (ran.returncode, "shape" in ran.stderr) == (2, True)


def test_status_tells_of_a_colleague(world: World) -> None:
    instruct(world, SOME)
    world.script(research())
    world.run("--shape", "colleague", PI_MARATHON_SHAPE="")
    assert "colleague" in world.cli("status", "task").stdout
