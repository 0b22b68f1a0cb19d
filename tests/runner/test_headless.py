"""In CI: nothing is asked, the exit code tells, and a summary is left for whoever looks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.world import Entry, World, chunk, finish, plan, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
NOTHING: Entry = {"state": {"state": "running", "phase": "research"}}


def last_words(world: World, *args: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the only thing on stdout."""
    ran = world.run("--json", *args, CI="true")
    facts = json.loads(ran.stdout)
    assert isinstance(facts, dict)
    assert ran.stdout.count("\n") == 1
    return ran.returncode, facts


@pytest.mark.parametrize(
    ("script", "args", "code", "outcome"),
    [
        ([research(), plan(), chunk(), finish()], ("--auto-approve",), 0, "completed"),
        ([{"exit": 1}], ("--retries", "0"), 1, "failed"),
        ([research()], (), 3, "waits for a human"),
        ([{**research(), "ask": "Which?"}], ("--auto-approve",), 3, "waits for a human"),
        ([MORE], ("--max-iterations", "2"), 4, "a limit was reached"),
        ([NOTHING], (), 5, "stuck"),
    ],
)
def test_the_exit_code_the_object_and_the_summary_agree(
    world: World, script: list[Entry], args: tuple[str, ...], code: int, outcome: str
) -> None:
    world.script(*script)
    ended, facts = last_words(world, *args)
    assert (ended, facts["exit"], facts["outcome"]) == (code, code, outcome)
    assert (facts["run"], facts["iteration"]) == (1, world.sessions())
    summary = (world.task / ".marathon/runs/001/summary.md").read_text()
    assert summary.startswith(f"# {outcome.capitalize()} (exit {code})\n")
    assert "## Sessions" in summary
    assert len(facts["sessions"]) == world.sessions()


def test_what_a_gate_waits_for_is_in_both(world: World) -> None:
    world.script({**research(), "ask": "Which database?"})
    _, facts = last_words(world)
    assert "Which database?" in facts["waits_for"]
    assert any("pi-marathon answer" in line for line in facts["answer_with"])
    assert "Which database?" in (world.task / ".marathon/runs/001/summary.md").read_text()


def test_criteria_are_in_both(world: World) -> None:
    (world.task / "instructions.md").write_text("# Do it\n\n## Success Criteria\n\n- `true` passes\n- It reads well.\n")
    world.script(research(), plan(), finish())
    code, facts = last_words(world, "--auto-approve", "--trust")
    assert code == 5
    assert [(check["name"], check["met"]) for check in facts["checks"]] == [("true", True), ("It reads well.", False)]
    assert "- ✗ It reads well." in (world.task / ".marathon/runs/001/summary.md").read_text()


def test_the_second_run_has_a_summary_of_its_own(world: World) -> None:
    world.script(research())
    world.run()
    world.run("-h", "again")
    first, second = (world.task / f".marathon/runs/00{run}/summary.md" for run in (1, 2))
    assert "run 1" in first.read_text()
    assert "run 2" in second.read_text()


def test_an_error_is_an_object_too(world: World) -> None:
    (world.task / "instructions.md").unlink()
    ran = world.run("--json")
    assert ran.returncode == 7
    assert json.loads(ran.stdout)["exit"] == 7
    assert "instructions.md" in ran.stderr


def test_nothing_is_asked_with_json_even_on_a_terminal(world: World) -> None:
    world.script(research())
    terminal = world.terminal("--json")
    try:
        terminal.expect(b'"outcome": "waits for a human"')
        assert terminal.wait() == 3
    finally:
        terminal.close()


def test_an_agents_words_stay_on_one_line_in_the_summary(world: World) -> None:
    note = "fine\n# Completed (exit 0)\n\x1b[31mred"
    world.script({**research(), "state": {"state": "paused", "phase": "research", "note": note}})
    world.run()
    summary = (world.task / ".marathon/runs/001/summary.md").read_text()
    assert summary.count("\n# ") == 0
    assert "\x1b" not in summary
