"""Accept anyway: a human, and no one else, may end a task although a criterion is not met, and everything says so."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.process.driver import Pty
from tests.support.world import World, finish, plan, research

GATE = b"[q]      Quit marathon"


def stuck(world: World) -> None:
    """A task whose agent calls it done while a check fails."""
    (world.task / "instructions.md").write_text(
        "# Do it\n\n## Success Criteria\n\n- Fast: `test -e fast`\n- Runs: `true`\n- It reads well.\n"
    )
    state = {
        "state": "completed",
        "phase": "done",
        "criteriaStatus": {"It reads well.": True},
        "criteriaEvidence": {"It reads well.": "read it twice"},
    }
    world.script(research(), plan(), finish(state=state))
    assert world.run("--auto-approve", "--trust").returncode == 5
    assert not world.records("finished"), "--auto-approve accepts nothing"


def shows_it(world: World, *shown: str) -> None:
    """The three ways to know stand apart, everywhere."""
    summary = world.read(".marathon/runs/001/summary.md")
    for text in (*shown, world.cli("status", "task").stdout, summary):
        assert "✓ you accepted: Fast" in text
        assert "✓ ran: Runs" in text
        assert "○ agent says: It reads well. (evidence: read it twice)" in text
    told = json.loads(world.cli("status", "task", "--json").stdout)["checks"]
    assert [(each["known_by"], each["met"]) for each in told] == [("accepted", False), ("ran", True), ("agent", True)]
    assert world.state()["criteriaStatus"]["Fast"] is False, "accepted is not met"


def test_a_twice_and_a_reason_end_the_task_and_one_a_does_not(world: World, on_terminal: Callable[..., Pty]) -> None:
    stuck(world)
    terminal = on_terminal("--auto-approve")
    shown = terminal.expect(GATE).decode()
    assert "[a]      Accept anyway, although this is not met: Fast (asks once more)" in shown
    terminal.send(b"a")
    terminal.expect(b"Press a again")
    terminal.send(b"x")
    terminal.expect(b"? shows the options")
    assert not [each for each in world.records("gate_answered") if each["choice"] == "accept"]
    terminal.send(b"a")
    terminal.expect(b"Press a again")
    terminal.send(b"a")
    terminal.expect(b"Why is it good enough?")
    terminal.send(b"the benchmark is broken\r")
    shown = terminal.expect(b"The result").decode()
    assert "1 criterion ran, 1 on the agent's word, 1 accepted by you" in shown
    assert terminal.wait() == 0
    assert world.records("finished")[0]["accepted"] == ["Fast"]
    assert world.read("human.md").endswith("the benchmark is broken\n")
    assert (world.state()["state"], world.state()["phase"]) == ("completed", "done")
    shows_it(world)


def test_from_a_shell_it_needs_a_reason_and_a_yes(world: World, typed: Callable[..., Pty]) -> None:
    stuck(world)
    assert 'pi-marathon accept task -m "why"' in world.cli("status", "task").stdout
    assert world.cli("accept", "task").returncode == 2
    refused = world.cli("accept", "task", "-m", "good enough")
    assert refused.returncode == 2
    assert "pi-marathon accept task --yes -m 'good enough'" in refused.stderr
    inside = world.cli("accept", "task", "-m", "x", "--yes", MARATHON_RUNNER_ID="m-1")
    assert (inside.returncode, "for the human" in inside.stderr) == (2, True)
    asked = typed("accept", "task", "-m", "good enough", "--code", world.code())
    asked.expect(b"although this is not met: Fast? [y/N]")
    asked.send(b"y\r")
    asked.expect(b"Accepted.")
    assert asked.wait() == 0
    sessions = world.sessions()
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == sessions
    shows_it(world)


def test_a_gate_that_is_not_about_criteria_does_not_offer_it(world: World) -> None:
    world.script({"state": {"state": "running", "phase": "research"}})
    assert world.run().returncode == 5
    refused = world.cli("accept", "task", "-m", "x", "--yes")
    assert (refused.returncode, "does not offer: accept" in refused.stderr) == (2, True)
