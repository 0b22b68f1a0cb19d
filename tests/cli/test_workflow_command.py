"""workflow list, show, check: the project's definitions win, and those that cannot be used are named."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from marathon.core.courses.workflow import Phase, Workflow
from tests.support.world import ROOT, Entry, World, research

PHASE = '[[phases]]\nid = "{0}"\nname = "{0}"\nbrief = "Do it."\n'


def define(folder: Path, key: str, name: str, body: str) -> None:
    place = folder / "workflows" / key
    place.mkdir(parents=True)
    (place / "workflow.toml").write_text(f'name = "{name}"\n{body}')


def users(world: World) -> Path:
    return world.home / ".config" / "pi-marathon"


def projects(world: World) -> Path:
    return world.project / ".marathon"


def test_the_built_in_workflow_is_listed_and_shown(world: World) -> None:
    listed = world.cli("workflow", "list")
    assert listed.returncode == 0
    assert [line.split()[0::2] for line in listed.stdout.splitlines()] == [
        ["fix", "built-in"],
        ["loop", "built-in"],
        ["rpi", "built-in"],
    ]
    shown = world.cli("workflow", "show", "rpi").stdout
    for part in (
        "Research (research) → research.md  you review it",
        "Plan (plan) → plan.md  you review it",
        "result.md  in chunks",
    ):
        assert part in shown
    assert world.cli("workflow", "check").returncode == 0


def test_the_projects_definition_wins_over_the_users_and_that_over_the_built_in(world: World) -> None:
    define(users(world), "rpi", "The users", PHASE.format("u"))
    define(users(world), "mine", "Only mine", PHASE.format("m"))
    assert "The users" in world.cli("workflow", "list").stdout
    define(projects(world), "rpi", "The projects", PHASE.format("p"))
    listed = world.cli("workflow", "list").stdout
    assert "The projects" in listed
    assert "The users" not in listed
    assert "Only mine" in listed
    world.script(research("p"))
    world.run("--trust")
    assert "phase p" in world.prompt(1)


def test_references_are_opened(world: World) -> None:
    define(
        projects(world), "outer", "Outer", 'loopable = false\n[[phases]]\nworkflow = "inner"\n' + PHASE.format("last")
    )
    define(projects(world), "inner", "Inner", PHASE.format("deep"))
    shown = world.cli("workflow", "show", "outer").stdout
    assert "not loopable" in shown
    assert shown.index("Inner (inner)") < shown.index("deep (deep)") < shown.index("last (last)")


REFUSED = {
    "itself": '[[phases]]\nworkflow = "itself"\n',
    "missing": '[[phases]]\nworkflow = "nowhere"\n',
    "twice": PHASE.format("a") * 2,
    "outside": '[[phases]]\nid = "a"\nname = "a"\nbrief_file = "../../../../secret"\n',
    "notoml": "this is no TOML",
    "empty": "",
    "unknown-field": PHASE.format("a") + 'run = "rm -rf /"\n',
}


def test_refused_definitions_are_named_and_the_others_load(world: World) -> None:
    (world.project / "secret").write_text("secret\n")
    for key, body in REFUSED.items():
        define(projects(world), key, key, body)
    define(projects(world), "leans", "Leans on a bad one", '[[phases]]\nworkflow = "twice"\n')
    define(projects(world), "good", "Good", PHASE.format("a"))
    listed = world.cli("workflow", "list")
    assert listed.returncode == 0
    checked = world.cli("workflow", "check")
    assert checked.returncode == 1
    for key in (*REFUSED, "leans"):
        assert f"{key}: refused:" in checked.stderr
        assert any(line.startswith(key) and "refused" in line for line in listed.stdout.splitlines())
        refused = world.cli("workflow", "show", key) if key in ("itself", "leans") else None
        assert refused is None or (refused.returncode == 2 and "refused" in refused.stderr)
    assert "4 usable, 8 refused" in checked.stdout
    assert world.cli("workflow", "show", "good").returncode == 0


def test_an_endless_chain_of_references_is_refused_and_the_others_are_listed(world: World) -> None:
    define(projects(world), "w0", "First", PHASE.format("a"))
    for number in range(1, 600):
        define(projects(world), f"w{number}", "Chain", f'[[phases]]\nworkflow = "w{number - 1}"\n')
    listed = world.cli("workflow", "list")
    assert listed.returncode == 0
    assert "built-in" in listed.stdout
    assert "w100                 refused: its references are more than 100 levels deep" in listed.stdout
    assert "more than 100 levels deep" in world.cli("workflow", "show", "w599").stderr
    assert world.cli("workflow", "show", "w99").returncode == 0


@pytest.mark.parametrize("key", ["nowhere", "../x", ""])
def test_a_workflow_that_is_not_there_is_refused_before_anything_is_made(world: World, key: str) -> None:
    assert world.cli("workflow", "show", "--", key).returncode == 2
    ran = world.run("--workflow", key)
    assert ran.returncode == 2
    assert "workflow list" in ran.stderr
    assert sorted(path.name for path in world.task.iterdir()) == ["instructions.md"]


def test_new_makes_a_workflow_that_passes_check_and_replaces_nothing(world: World) -> None:
    made = world.cli("workflow", "new", "fixes")
    assert made.returncode == 0
    assert ".marathon/workflows/fixes/workflow.toml" in made.stdout
    assert world.cli("workflow", "check").returncode == 0
    assert "Research (research) → research.md  you review it" in world.cli("workflow", "show", "fixes").stdout
    assert "is there already" in world.cli("workflow", "new", "fixes").stderr
    assert "cannot be called '../up'" in world.cli("workflow", "new", "../up").stderr


def test_a_hidden_workflow_is_only_for_others(world: World) -> None:
    define(projects(world), "inner", "Inner", 'show = "workflows"\n' + PHASE.format("deep"))
    define(projects(world), "outer", "Outer", '[[phases]]\nworkflow = "inner"\n')
    listed = world.cli("workflow", "list").stdout
    assert "outer" in listed
    assert "inner" not in listed
    assert "only for use inside of others" in world.run("--workflow", "inner").stderr
    world.script(research("deep"))
    world.run("--workflow", "outer", "--trust")
    assert "phase deep" in world.prompt(1)


def test_a_shared_brief_with_variables_and_no_way_out(world: World) -> None:
    shared = projects(world) / "workflows" / "_shared"
    shared.mkdir(parents=True)
    (shared / "b.md").write_text('Write {output} after {previous}, before {next}: {{task}} {"a": {"b": 1}}\n')
    body = PHASE.format("one") + PHASE.format("two").replace('brief = "Do it."', 'brief_file = "_shared/b.md"')
    define(projects(world), "w", "W", body + 'output = "o.md"\n' + PHASE.format("three"))
    world.script({"state": {"state": "paused", "phase": "one"}}, {"state": {"state": "running", "phase": "two"}})
    world.run("--workflow", "w", "--trust", "--max-iterations", "2")
    assert 'Write task/o.md after one, before three: {task} {"a": {"b": 1}}' in world.prompt(2)
    assert "All steps: one → **two (now)** → three" in world.prompt(2)
    (shared / "b.md").write_text("{nothing}")
    refused = world.cli("workflow", "check").stderr
    assert "there is no variable {nothing}, only task, run" in refused
    (shared / "b.md").unlink()
    (shared / "b.md").symlink_to(world.home / "secret")
    assert "lies outside" in world.cli("workflow", "check").stderr


def test_the_agent_may_loop_so_often_and_then_a_human_is_asked(world: World) -> None:
    judge = PHASE.format("judge") + 'output = "o.md"\nmay_loop = 2\n'
    define(projects(world), "w", "W", PHASE.format("work") + judge)
    again = {"state": "paused", "phase": "judge", "loop": True, "note": "not good yet"}
    worked: Entry = {"write": {"n.md": "{n}\n"}, "state": {"state": "paused", "phase": "work"}}
    judged: Entry = {"write": {"o.md": "{n}\n"}, "state": again}
    world.script(worked, judged, worked, judged, worked, judged, worked, judged)
    ran = world.run("--workflow", "w", "--trust")
    assert ran.returncode == 3
    assert world.sessions() == 6
    assert "> judge found that this workflow has to be gone through again: not good yet" in world.prompt(3)
    assert '"loop": true' in world.prompt(2)
    assert "The agent wants to start this workflow again, after 2 of 2 times." in ran.stdout
    assert "redo task --loop" in ran.stdout


def test_every_field_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "workflows.md").read_text()
    for field in (*fields(Phase), *fields(Workflow)):
        assert f"`{field.name}`" in text or field.name == "key"
