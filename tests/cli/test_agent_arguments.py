"""Everything after -- belongs to the agent, letter by letter; nothing of a human's words is seen in ps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.world import World

ECHO = """
import json, os, pathlib, sys
task = pathlib.Path(os.environ["MARATHON_TASK_DIR"])
(task / "argv.json").write_text(json.dumps(sys.argv[1:]))
(task / "research.md").write_text(sys.stdin.read())
told = [os.environ["MARATHON_" + name] for name in sys.argv[1:] if name.isupper()]
(task / "where.json").write_text(json.dumps([os.getcwd(), *told]))
(task / "STATE.json").write_text('{"state": "paused", "phase": "research", "iteration": 1}')
"""


def command(world: World, *args: str) -> list[str]:
    program = world.agent / "my agent.py"
    program.write_text(ECHO)
    return ["--task", "task", "--agent", "command", "--", world.argv()[0], str(program), *args]


@pytest.mark.parametrize(
    "args",
    [
        ["two words", "", " "],
        ["it's", '"quoted"', "a\\b", "$(touch pwned)", "`x`", "*", "~"],
        ["--help", "-h", "--task", "--", "-", "--version"],
        ["status", "new\nline", "größer"],
    ],
    ids=["spaces", "quotes", "dashes", "words"],
)
def test_arguments_arrive_as_they_were_typed(world: World, args: list[str]) -> None:
    assert world.cli(*command(world, *args)).returncode == 3
    assert json.loads(world.read("argv.json")) == args
    assert not (world.project / "pwned").exists()


def test_the_agent_gets_the_prompt_on_stdin_and_the_environment_of_the_contract(world: World) -> None:
    names = ["RUNNER_ID", "TASK_DIR", "PHASE", "ITERATION", "RUN"]
    assert world.cli(*command(world, *names)).returncode == 3
    where, runner, *rest = json.loads(world.read("where.json"))
    assert Path(where) == world.project
    assert runner.startswith("m-")
    assert rest == [str(world.task), "research", "1", "1"]
    assert world.read("research.md").startswith("# Marathon: phase research (run 1, iteration 1)")


@pytest.mark.parametrize(
    ("args", "code"),
    [(["--"], 2), ([], 2), (["--", "no-such-program"], 1), (["--", "./task"], 1)],
    ids=["nothing after --", "no --", "not there", "a directory"],
)
def test_a_program_that_cannot_be_started_is_said_before_anything_is_made(
    world: World, args: list[str], code: int
) -> None:
    ran = world.cli("--task", "task", "--agent", "command", *args)
    assert ran.returncode == code
    assert ran.stderr.startswith("pi-marathon: ")
    assert sorted(path.name for path in world.task.iterdir()) == ["instructions.md"]
