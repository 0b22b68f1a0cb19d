"""An agent that fails: tried again with growing waits, each attempt recorded and shown, then a gate with the cause."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.process.driver import Pty
from tests.support.world import Entry, World, research

CRASH: Entry = {"append": {"notes.md": "{n}\n"}, "say": ["it broke"], "exit": 7}


def test_a_crash_is_recorded_with_its_message_and_nothing_is_started_behind_the_humans_back(world: World) -> None:
    world.script(CRASH)
    ran = world.run("--retries", "0")
    assert ran.returncode == 1
    assert world.sessions() == 1
    facts = json.loads((world.task / ".marathon/runs/001/iterations/001.json").read_text())
    assert facts["ending"] == "crashed"
    assert facts["cause"] == "exit code 7: it broke"
    assert "exit code 7: it broke" in ran.stdout
    assert "pi-marathon approve task" in ran.stdout
    assert "exit code 7" in world.cli("status", "task").stdout
    again = world.run("--retries", "0")
    assert again.returncode == 1
    assert world.sessions() == 1


def test_after_approval_a_failed_session_is_tried_again(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(CRASH, research())
    world.run("--retries", "0")
    terminal = on_terminal()
    assert "[Enter]  Continue with research" in terminal.expect(b"[q]      Quit marathon").decode()
    terminal.send(b"\r")
    terminal.expect(b"Review the output: task/research.md")
    assert world.sessions() == 2


def test_retries_wait_longer_each_time_and_are_shown(world: World) -> None:
    world.script(CRASH)
    ran = world.run("--retries", "2", "--retry-wait", "0.2s")
    assert ran.returncode == 1
    assert world.sessions() == 3
    waits = [record["seconds"] for record in world.records("wait_started")]
    assert waits == [0.2, 0.4]
    assert ran.stdout.count("trying again") == 2
    assert "failed 3 times in a row" in ran.stdout
    printed = "task/.marathon/runs/001/events/003.jsonl"
    assert f"Everything it printed: {printed}\n" in ran.stdout
    assert "it broke" in (world.project / printed).read_text()
    assert world.read("notes.md") == "1\n2\n3\n"


def test_of_an_agent_that_had_the_terminal_no_log_is_promised(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(CRASH)
    terminal = on_terminal("--retries", "0", "--mode", "tui")
    shown = terminal.expect(b"[q]      Quit marathon")
    assert b"The agent failed: exit code 7" in shown
    assert b"Everything it printed" not in shown


def test_a_good_session_between_makes_the_count_start_anew(world: World) -> None:
    good: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
    world.script(CRASH, good, CRASH, research())
    assert world.run("--retries", "1", "--retry-wait", "0").returncode == 3
    assert world.sessions() == 4


def test_a_crash_after_the_work_was_done_repeats_nothing(world: World) -> None:
    world.script(research(exit=1))
    ran = world.run()
    assert ran.returncode == 3
    assert world.sessions() == 1
    assert world.records("gate_opened")[0]["reason"] == "review"


def test_what_was_owed_to_a_crashed_session_is_given_to_the_next(world: World) -> None:
    world.script(CRASH, research())
    world.cli("tell", "task", "use tabs")
    (world.task / "human.md").write_text("mind the tests\n")
    assert world.run("--retry-wait", "0").returncode == 3
    for number in (1, 2):
        assert "use tabs" in world.prompt(number)
        assert "mind the tests" in world.prompt(number)


def test_a_program_that_is_gone_is_a_gate_at_once(world: World) -> None:
    program = world.agent / "program"
    program.write_text('#!/bin/sh\nrm "$0"\n')
    program.chmod(0o755)
    ended = world.cli("--task", "task", "--agent", "command", "--", str(program))
    assert ended.returncode == 1, ended.stdout
    assert [each["ending"] for each in world.records("session_ended")] == ["ended", "crashed"]
    assert f"Could not start '{program}': No such file" in world.records("gate_opened")[-1]["message"]
