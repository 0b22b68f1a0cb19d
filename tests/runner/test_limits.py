"""What a human allows: sessions, working time, time for one session. A limit is a gate, never a lost session."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import Entry, World, finish, research

MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}


def test_two_iterations_are_exactly_two_records_and_the_totals_their_sums(world: World) -> None:
    world.script(MORE)
    ran = world.run("--max-iterations", "2")
    assert ran.returncode == 4
    assert "--max-iterations" in ran.stdout
    folder = world.task / ".marathon/runs/001/iterations"
    assert sorted(path.name for path in folder.iterdir()) == ["001.json", "002.json"]
    facts = [json.loads(path.read_text()) for path in sorted(folder.iterdir())]
    status = json.loads(world.cli("status", "task", "--json").stdout)
    assert status["seconds"] == pytest.approx(sum(each["seconds"] for each in facts))
    assert [each["iteration"] for each in status["sessions"]] == [1, 2]
    assert status["condition"] == "gate"


def test_a_larger_limit_dissolves_the_gate(world: World) -> None:
    world.script(MORE, MORE, MORE, research())
    assert world.run("--max-iterations", "2").returncode == 4
    again = world.run("--max-iterations", "2")
    assert again.returncode == 4
    assert world.sessions() == 2
    assert world.run("--max-iterations", "3").returncode == 4
    assert world.sessions() == 3
    ran = world.run("--max-iterations", "0")
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 4" in ran.stdout


def test_approving_a_limit_allows_as_much_again(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(MORE)
    assert world.run("--max-iterations", "2").returncode == 4
    world.cli("approve", "task")
    assert world.run("--max-iterations", "2").returncode == 4
    assert world.sessions() == 4
    terminal = on_terminal("--max-iterations", "2")
    assert b"[Enter]  Continue and allow the same amount again" in terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"\r")
    terminal.expect(b"Iteration: 6")
    assert world.sessions() == 6


def test_a_note_sent_to_a_limit_gate_is_kept_where_a_larger_limit_would_do(world: World) -> None:
    world.script(MORE, research())
    assert world.run("--max-iterations", "1").returncode == 4
    world.cli("approve", "task", "-m", "mind the tests")
    assert world.run("--max-iterations", "9").returncode == 3
    assert world.prompt(2).count("mind the tests") == 1
    assert world.read("human.md").endswith("mind the tests\n")


def test_a_limit_forgets_neither_what_was_found_wrong_nor_a_wait(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(write={"a.md": "no research"}), {**MORE, "wait": [5, "CI"]})
    assert world.run("--max-iterations", "1").returncode == 4
    assert world.run("--max-iterations", "2").returncode == 4
    assert "research.md is missing" in world.prompt(2)
    on_terminal("--max-iterations", "3").expect(b"waiting: CI")
    assert world.sessions() == 2


def test_completion_on_the_last_allowed_session_is_completion(world: World) -> None:
    world.leave_state("running", "implement", 1)
    world.script(finish())
    assert world.run("--max-iterations", "1").returncode == 0


def test_working_time_is_limited(world: World) -> None:
    world.script({**MORE, "run": "sleep 1.1"})
    ran = world.run("--max-time", "1s")
    assert ran.returncode == 4
    assert "--max-time" in ran.stdout
    assert world.sessions() == 1
    world.script(research())
    assert world.run("--max-time", "1h").returncode == 3
    assert world.sessions() == 2


def test_a_session_that_takes_too_long_is_ended_and_tried_again_and_then_a_gate(world: World) -> None:
    world.script({**MORE, "hold": True})
    ran = world.run("--session-timeout", "1s", "--retries", "1", "--retry-wait", "0")
    assert ran.returncode == 1
    assert world.sessions() == 2
    assert "timed out" in ran.stdout
    assert [record["ending"] for record in world.records("session_ended")] == ["timeout", "timeout"]
    assert world.read("notes.md") == "1\n2\n"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-iterations", "-1"),
        ("--max-iterations", "many"),
        ("--retries", "-1"),
        ("--max-time", "-5m"),
        ("--max-time", "soon"),
        ("--session-timeout", "1 week"),
        ("--retry-wait", ""),
    ],
)
def test_limits_that_make_no_sense_are_refused_before_anything_happens(world: World, option: str, value: str) -> None:
    ran = world.run(f"{option}={value}")
    assert ran.returncode == 2
    assert option in ran.stderr
    assert sorted(path.name for path in world.task.iterdir()) == ["instructions.md"]
