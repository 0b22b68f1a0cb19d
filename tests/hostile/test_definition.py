"""A repository, or the agent in it, changes the workflow so that a review is missing. A human is shown that first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.process.driver import Pty
from tests.support.world import ROOT, Entry, World, finish, plan, research

BUILT_IN = (ROOT / "marathon" / "workflows" / "rpi" / "workflow.toml").read_text()
WITHOUT_REVIEWS = BUILT_IN.replace("gate = true", "gate = false")
ASKED = b"[y/n]"


def phases(*names: str, gate: bool = False) -> str:
    """A definition with these phases, none of which has an output."""
    each = 'id = "{0}"\nname = "{0}"\nbrief = "Do {0}."\ngate = {1}\n'
    return 'name = "Its own"\n' + "".join(
        "[[phases]]\n" + each.format(name, "true" if gate else "false") for name in names
    )


def bring(world: World, key: str, text: str) -> Path:
    """The project comes with this workflow."""
    file = world.project / ".marathon" / "workflows" / key / "workflow.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def without_plan() -> str:
    head, *rest = BUILT_IN.split("[[phases]]")
    return "[[phases]]".join([head, *(phase for phase in rest if 'id = "plan"' not in phase)])


def writing(world: World, key: str, text: str) -> Entry:
    """An agent of research that also writes a workflow."""
    made = world.agent / "made.toml"
    made.write_text(text)
    folder = f".marathon/workflows/{key}"
    return research(run=f"mkdir -p {folder} && cp {made} {folder}/workflow.toml")


def test_a_project_that_replaces_the_built_in_workflow_is_shown_and_agreed_to_once(world: World) -> None:
    bring(world, "rpi", WITHOUT_REVIEWS)
    world.script(research(), plan(), finish())
    ran = world.run("--auto-approve")
    assert (ran.returncode, world.sessions()) == (3, 0)
    assert "This project replaces the workflow rpi:" in ran.stdout
    assert "-  1. research: writes research.md, may write the task, you review it" in ran.stdout
    assert "+  1. research: writes research.md, may write the task, no review" in ran.stdout
    assert "has no reviews. The usual one has 2 reviews (research, plan)." in ran.stdout
    assert "your yes to this project's workflow" in world.cli("status", "task").stdout
    assert "Agreed to exactly this workflow." in world.cli("approve", "task").stdout
    assert world.run().returncode == 0
    second = world.project / "second"
    second.mkdir()
    (second / "instructions.md").write_text("# Another\n")
    again = world.cli(*["second" if each == "task" else each for each in world.task_args("--auto-approve")])
    assert "This project replaces" not in again.stdout


def test_after_a_yes_a_further_change_is_shown_again(world: World) -> None:
    file = bring(world, "rpi", WITHOUT_REVIEWS)
    world.script(research(), plan(), finish())
    assert world.run("--trust").returncode == 0
    assert world.sessions() == 3
    second = world.project / "second"
    second.mkdir()
    (second / "instructions.md").write_text("# Another\n")
    file.write_text(phases("implement"))
    ran = world.cli(*["second" if each == "task" else each for each in world.task_args()])
    assert (ran.returncode, world.sessions()) == (3, 3)
    assert "has no reviews" in ran.stdout


def test_settings_of_a_project_do_not_choose_a_workflow_without_reviews(world: World) -> None:
    bring(world, "quick", phases("only"))
    (world.project / ".marathon" / "config.toml").write_text('workflow = "quick"\n')
    world.script({"state": {"state": "completed", "phase": "done"}})
    ran = world.run()
    assert (ran.returncode, world.sessions()) == (3, 0)
    assert "This project's workflow quick has no reviews." in ran.stdout


def test_the_settings_of_the_user_may_choose_any_workflow_of_the_user(world: World) -> None:
    folder = world.home / ".config" / "pi-marathon" / "workflows" / "quick"
    folder.mkdir(parents=True)
    (folder / "workflow.toml").write_text(phases("only"))
    (folder.parents[1] / "config.toml").write_text('workflow = "quick"\n')
    world.script({"state": {"state": "completed", "phase": "done"}})
    assert world.run().returncode == 0


def test_settings_of_a_project_do_not_choose_a_users_workflow_without_reviews_either(world: World) -> None:
    folder = world.home / ".config" / "pi-marathon" / "workflows" / "quick"
    folder.mkdir(parents=True)
    (folder / "workflow.toml").write_text(phases("only"))
    (world.project / ".marathon").mkdir()
    (world.project / ".marathon" / "config.toml").write_text('workflow = "quick"\n')
    world.script({"state": {"state": "completed", "phase": "done"}})
    assert world.run().returncode == 3
    assert world.sessions() == 0


def test_a_projects_own_workflow_with_as_many_reviews_needs_no_yes(world: World) -> None:
    bring(world, "two", phases("one", "two", gate=True))
    world.script({"state": {"state": "paused", "phase": "one"}})
    ran = world.run("--workflow", "two")
    assert ran.returncode == 3
    assert "Phase: one" in ran.stdout
    assert world.records("gate_opened")[0]["reason"] == "review"


def test_an_agent_that_writes_a_workflow_without_the_plan_does_not_skip_the_plan(world: World) -> None:
    world.script(writing(world, "rpi", without_plan()), plan(), finish())
    assert world.run().returncode == 3
    world.cli("approve", "task")
    ran = world.run("--auto-approve")
    assert (ran.returncode, world.sessions()) == (3, 1)
    assert "The workflow rpi was changed:" in ran.stdout
    assert "-  2. plan:" in ran.stdout
    assert "The task keeps its workflow." in world.cli("redo", "task").stdout
    ran = world.run()
    assert "Phase: plan" in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "review"
    world.cli("approve", "task")
    assert world.run().returncode == 0
    assert world.sessions() == 3


def test_a_change_that_the_human_wants_holds_from_then_on(world: World) -> None:
    world.script(writing(world, "rpi", without_plan()), finish())
    world.run()
    world.cli("approve", "task")
    assert world.run().returncode == 3
    assert "Agreed to exactly this workflow." in world.cli("approve", "task").stdout
    ran = world.run()
    assert "The workflow changed under this task" in ran.stdout
    world.cli("redo", "task", "--phase", "implement")
    assert world.run().returncode == 0


def test_a_change_that_is_taken_back_needs_no_answer(world: World) -> None:
    world.script(writing(world, "rpi", without_plan()), plan())
    world.run()
    world.cli("approve", "task")
    assert "was changed" in world.run().stdout
    (world.project / ".marathon/workflows/rpi/workflow.toml").unlink()
    assert "Phase: plan" in world.run().stdout


def test_a_workflow_that_an_agent_breaks_stays_as_it_was(world: World) -> None:
    world.script(writing(world, "rpi", "nonsense"), plan(), finish())
    world.run()
    world.cli("approve", "task")
    ran = world.run()
    assert "Phase: plan" in ran.stdout
    assert "This task keeps the one it has." in ran.stdout


def test_in_a_terminal_the_difference_stands_above_the_keys(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(writing(world, "rpi", without_plan()), plan())
    world.run()
    world.cli("approve", "task")
    terminal = on_terminal()
    terminal.resize(200, 80)
    shown = terminal.expect(ASKED)
    assert b"The workflow rpi was changed:" in shown
    assert b"Use the changed workflow from now on? [y/n]" in shown
    assert b"MARATHON PAUSED" not in shown, "it is a question, and the marathon has not begun"
    terminal.send(b"?")
    terminal.expect(b"[n]      No: keep the workflow that this task has")
    terminal.send(b"n")
    terminal.expect(b"Phase: plan")


def test_what_is_agreed_to_is_shown_to_its_end_and_an_enter_is_no_yes(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    bring(world, "rpi", WITHOUT_REVIEWS)
    world.script(research(), plan(), finish())
    terminal = on_terminal()
    terminal.resize(12, 80)
    shown = terminal.expect(b"Page 1 of ")
    assert b"This project replaces the workflow rpi:" in shown
    terminal.expect(b"go on")
    terminal.send(b"y")  # before the end was seen
    terminal.expect(b"y is not one of the options")
    left = True
    while left:
        terminal.send(b" ")
        left = b"go on" in terminal.expect(b"[q] quit")
    terminal.expect(b"[?] more")
    terminal.send(b"\r")
    terminal.expect(b"Enter is not one of the options")
    assert not world.records("gate_answered")
    terminal.send(b"y")
    terminal.expect(b"Completed")


def test_a_chain_of_references_is_refused_by_name_and_the_others_are_still_listed(world: World) -> None:
    for number in range(600):
        bring(world, f"w{number}", f'name = "W{number}"\n[[phases]]\nworkflow = "w{number + 1}"\n')
    bring(world, "w600", phases("end", gate=True))
    listed = world.cli("workflow", "list")
    assert listed.returncode == 0
    assert "rpi" in listed.stdout
    assert "w600" in listed.stdout
    refused = world.cli("workflow", "show", "w0")
    assert refused.returncode == 2
    assert "'w0' is refused: its references are more than 100 levels deep" in refused.stderr
    world.script(research())
    assert world.run().returncode == 3
