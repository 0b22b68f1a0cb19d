"""What a first start makes of a directory: a new task, one left by hand or by another tool, one that is over."""

from __future__ import annotations

import json

import pytest

from tests.support.listing import listing
from tests.support.world import World, chunk, finish, plan, research


def test_a_task_without_a_state_starts_in_research(world: World) -> None:
    world.script(research(run='cp "$MARATHON_TASK_DIR/STATE.json" "$MARATHON_TASK_DIR/seen.json"'))
    assert world.run().returncode == 3
    seen = json.loads(world.read("seen.json"))
    assert (seen["state"], seen["phase"], seen["iteration"]) == ("running", "research", 1)
    assert world.records("begun")[0]["adopted"] is False


def test_a_directory_without_instructions_is_no_task_and_stays_as_it_is(world: World) -> None:
    (world.task / "instructions.md").unlink()
    before = listing(world.project)
    ran = world.run()
    assert ran.returncode == 7
    assert "no instructions.md" in ran.stderr
    assert listing(world.project) == before
    assert world.sessions() == 0


def test_implement_goes_on_in_chunks_until_the_result_is_there(world: World) -> None:
    world.leave_state("running", "implement", 1)
    world.script(chunk(), chunk(), chunk(), finish())
    ran = world.run()
    assert ran.returncode == 0
    assert "Completed" in ran.stdout
    assert world.sessions() == 4
    assert world.read("work.md") == "chunk 1\nchunk 2\nchunk 3\n"
    assert (world.state()["state"], world.state()["phase"]) == ("completed", "done")


def test_a_completed_task_says_how_to_restart_and_starts_nothing(world: World) -> None:
    world.leave_state("completed", "done", 9)
    world.script(research())
    assert world.run().returncode == 0
    before = listing(world.task / "STATE.json")
    ran = world.run()
    assert ran.returncode == 0
    assert "completed" in ran.stdout
    assert 'pi-marathon -h "what else to do" --task task\n' in ran.stdout
    assert world.sessions() == 0
    assert listing(world.task / "STATE.json") == before


def test_paused_before_plan_with_a_research_file_awaits_the_review_of_research(world: World) -> None:
    world.leave_state("paused", "plan", 1, note="ready for you", mine="kept")
    (world.task / "research.md").write_text("found by another tool\n")
    world.script(plan())
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 1" in ran.stdout
    assert "ready for you" in ran.stdout
    assert world.state()["mine"] == "kept"
    assert world.sessions() == 0
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert "phase plan" in world.prompt(1)


def test_paused_in_plan_with_a_plan_awaits_the_review_of_the_plan(world: World) -> None:
    """And before it that of research, which is not on record here."""
    world.leave_state("paused", "plan", 2)
    for name in ("research.md", "plan.md"):
        (world.task / name).write_text("from before\n")
    world.script(chunk())
    for phase in ("research", "plan"):
        ran = world.run()
        assert ran.returncode == 3
        assert f"Phase: {phase} | Iteration: 2" in ran.stdout
        assert world.sessions() == 0
        assert world.cli("approve", "task").returncode == 0


def test_paused_in_research_without_its_file_is_not_judged_by_the_result_of_another_run(world: World) -> None:
    world.leave_state("paused", "research", 1)
    (world.task / "result.md").write_text("of a run before\n")
    world.script(research())
    assert "Phase: research | Iteration: 2" in world.run().stdout
    assert world.sessions() == 1


def test_a_task_left_running_goes_on_in_its_phase_and_count(world: World) -> None:
    world.leave_state("running", "plan", 3)
    (world.task / "research.md").write_text("from before\n")
    world.script(plan())
    assert world.run().returncode == 3
    assert "your review of research" in world.cli("status", "task").stdout
    assert world.cli("approve", "task").returncode == 0
    ran = world.run()
    assert ran.returncode == 3
    assert "phase plan (run 1, iteration 3)" in world.prompt(1)
    assert "Phase: plan | Iteration: 3" in ran.stdout


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "not JSON"),
        ('{"state": "asleep", "phase": "plan"}', "field state"),
        ('{"state": "paused", "phase": "x"}', "'x'"),
        ('{"state": "running", "phase": "plan", "workflowKey": "rpi", "currentPath": []}', "currentPath"),
    ],
)
def test_a_state_that_cannot_be_adopted_is_named_and_left(world: World, content: str, named: str) -> None:
    (world.task / "STATE.json").write_text(content)
    world.script(research())
    ran = world.run()
    assert ran.returncode == 7
    assert named in ran.stderr
    assert world.read("STATE.json") == content
    assert world.sessions() == 0
