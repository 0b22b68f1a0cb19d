"""Money, tokens, time and sessions: what a task may use, warned of in time, and how it goes on with more."""

from __future__ import annotations

import json

import pytest

from tests.support.world import Entry, World, finish, plan, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}


def limits_of(world: World) -> list[tuple[str, float, bool]]:
    return [(record["name"], record["value"], record["added"]) for record in world.records("limit_set")]


def test_a_limit_that_was_typed_stays_the_tasks_own(world: World) -> None:
    """The command that goes on does not repeat it, and must not run away."""
    world.script(MORE)
    assert world.run("--max-iterations", "2").returncode == 4
    assert world.run().returncode == 4
    assert world.sessions() == 2
    assert limits_of(world) == [("max_iterations", 2, False)]


def test_more_is_added_to_what_was_used(world: World) -> None:
    world.script(MORE)
    stopped = world.run("--max-iterations", "2")
    assert "pi-marathon --max-iterations +10 --task task --agent command --" in stopped.stdout
    assert world.run("--max-iterations", "+3").returncode == 4
    assert world.sessions() == 5
    assert world.run().returncode == 4
    assert world.sessions() == 5
    assert limits_of(world) == [("max_iterations", 2, False), ("max_iterations", 5, True)]


def test_a_go_ahead_at_the_gate_allows_as_much_again_and_no_more(world: World) -> None:
    world.script(MORE)
    world.run("--max-iterations", "2")
    world.run("--max-iterations", "+1")
    assert world.sessions() == 3
    world.cli("approve", "task")
    assert world.run().returncode == 4
    assert world.sessions() == 5


def test_a_new_run_has_the_tasks_budget_without_what_was_added(world: World) -> None:
    world.script(MORE)
    world.run("--max-iterations", "1")
    world.run("--max-iterations", "+1")
    assert world.sessions() == 2
    assert world.run("-h", "again").returncode == 4
    assert world.sessions() == 3


def test_it_is_said_once_when_80_percent_are_used(world: World) -> None:
    world.script(MORE)
    ran = world.run("--max-iterations", "5")
    assert ran.stdout.count("4 sessions of 5 sessions (--max-iterations) are used.") == 1
    assert [record["warned"] for record in world.records("session_started")][-1] == ["max_iterations"]


def test_completion_on_the_last_allowed_session_is_completion(world: World) -> None:
    world.script(research(), plan(), finish())
    assert world.run("--auto-approve", "--max-iterations", "3").returncode == 0


@pytest.mark.parametrize("typed", ["-1", "x", "+", "1.5", "1e3", "٣", "9" * 20])
def test_what_is_no_number_of_sessions_is_refused(world: World, typed: str) -> None:
    ran = world.run(f"--max-iterations={typed}")
    assert ran.returncode == 2
    assert "--max-iterations" in ran.stderr
    assert not (world.task / ".marathon").exists()


@pytest.mark.parametrize("typed", ["-1", "nan", "inf", "ten", "+-5"])
def test_what_is_no_money_is_refused(world: World, typed: str) -> None:
    assert world.run(f"--max-cost={typed}").returncode == 2


def test_status_tells_what_is_used_of_what_was_typed(world: World) -> None:
    world.script(MORE)
    world.run("--max-iterations", "2", "--max-cost", "7.50")
    assert json.loads(world.cli("status", "task", "--json").stdout)["budget"] == [
        "2 sessions of 2 sessions",
        "$0.00 of $7.50",
    ]
    assert "$0.00 of $7.50" in world.cli("status", "task").stdout


def test_a_project_may_set_a_budget(world: World) -> None:
    path = world.project / ".marathon" / "config.toml"
    path.parent.mkdir()
    path.write_text("max_cost = 2\nmax_iterations = 1\n")
    world.script(MORE)
    assert world.run().returncode == 4
    assert world.sessions() == 1


def test_an_agent_that_tells_nothing_of_its_cost_is_said_to(world: World) -> None:
    world.script(MORE)
    ran = world.run("--max-iterations", "1", "--max-cost", "5")
    assert "--max-cost" in ran.stdout
    assert "does not report" in ran.stdout


def test_more_of_one_thing_and_a_limit_of_another_go_together(world: World) -> None:
    world.script(MORE)
    assert world.run("--max-iterations", "2").returncode == 4
    assert world.run("--max-iterations", "+3", "--max-time", "5h").returncode == 4
    assert world.sessions() == 5


def test_more_is_more_than_the_configured_limit(world: World) -> None:
    config = world.home / ".config" / "pi-marathon" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("max_iterations = 2\n")
    world.script(MORE)
    assert world.run().returncode == 4
    assert world.run("--max-iterations", "+3").returncode == 4
    assert world.sessions() == 5


def test_more_means_nothing_outside_of_the_command_line(world: World) -> None:
    ran = world.run(PI_MARATHON_MAX_ITERATIONS="+1")
    assert (ran.returncode, "command line" in ran.stderr) == (2, True)


def test_a_go_ahead_for_sessions_is_none_for_time(world: World) -> None:
    world.script({**MORE, "run": "sleep 0.6"})
    assert world.run("--max-iterations", "2", "--max-time", "2s").returncode == 4
    world.cli("approve", "task")
    assert world.run().returncode == 4
    assert "--max-time" in world.records("gate_opened")[-1]["message"]


def test_more_after_a_go_ahead_comes_on_top_of_it(world: World) -> None:
    world.script(MORE)
    world.run("--max-iterations", "2")
    world.cli("approve", "task")
    assert world.run("--max-iterations", "+5").returncode == 4
    assert world.sessions() == 9


@pytest.mark.parametrize("typed", [("--max-time", "9" * 400 + "h"), ("--max-cost", "1e300")])
def test_more_than_anybody_has_is_refused(world: World, typed: tuple[str, str]) -> None:
    assert world.run(*typed).returncode == 2
    assert not (world.task / ".marathon").exists()
