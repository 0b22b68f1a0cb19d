"""Commands that are printed can be typed as they are, and what they refuse is said with its reason."""

from __future__ import annotations

import json
import re
import subprocess

from tests.support.world import ROOT, World, finish, plan, research

BARE_PATH = "/usr/bin:/bin"


def in_bash(world: World, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=world.project,
        env=world.env(PATH=BARE_PATH),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_checkout_that_is_not_on_the_path_prints_commands_that_work(world: World) -> None:
    world.script(research(), plan())
    ran = world.run(PATH=BARE_PATH)
    assert ran.returncode == 3
    answers = ran.stdout.split("Answer it with one of:\n")[1].splitlines()
    assert re.fullmatch(rf"  {ROOT}/bin/pi-marathon approve task --code \w{{6}}", answers[0])
    approved = in_bash(world, answers[0])
    assert approved.returncode == 0, approved.stderr
    resume = approved.stdout.split("To continue: ")[1]
    assert resume == ran.stdout.split("then: ")[1].splitlines()[0] + "\n"
    assert in_bash(world, resume).returncode == 3
    assert world.sessions() == 2
    facts = json.loads(world.cli("status", "task", "--json", PATH=BARE_PATH).stdout)
    assert facts["answer_with"][0] == f"{ROOT}/bin/pi-marathon approve task"


def test_a_command_in_a_refusal_works_too(world: World) -> None:
    refused = world.cli("status", "nope", PATH=BARE_PATH)
    assert refused.returncode == 7
    assert f"To see your tasks: {ROOT}/bin/pi-marathon list   To make one: {ROOT}/bin/pi-marathon new" in refused.stderr
    assert "To see your tasks: pi-marathon list " in world.cli("status", "nope").stderr


def test_another_workflow_for_a_started_task_is_refused(world: World) -> None:
    other(world)
    world.script(research())
    assert world.run("--workflow", "rpi").returncode == 3
    before = world.journal()
    refused = world.run("--workflow", "other")
    assert refused.returncode == 2
    assert "started with the workflow 'rpi'" in refused.stderr
    assert "pi-marathon new --workflow other" in refused.stderr
    assert world.journal() == before
    assert world.run("--workflow", "rpi").returncode == 3
    assert world.run(PI_MARATHON_WORKFLOW="other").returncode == 3  # a usual value is for new tasks


def other(world: World, phases: str = 'id = "one"\nname = "One"\nbrief = "Do it."\n') -> None:
    folder = world.project / ".marathon/workflows/other"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workflow.toml").write_text(f'name = "Other"\n[[phases]]\n{phases}')


def test_a_refused_workflow_says_why(world: World) -> None:
    other(world, 'id = "one"\n')
    ran = world.run("--workflow", "other")
    assert ran.returncode == 2
    assert "The workflow 'other' is refused" in ran.stderr
    assert "other/workflow.toml" in ran.stderr
    assert "There is no workflow" not in ran.stderr
    assert "There is no workflow 'nope'" in world.run("--workflow", "nope").stderr


def test_a_workflow_that_is_refused_under_its_task_leaves_the_task_with_the_one_it_has(world: World) -> None:
    other(world)
    world.script({"state": {"state": "running", "phase": "one"}, "touch": "x"})
    assert world.run("--workflow", "other", "--max-iterations", "1", "--trust").returncode == 4
    other(world, 'id = "one"\n')
    assert "Other > One" in world.cli("status", "task").stdout
    assert world.run().returncode == 4
    assert world.run("--max-iterations", "+1").returncode == 4
    assert world.sessions() == 2


def test_one_of_something_is_said_in_the_singular(world: World) -> None:
    (world.task / "instructions.md").write_text("# Do it\n\n## Success Criteria\n\n- `true`\n")
    ticked = finish(write={"result.md": "r\n", "plan.md": "- [x] 1. a\n"}, run="sleep 100 >/dev/null 2>&1 &")
    world.script(ticked)
    world.leave_state("running", "implement", 0)
    ran = world.run("--trust", "--max-iterations", "1")
    assert ran.returncode == 0
    assert "checking 1 criterion." in ran.stdout
    assert "Ended 1 process that" in ran.stdout
    assert "(1 session, " in ran.stdout
    assert "1 criterion ran, 1/1 step)" in ran.stdout
    assert "1 criterion ran." in world.cli("check", "task").stdout
    assert "1 of 1 session" in world.cli("status", "task").stdout
