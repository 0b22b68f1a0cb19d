"""--auto-approve passes reviews, in order, and says that nobody looked; a gate that carries a problem still stops."""

from __future__ import annotations

import json

import pytest

from tests.support.world import Entry, World, chunk, finish, plan, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}


def test_reviews_pass_in_order_and_are_journalled_as_looked_at_by_nobody(world: World) -> None:
    world.script(research(), plan(), chunk(), finish())
    ran = world.run("--auto-approve")
    assert ran.returncode == 0
    assert [record["phase"] for record in world.records("session_started")] == [
        "research",
        "plan",
        "implement",
        "implement",
    ]
    assert [record["by"] for record in world.records("gate_answered")] == ["auto", "auto"]
    assert ran.stdout.count("no one reviewed it") == 2


@pytest.mark.parametrize("jump", [research("implement"), research("done", "completed")], ids=["implement", "done"])
def test_a_skipped_phase_is_simply_run_in_its_order(world: World, jump: Entry) -> None:
    world.script(jump, plan(), finish())
    assert world.run("--auto-approve").returncode == 0
    assert [record["phase"] for record in world.records("session_started")] == ["research", "plan", "implement"]
    assert world.records("gate_opened")[0]["reason"] == "skipped"


PROBLEMS: dict[str, tuple[Entry, list[str], int, str]] = {
    "a question": ({**MORE, "ask": "Which DB?"}, [], 3, "question"),
    "a crash": ({"exit": 1}, ["--retries", "0"], 1, "failed"),
    "a limit": (MORE, ["--max-iterations", "1"], 4, "limit"),
    "stuck": ({"state": {"state": "running", "phase": "research"}}, [], 5, "stuck"),
    "skipped without the output": (research("implement", write={"a.md": "a"}), [], 3, "skipped"),
    "called complete without the output": (research(write={"a.md": "{n}"}), [], 3, "output"),
    "unreadable state": ({"append": {"a.md": "{n}"}, "state": "no"}, [], 3, "invalid"),
}


@pytest.mark.parametrize(("entry", "args", "code", "kind"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_a_problem_still_stops_with_its_code(world: World, entry: Entry, args: list[str], code: int, kind: str) -> None:
    world.script(entry)
    assert world.run("--auto-approve", *args).returncode == code
    assert world.records("gate_opened")[-1]["reason"] == kind
    assert not world.records("gate_answered")


def test_a_proposal_to_go_back_goes_back_twice_and_then_waits_for_a_human(world: World) -> None:
    back: Entry = {
        "append": {"notes.md": "{n}\n"},
        "state": {"state": "running", "phase": "research", "note": "research is wrong"},
    }
    world.script(research(), back, research(), back, research(), back, finish())
    ran = world.run("--auto-approve")
    assert ran.returncode == 3
    assert [record["phase"] for record in world.records("session_started")] == ["research", "plan"] * 3
    answers = [(record["choice"], record["phase"]) for record in world.records("gate_answered")]
    assert answers == [*[("continue", None), ("redo", "research")] * 2, ("continue", None)]
    assert "> research is wrong" in world.prompt(3)
    assert "The agent proposes to go back from plan to research." in ran.stdout
    assert "pi-marathon redo task --phase research" in ran.stdout
    refused = world.cli("approve", "task")
    assert (refused.returncode, "not offered: continue" in refused.stderr) == (2, True)


def test_reviews_that_no_one_made_are_said_to_be_none(world: World) -> None:
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    world.cli("approve", "task")
    ran = world.run("--auto-approve")
    assert ran.returncode == 0
    assert "not reviewed: plan)" in ran.stdout
    said = "research reviewed, plan not reviewed (--auto-approve)"
    assert f"Reviews:   {said}" in world.cli("status", "task").stdout
    assert said in world.read(".marathon/runs/001/summary.md")
    told = json.loads(world.cli("status", "task", "--json").stdout)["reviews"]
    assert [(each["phase"], each["reviewed"]) for each in told] == [("research", True), ("plan", False)]


def test_paused_in_implement_stops(world: World) -> None:
    world.script(research(), plan(), chunk(state={"state": "paused", "phase": "implement", "note": "plan is wrong"}))
    ran = world.run("--auto-approve")
    assert ran.returncode == 3
    assert "plan is wrong" in ran.stdout
