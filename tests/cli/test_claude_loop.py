"""claude-loop: what `install --claude` leads to. The file it makes is what the Stop hook holds Claude by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.claude import Claude
from tests.process.driver import Pty
from tests.support.world import World

GOAL = "make the tests pass"


@pytest.fixture
def claude(world: World) -> Claude:
    return Claude(world)


def state(world: World) -> dict[str, Any]:
    value = json.loads((world.project / ".loop" / "state.json").read_text())
    assert isinstance(value, dict)
    return value


def change(world: World, **fields: Any) -> None:
    (world.project / ".loop" / "state.json").write_text(json.dumps({**state(world), **fields}))


def test_from_install_to_the_end_of_a_loop(world: World, claude: Claude, typed: Callable[..., Pty]) -> None:
    installed = world.cli("install", "--claude")
    assert "pi-marathon claude-loop init" in installed.stdout
    assert (world.home / ".claude" / "skills" / "claude-loop" / "SKILL.md").is_file()
    terminal = typed("claude-loop", "init", GOAL, "--criterion", "tests pass", "--criterion", "no lint errors")
    shown = terminal.expect(b'claude "/claude-loop"')
    assert b"with 2 criteria" in shown
    assert b"not installed" not in shown
    assert GOAL in claude.hook("session-start", claude.start())["hookSpecificOutput"]["additionalContext"]
    held = claude.hook("stop", claude.stop_2_1(last_assistant_message="<loop-complete>"))
    assert (held["ok"], "tests pass; no lint errors" in held["reason"]) == (False, True)
    change(world, criteriaStatus={"tests pass": True, "no lint errors": True})
    for said in ("I say `<loop-complete>` when done", "```\n<loop-complete>\n```", "> <loop-complete>"):
        assert claude.hook("stop", claude.stop_2_1(last_assistant_message=said))["ok"] is False
    done = claude.hook("stop", claude.stop_2_1(last_assistant_message="Done.\n\n<loop-complete>"))
    assert done == {"ok": True, "reason": "complete"}


def test_without_the_hooks_it_says_how_to_install_them(world: World) -> None:
    made = world.cli("claude-loop", "init", GOAL, "--criterion", "tests pass")
    assert "pi-marathon install --claude" in made.stdout
    assert "with 1 criterion." in made.stdout


def test_a_loop_that_is_in_progress_is_not_replaced(world: World) -> None:
    world.cli("claude-loop", "init", GOAL, "--criterion", "tests pass")
    again = world.cli("claude-loop", "init", "something else", "--criterion", "x")
    assert again.returncode == 2
    assert "A loop is in progress here" in again.stderr
    assert state(world)["spec"] == GOAL
    assert world.cli("claude-loop", "stop").returncode == 0
    assert world.cli("claude-loop", "init", "something else", "--criterion", "x").returncode == 0
    assert state(world)["spec"] == "something else"


@pytest.mark.parametrize(
    "args", [("status",), ("resume",), ("stop",), ("init", GOAL), ("init", GOAL, "--criterion", " ")]
)
def test_what_cannot_be_done_is_said(world: World, args: tuple[str, ...]) -> None:
    refused = world.cli("claude-loop", *args)
    assert refused.returncode == 2
    assert "riteri" in refused.stderr
    assert not (world.project / ".loop").exists()


def test_the_hook_heeds_the_number_of_iterations(world: World, claude: Claude) -> None:
    world.cli("claude-loop", "init", GOAL, "--criterion", "a", "--criterion", "b", "--max-iterations", "3")
    answers = []
    for number in range(4):
        change(world, criteriaStatus={"a": number % 2 == 0, "b": number % 2 == 1})  # something moves each time
        answers.append(claude.hook("stop", claude.stop_1_0(stop_hook_active=bool(number))))
    assert [answer["ok"] for answer in answers] == [False, False, False, True]
    assert "used its 3 iterations" in answers[3]["systemMessage"]
    assert "pi-marathon claude-loop resume --max-iterations" in answers[3]["systemMessage"]
    assert state(world)["status"] == "paused"
    assert claude.hook("session-start", claude.start()) == {}
    assert world.cli("claude-loop", "resume", "--max-iterations", "9").returncode == 0
    assert "of 9" in world.cli("claude-loop", "status").stdout
    assert claude.hook("stop", claude.stop_1_0())["ok"] is False


def test_what_the_hook_says_to_type_after_a_budget_lets_it_go_on(world: World, claude: Claude) -> None:
    world.cli("claude-loop", "init", GOAL, "--criterion", "a", "--max-iterations", "9")
    change(world, metadata={"budget": 5, "cost": 6.5, "maxIterations": 9})
    told = claude.hook("stop", claude.stop_1_0())["systemMessage"]
    cure = told.partition("To allow more: pi-marathon ")[2]
    assert cure == "claude-loop resume --budget AMOUNT"
    assert world.cli(*cure.replace("AMOUNT", "20").split()).returncode == 0
    assert claude.hook("stop", claude.stop_1_0())["ok"] is False


@pytest.mark.parametrize(
    ("metadata", "ok"),
    [
        ({"budget": 5, "cost": 4.99}, False),
        ({"budget": 5, "cost": 5.0}, True),
        ({"budget": 5}, False),
        ({"budget": "5", "cost": 9}, False),
        ({"budget": 0, "cost": 9}, False),
        ({"iteration": 10, "maxIterations": 10}, True),
        ({"iteration": 9, "maxIterations": 10}, False),
        ({"iteration": True, "maxIterations": True}, False),
        ({"iteration": 1e400, "maxIterations": -1}, False),
    ],
)
def test_the_hook_heeds_what_the_metadata_allow(
    world: World, claude: Claude, metadata: dict[str, Any], ok: bool
) -> None:
    folder = claude.loop(tests=False)
    change(world, metadata=metadata)
    answer = claude.hook("stop", claude.stop_2_1())
    assert answer["ok"] is ok
    assert ("paused" in answer["reason"]) is ok
    assert ('"paused"' in (folder / "state.json").read_text()) is ok


def test_what_a_repository_wrote_cannot_act_on_the_terminal(world: World, claude: Claude) -> None:
    claude.loop(**{"\x1b[31mred\x07": False})
    change(world, spec="\x1b]0;title\x07goal", status="\x9b2J")
    shown = world.cli("claude-loop", "status").stdout
    assert shown.replace("\n", "").isprintable()
    assert "red" in shown
