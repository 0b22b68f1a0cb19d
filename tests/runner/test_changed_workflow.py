"""Workflows of a project: run in their order, nested, looped, and explained when they change under a task."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.process.driver import Pty
from tests.support.world import ROOT, Entry, World, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"


def define(world: World, key: str, *phases: str, loopable: bool = True) -> None:
    """A workflow of the project; a phase is its id, or @KEY for another workflow."""
    folder = world.project / ".marathon" / "workflows" / key
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f'name = "The {key}"', f"loopable = {str(loopable).lower()}"]
    for phase in phases:
        if phase.startswith("@"):
            lines.append(f'[[phases]]\nworkflow = "{phase[1:]}"')
        else:
            lines.append(f'[[phases]]\nid = "{phase}"\nname = "Phase {phase}"\nbrief = "Do {phase}."\ngate = true')
    (folder / "workflow.toml").write_text("\n".join(lines) + "\n")


def does(phase: str) -> Entry:
    return {"append": {"notes.md": f"{phase}\n"}, "state": {"state": "paused", "phase": phase}}


def agree_to_the_change(world: World) -> None:
    """The review stands by the workflow that the task has. Then the change is shown, and the human wants it."""
    assert "Phase: one" in world.run().stdout
    world.cli("approve", "task")
    assert "The workflow two was changed:" in world.run().stdout
    assert "your word on the changed workflow" in world.cli("status", "task").stdout
    world.cli("approve", "task")


def test_a_definition_changed_under_a_task_is_explained_and_the_human_chooses(world: World) -> None:
    define(world, "two", "one", "two")
    world.script(does("one"), does("two"))
    assert world.run("--workflow", "two").returncode == 3
    define(world, "two", "first", "second")
    agree_to_the_change(world)
    ran = world.run()
    assert ran.returncode == 3
    assert "The workflow changed under this task" in ran.stdout
    assert "the workflow changed" in world.cli("status", "task").stdout
    assert "redo task --phase second" in ran.stdout
    assert world.sessions() == 1
    refused = world.cli("approve", "task")
    assert refused.returncode == 2
    assert "does not offer: continue" in refused.stderr
    assert "redo task --phase second" in refused.stderr
    world.script(does("second"))
    assert world.cli("redo", "task", "--phase", "second", "-m", "new names").returncode == 0
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: second" in ran.stdout
    assert "phase second" in world.prompt(2)
    assert "new names" in world.prompt(2)


def test_a_yes_is_for_the_workflow_that_was_shown_and_for_none_that_came_since(world: World) -> None:
    define(world, "quick", "one")
    world.script(does("one"))
    assert "This project's workflow quick has 1 review (one)." in world.run("--workflow", "quick").stdout
    assert world.cli("approve", "task").returncode == 0
    define(world, "quick", "one", loopable=False)
    assert "quick: The quick (not loopable)" in world.run().stdout
    assert (world.run().returncode, world.sessions()) == (3, 0), "nor is it remembered for the next start"


def test_on_a_terminal_the_phases_are_offered_by_number(world: World, on_terminal: Callable[..., Pty]) -> None:
    define(world, "two", "one", "two")
    world.script(does("one"), does("second"))
    world.run("--workflow", "two")
    define(world, "two", "first", "second")
    agree_to_the_change(world)
    terminal = on_terminal()
    shown = terminal.expect(KEYS_SHOWN)
    assert b"[2] Go to second" in shown
    assert b"[Enter]" not in shown
    terminal.send(b"2")
    terminal.expect(b"Press 2 again")
    terminal.send(b"2")
    terminal.expect(b"Why? (may be empty)")
    terminal.send(b"\r")
    terminal.expect(b"Phase: second")


def test_a_definition_that_is_gone_holds_on_for_its_task(world: World) -> None:
    define(world, "two", "one", "two")
    world.script(does("one"), does("two"))
    world.run("--workflow", "two")
    (world.project / ".marathon/workflows/two/workflow.toml").unlink()
    facts = json.loads(world.cli("status", "task", "--json").stdout)
    assert facts["breadcrumb"] == "The two > Phase one [1/2]"
    world.cli("approve", "task")
    ran = world.run()
    assert "The workflow two cannot be read: its file is not there." in ran.stdout
    assert "Phase: two" in ran.stdout


def test_a_nested_workflow_shows_where_it_is(world: World) -> None:
    define(world, "outer", "intro", "@inner")
    define(world, "inner", "deep", "deeper")
    world.script(does("intro"), does("deep"), does("deeper"))
    assert world.run("--workflow", "outer").returncode == 3
    world.cli("approve", "task")
    ran = world.run()
    assert "The outer > The inner [2/2] > Phase deep [1/2]" in ran.stdout
    assert "The outer > The inner [2/2] > Phase deep [1/2]" in world.cli("status", "task").stdout


def test_a_loop_starts_the_workflow_again(world: World, on_terminal: Callable[..., Pty]) -> None:
    define(world, "two", "one", "two")
    world.script(does("one"), does("two"), does("one"))
    world.run("--workflow", "two")
    world.cli("approve", "task")
    terminal = on_terminal()
    assert b"[l]" not in terminal.expect(KEYS_SHOWN), "it is rare"
    terminal.send(b"?")
    terminal.expect(b"[l]      Loop")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"l")
    terminal.expect(b"Press l again")
    terminal.send(b"l")
    terminal.expect(b"Why once more?")
    terminal.send(b"not good yet\r")
    terminal.expect(b"Phase: one | Iteration: 3")
    assert "not good yet" in world.prompt(3)
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"q")
    assert terminal.wait() == 3


def test_a_workflow_that_may_not_be_looped_offers_no_loop(world: World) -> None:
    define(world, "two", "one", "two", loopable=False)
    world.script(does("one"), does("two"))
    world.run("--workflow", "two")
    world.cli("approve", "task")
    world.run()
    refused = world.cli("redo", "task", "--loop", "-m", "again")
    assert refused.returncode == 2
    assert "does not offer: loop" in refused.stderr


def test_a_review_that_was_there_when_the_task_began_stays(world: World) -> None:
    """An agent can write the project's definitions; it does not get rid of a review that way."""
    world.script(research(), plan())
    built_in = (ROOT / "marathon/workflows/rpi/workflow.toml").read_text()
    assert world.run().returncode == 3
    definition = world.project / ".marathon/workflows/rpi/workflow.toml"
    definition.parent.mkdir(parents=True)
    definition.write_text(built_in.replace("gate = true", "gate = false"))
    world.cli("approve", "task")
    ran = world.run()
    assert ran.returncode == 3
    assert world.records("gate_opened")[-1]["reason"] == "redefined"
    world.cli("redo", "task")
    assert world.run().returncode == 3
    assert world.records("gate_opened")[-1]["reason"] == "review"
    assert world.records("gate_opened")[-1]["phase"] == "plan"


def test_a_task_that_pi_workflows_began_goes_on_at_its_place(world: World) -> None:
    """Its state names the path; the oldest form has only an index and no step count."""
    define(world, "twice", "@inner", "@inner", "end")
    define(world, "inner", "one")
    path = [{"workflowKey": "twice", "phaseIndex": 1}, {"workflowKey": "inner", "phaseIndex": 0}]
    world.leave_state("running", "one", 1, workflowKey="twice", currentPath=path)
    world.script(does("one"), does("end"))
    assert world.run("--workflow", "twice").returncode == 3
    assert world.records("begun")[0]["path"] == [["twice", 1], ["inner", 0]]
    world.cli("approve", "task")
    assert "Phase: end" in world.run().stdout


def test_an_old_index_is_read_as_a_path_of_one_and_never_as_another_phase(world: World) -> None:
    world.script(plan())
    world.leave_state("running", "plan", 1, workflowKey="rpi", currentPhaseIndex=1)
    assert "Phase: plan" in world.run().stdout
    assert world.records("begun")[0]["path"] == [["rpi", 1]]


def test_an_index_that_names_another_phase_than_the_state_leads_nowhere_else(world: World) -> None:
    world.script(research())
    world.leave_state("running", "research", 1, workflowKey="rpi", currentPhaseIndex=2)
    assert "Phase: research" in world.run().stdout
