"""Names that are paths, options, shell words or nonsense: refused or taken literally, nothing created outside."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.faults.sweep import Sweeper
from tests.support.world import World, research

LITERAL = [
    "$(touch pwned)",
    "`touch pwned`",
    "-rf",
    "--help",
    "a b;touch pwned",
    "x\ny",
    "'q\"u",
    "*",
    "~",
    "ü 日本",
    "%s{0}",
]


def everything_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", LITERAL)
def test_a_strange_task_name_is_taken_literally(cli: Sweeper, world: World, name: str) -> None:
    task = world.project / name
    world.task.rename(task)
    world.task = task
    world.script(research())
    agent = world.task_args()[world.task_args().index("--agent") :]
    before = everything_below(world.project.parent)
    assert cli.run(world, "--task", name, *agent) == 3, cli.printed(world)
    assert world.sessions() == 1
    looked = ["status", "--", name] if name.startswith("-") else ["status", name]
    assert cli.run(world, *looked) == 0
    approve = ["approve", "--", name] if name.startswith("-") else ["approve", name]
    assert cli.run(world, *approve) == 0
    created = everything_below(world.project.parent) - before
    outside = {path for path in created if not path.startswith((f"project/{name}/", "states", "agent/", "home/"))}
    assert not outside
    environ = json.loads((world.agent / "env-1").read_text())
    assert environ["MARATHON_TASK_DIR"] == str(task)


def test_the_commands_we_print_for_a_strange_name_can_be_typed(world: World) -> None:
    name = "a 'b' $(touch pwned)"
    task = world.project / name
    world.task.rename(task)
    world.script(research())
    agent = world.task_args()[world.task_args().index("--agent") :]
    shown = world.cli("--task", name, *agent).stdout
    line = next(line.strip() for line in shown.splitlines() if line.strip().startswith("pi-marathon approve"))
    words = shlex.split(line)
    assert words[2] == name
    assert world.cli(*words[1:3]).returncode == 0
    then = next(line for line in shown.splitlines() if line.startswith("then: pi-marathon"))
    assert shlex.split(then)[2:4] == ["--task", name]
    assert not (world.project / "pwned").exists()


@pytest.mark.parametrize(
    "name",
    ["", "   ", "no/such/dir", "../none", "x" * 300, "y" * 4096, "/" * 5000, "task/instructions.md", "/dev/null", "."],
)
def test_a_name_that_is_no_task_is_refused_and_creates_nothing(cli: Sweeper, world: World, name: str) -> None:
    world.script(research())
    before = everything_below(world.project.parent)
    code = cli.run(world, "--task", name, "--agent", "command", "--", "true")
    assert code in (2, 7)
    printed = cli.printed(world)
    assert printed.startswith(("pi-marathon: ", "Usage: "))
    assert "Traceback" not in printed
    assert "something went wrong" not in printed
    assert len(printed) < 1000
    assert everything_below(world.project.parent) - before <= {"home/out", "home/out.changes"}
    assert world.sessions() == 0


def test_a_name_with_a_nul_is_refused(cli: Sweeper, world: World) -> None:
    """No shell can pass one, but an environment file or another program might."""
    assert cli.run(world, "--task", "ta\0sk", "--agent", "command", "--", "true") == 2
    assert cli.run(world, "status", "ta\0sk") == 2
    assert "Traceback" not in cli.printed(world)


def test_a_name_that_is_not_utf8_works(world: World) -> None:
    name = os.fsdecode(b"caf\xe9")
    world.task.rename(world.project / name)
    world.task = world.project / name
    world.script(research())
    agent = world.task_args()[world.task_args().index("--agent") :]
    done = world.cli("--task", name, *agent)
    assert done.returncode == 3, done.stderr
    assert world.sessions() == 1
    assert world.cli("status", name).returncode == 0
    assert world.cli("list").returncode == 0


@pytest.mark.parametrize("runner", ["../x", "$(touch pwned)", "-rf", "a\nb", "x" * 4096, "a/b", ".", "ü", " "])
def test_a_strange_runner_id_reaches_no_file(world: World, cli: Sweeper, runner: str) -> None:
    world.states.mkdir(mode=0o700)
    (world.states.parent / "x.json").write_text("{}")
    before = everything_below(world.project.parent)
    for command in (["wait", "5", "CI"], ["ask", "which?"]):
        done = world.cli(*command, MARATHON_RUNNER_ID=runner)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert len(done.stderr) < 500
    assert everything_below(world.project.parent) == before
    assert (world.states.parent / "x.json").read_text() == "{}"


@pytest.mark.parametrize("title", ["../../x", "$(touch pwned)", "-rf x", "a\nb", "z" * 4096, "Ünïcode 3"])
def test_a_new_task_lands_in_its_folder_whatever_its_title(world: World, title: str) -> None:
    before = everything_below(world.project.parent)
    done = world.cli("new", "--goal", "g", "--", title)
    assert done.returncode == 0, done.stderr
    created = everything_below(world.project.parent) - before
    assert created
    assert all(path.startswith(("project/docs", "home/.local")) for path in created)  # and the index of all tasks
    (folder,) = (world.project / "docs" / "tasks").iterdir()
    assert len(folder.name) < 100
    assert folder.name.isascii()
    world.task = folder
    assert world.read("instructions.md").startswith("# ")


@pytest.mark.parametrize("title", ["", "///", "...", "？！"])
def test_a_title_without_a_letter_or_digit_is_refused(world: World, title: str) -> None:
    done = world.cli("new", "--goal", "g", "--", title)
    assert done.returncode == 2
    assert not (world.project / "docs").exists()


def test_the_agents_words_are_never_read_by_a_shell(world: World) -> None:
    """The command line of the agent is a list of words, not a line."""
    world.script(research())
    seen = "import sys,json,pathlib; pathlib.Path('../agent/argv').write_text(json.dumps(sys.argv[1:]))"
    words = ["$(touch pwned)", "a b", "`id`", ";", "|", "", "-h", "--task", "ü"]
    world.cli("--task", "task", "--agent", "command", "--retries", "0", "--", sys.executable, "-IS", "-c", seen, *words)
    assert json.loads((world.agent / "argv").read_text()) == words
    assert not (world.project / "pwned").exists()
