"""Money, tokens, time and sessions: what a task may use, warned of in time, and how it goes on with more."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from marathon.core.budgets import Limits, Used
from marathon.core.life import Life
from marathon.core.records import LimitSet, Record
from marathon.runner.marathon import Budget
from marathon.runner.opening import allow
from tests.process.driver import until
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


@pytest.mark.parametrize(("used", "allowed"), [(0.5, 3), (5, 7)])
def test_more_comes_on_top_of_what_is_allowed_and_of_what_was_used_beyond_that(used: float, allowed: float) -> None:
    recorded: list[Record] = []
    agent = SimpleNamespace(name="pi", tells_cost=True, tells_tokens=True)
    options = SimpleNamespace(limits=Limits(max_cost=1), ignored=(), typed=(Budget("max_cost", 2, added=True),))
    marathon: Any = SimpleNamespace(
        options=options, agent=agent, life=Life(used=Used(cost=used)), record=recorded.append
    )
    allow(marathon)
    assert recorded == [LimitSet(name="max_cost", value=allowed, added=True)]


def test_more_is_added_to_what_was_used(world: World) -> None:
    world.script(MORE)
    stopped = world.run("--max-iterations", "2")
    assert "pi-marathon --max-iterations +10 --task task\n" in stopped.stdout
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
    assert ran.stdout.count("4 of 5 sessions (--max-iterations) are used.") == 1
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
        "2 of 2 sessions",
        "$7.50 allowed, none reported",
    ]
    assert "$7.50 allowed, none reported" in world.cli("status", "task").stdout


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
    assert ran.stdout.count("Until it does, --max-cost has no effect") == 1
    assert "$0.00" not in ran.stdout


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
    world.script({**MORE, "run": "sleep 1.6"})
    assert world.run("--max-iterations", "2", "--max-time", "4s").returncode == 4
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


# Inside a session


def used(**what: Any) -> str:
    return json.dumps({"marathon_usage": what})


def test_a_program_reports_on_its_output_what_it_uses(world: World) -> None:
    world.script(research(say=["one", used(cost=0.25, input=1000, output=200, model="m"), used(cost=0.5), "two"]))
    ran = world.run("--max-cost", "5")
    assert "marathon_usage" not in ran.stdout
    assert "  one\n  two\n" in ran.stdout
    assert "2 turns │ 1.2k tok │ $0.75" in ran.stdout
    status = json.loads(world.cli("status", "task", "--json").stdout)
    assert status["usage"]["cost"] == 0.75
    assert status["budget"] == ["$0.75 of $5.00"]
    assert (
        "$0.75, 1.2k tokens (1.0k in, 200 out, 0 cached), 2 turns, 0 tool calls, m\n"
        in world.cli("status", "task").stdout
    )
    # It has reported once, so there is nothing to warn of any more.
    assert "Until it does" in ran.stdout
    assert "Until it does" not in world.run().stdout


def test_a_program_reports_in_a_file_what_it_uses(world: World) -> None:
    world.script(research(run=f"echo '{used(cost=0.25)}' >> \"$MARATHON_USAGE_FILE\""))
    world.run()
    assert [record["usage"]["cost"] for record in world.records("session_ended")] == [0.25]


def test_a_report_that_makes_no_sense_is_ignored_and_said_once(world: World) -> None:
    nonsense = [used(cost=-1), used(cost=float("nan")), used(cost=1e300), used(input="many"), used(costs=1)]
    world.script(research(say=[*nonsense, '{"marathon_usage"', used(cost=0.5)]))
    ran = world.run()
    assert ran.stdout.count("Ignored a marathon_usage line") == 1
    assert "cost: it is less than 0" in ran.stdout
    assert [record["usage"]["cost"] for record in world.records("session_ended")] == [0.5]


def test_money_runs_out_in_the_middle_of_a_session(world: World) -> None:
    world.script({**MORE, "run": reported_while_it_holds(world, used(cost=0.85), used(cost=0.2)), "hold": True})
    ran = world.run("--max-cost", "1", timeout=20)
    assert ran.returncode == 4
    assert "The limit of $1.00 (--max-cost) is reached ($1.05 used)." in ran.stdout
    assert ran.stdout.count("$0.85 of $1.00 (--max-cost) are used.") == 1
    [ended] = world.records("session_ended")
    assert (ended["ending"], ended["cause"], ended["warned"]) == ("limit", "--max-cost is used up", ["max_cost"])
    assert world.read("notes.md") == "1\n"
    world.script(MORE, research())
    assert world.run("--max-cost", "+1").returncode == 3
    assert "was cut off" in world.prompt(2)


def test_what_was_warned_of_inside_a_session_is_not_warned_of_again(world: World) -> None:
    world.script({**MORE, "say": [used(cost=0.85)]}, MORE, research())
    ran = world.run("--max-cost", "1")
    assert ran.returncode == 3
    assert ran.stdout.count("$0.85 of $1.00 (--max-cost) are used.") == 1


def test_time_runs_out_in_the_middle_of_a_session(world: World) -> None:
    world.script({**MORE, "hold": True})
    ran = world.run("--max-time", "1s", timeout=20)
    assert ran.returncode == 4
    assert "(--max-time) is reached" in ran.stdout
    [ended] = world.records("session_ended")
    assert (ended["ending"], ended["seconds"] < 5) == ("limit", True)


def test_completion_is_judged_before_a_budget_that_ran_out(world: World) -> None:
    world.script(research(run=reported_while_it_holds(world, used(cost=2)), hold=True))
    assert world.run("--max-cost", "1", timeout=20).returncode == 3
    assert [record["ending"] for record in world.records("session_ended")] == ["limit"]
    assert [record["reason"] for record in world.records("gate_opened")] == ["review"]


def reported_while_it_holds(world: World, *lines: str) -> str:
    """A command that reports once everything else of the session is done."""
    told = "; ".join(f"echo '{line}'" for line in lines)
    wait = f"while ! test -e '{world.agent}/holding-1'; do sleep 0.02; done"
    return f'({wait}; {told}) >> "$MARATHON_USAGE_FILE" &'


def test_a_killed_runner_leaves_what_was_used_and_status_tells_it_before(world: World) -> None:
    world.script({**MORE, "say": [used(cost=0.7, input=10), "working on it"], "hold": True})
    runner = world.start("--max-cost", "1")
    try:
        until(lambda: world.holding(1), "the session works")
        until(lambda: "$0.70" in world.cli("status", "task").stdout, "its usage is logged")
        status = world.cli("status", "task").stdout
    finally:
        runner.kill()
        runner.communicate()
    assert re.search(r"Now: +session 1 \(research\) for \d+s, \$0.70, 10 tokens\n", status)
    assert re.search(r"Said: +working on it\n", status)
    assert re.search(r"Budget: +\$0.70 of \$1.00\n", status)
    world.script({**MORE, "say": [used(cost=0.4)]})
    assert world.run().returncode == 4
    assert [record["usage"]["cost"] for record in world.records("session_ended")] == [0.7, 0.4]
    assert "($1.10 used)" in world.records("gate_opened")[-1]["message"]
