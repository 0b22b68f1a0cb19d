"""workflow list, show, check: the project's definitions win, and those that cannot be used are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import World, research

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
    assert [line.split()[0::2] for line in listed.stdout.splitlines()] == [["rpi", "built-in"]]
    shown = world.cli("workflow", "show", "rpi").stdout
    for part in ("Research (research) → research.md  gate", "Plan (plan) → plan.md  gate", "result.md  in chunks"):
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
    assert "2 usable, 8 refused" in checked.stdout
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
