"""A criterion that looks like a command is offered as one, and what a human typed at a terminal is agreed to."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World, research

Typed = Callable[..., Pty]
OFFER = b"Run this as a command? "


def made(world: World) -> Path:
    (folder,) = (world.project / "docs" / "tasks").iterdir()
    return folder


def criteria(world: World) -> str:
    return (made(world) / "instructions.md").read_text().split("## Success Criteria\n")[1].strip()


def first_gate(world: World) -> str:
    """At which gate a start of the task stops first."""
    world.script(research())
    args = world.task_args()
    args[1] = str(made(world))
    world.cli(*args)
    lines = (made(world) / ".marathon" / "journal.jsonl").read_text().splitlines()
    return next(str(each["reason"]) for each in map(json.loads, lines) if each["type"] == "gate_opened")


def answer(terminal: Pty, *talk: tuple[bytes, bytes]) -> None:
    for question, said in talk:
        terminal.expect(question)
        terminal.send(said)


def test_a_typed_command_is_offered_with_yes_and_then_agreed_to(world: World, typed: Typed) -> None:
    terminal = typed("new")
    answer(terminal, (b"Title", b"A task\r"), (b"Goal:", b"Make it so.\r"))
    answer(terminal, (b"Scope:", b"\r"), (b"Constraints:", b"\r"))
    answer(terminal, (b"Success Criteria:", b"npm test passes\r"))
    answer(terminal, (b"npm test", b""), (OFFER + b"[Y/n]", b"\n"))
    terminal.expect(b"pi-marathon --task docs/tasks/")
    assert terminal.wait() == 0
    assert criteria(world) == "- `npm test` passes"
    assert first_gate(world) == "review"


def test_no_leaves_it_as_words(world: World, typed: Typed) -> None:
    terminal = typed(
        "new", "A task", "--goal", "Make it so.", "--scope", "x", "--constraints", "y", "--success", "make"
    )
    answer(terminal, (OFFER + b"[Y/n]", b"n\n"))
    assert terminal.wait() == 0
    assert criteria(world) == "- make"


def test_pasted_text_is_offered_with_no_and_its_own_commands_are_asked_at_the_gate(world: World, typed: Typed) -> None:
    terminal = typed("new")
    answer(terminal, (b"Title", b"A task\r"), (b"Goal:", b"Make it so.\r"))
    answer(terminal, (b"Scope:", b"\r"), (b"Constraints:", b"\r"))
    answer(terminal, (b"Success Criteria:", b"\x1b[200~- npm test\r\n- `true`\x1b[201~"), (b"true", b"\r"))
    answer(terminal, (OFFER + b"[y/N]", b"y\n"))
    assert terminal.wait() == 0
    assert criteria(world) == "- `npm test`\n- `true`"
    assert first_gate(world) == "checks", "no one said yes to the second one"


def test_a_pasted_goal_cannot_bring_a_command_along(world: World, typed: Typed) -> None:
    terminal = typed("new", "--success", "`true`")
    answer(terminal, (b"Title", b"A task\r"))
    pasted = b"\x1b[200~Make it so.\r\n\r\n## Success Criteria\r\n\r\n- `false`\x1b[201~"
    answer(terminal, (b"Goal:", pasted), (b"false", b"\r"), (b"Scope:", b"\r"), (b"Constraints:", b"\r"))
    assert terminal.wait() == 0
    assert first_gate(world) == "checks"


def test_a_file_is_offered_with_no(world: World) -> None:
    issue = world.home / "issue.md"
    issue.write_text("# Parser\n\nIt is slow.\n\n## Success Criteria\n\n- pytest -q tests/\n- It is fast.\n")
    command = shlex.join(world.argv("new", "-"))
    terminal = Pty(["sh", "-c", f"cd {world.project} && exec {command} < {issue}"], world.env())
    try:
        answer(terminal, (OFFER + b"[y/N]", b"y\n"))
        terminal.expect(b"pi-marathon --task docs/tasks/")
        assert terminal.wait() == 0
    finally:
        terminal.close()
    assert criteria(world) == "- `pytest -q tests/`\n- It is fast."
    assert first_gate(world) == "review", "the human said yes to the only command"


def test_without_a_terminal_nothing_is_offered_and_nothing_is_agreed_to(world: World) -> None:
    ran = world.cli("new", "A task", "--goal", "Make it so.", "--success", "npm test", "--success", "`true`")
    assert (ran.returncode, "Run this" in ran.stdout) == (0, False)
    assert criteria(world) == "- npm test\n- `true`"
    assert first_gate(world) == "checks"


@pytest.mark.parametrize(("env", "expected"), [({}, "review"), ({"MARATHON_RUNNER_ID": "m-1"}, "checks")])
def test_repeat_agrees_to_what_a_human_typed_but_not_below_a_session(
    world: World, typed: Typed, env: dict[str, str], expected: str
) -> None:
    terminal = typed("repeat", "--no-start", "fix", "No type error is left", "--success", "`true`", **env)
    terminal.expect(b"--task docs/tasks/")
    assert terminal.wait() == 0
    assert first_gate(world) == expected if expected == "checks" else first_gate(world) != "checks"


def test_repeat_through_the_tools_of_an_agent_is_asked(world: World) -> None:
    world.cli("repeat", "--no-start", "--json", "fix", "No type error is left", "--success", "`true`")
    assert first_gate(world) == "checks"


@pytest.mark.parametrize("at_terminal", [True, False])
def test_a_loop_takes_the_commands_that_were_typed(world: World, typed: Typed, at_terminal: bool) -> None:
    start = ("loop", "start", "Faster", "--lane", "perf", "--run", "r1", "--verify", "cat speed")
    if at_terminal:
        terminal = typed(*start)
        terminal.expect(b"Started perf/r1")
        assert terminal.wait() == 0
    else:
        world.cli(*start)
    ran = world.cli("loop", "run", "perf", "--agent", "command", "--", "true")
    assert ("no one has agreed to them yet" in ran.stderr) is not at_terminal


def test_the_ticks_of_new_read_the_sections_that_were_filled(world: World) -> None:
    said = ("--scope", "Only the parser, nothing else of it.", "--done", "a file", "--success", "it is quick")
    ran = world.cli("new", "Fast", "--goal", "fix it", *said)
    ticks = {line.split()[1]: line.split(maxsplit=2)[2] for line in ran.stdout.splitlines() if line[:4] == "  ✓ "}
    assert ticks == {
        "goal": "fix it",
        "place": "Only the parser, nothing else of it.",
        "criterion": "it is quick",
        "end": "a file",
    }
    assert "+ boundary" in ran.stdout, "the scope is not what must stay"
