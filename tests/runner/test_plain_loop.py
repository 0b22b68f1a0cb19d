"""The plain loop: sessions over task.md until every box is ticked, or until the agent says the mark of completion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.world import AGENT, Entry, World

OPEN, TICKED = "# It\n\n- [x] one\n- [ ] two\n", "# It\n\n- [x] one\n- [x] two\n"
MARK = "<loop-complete>"


def work(text: str, **more: object) -> Entry:
    """A session that leaves task.md like this, and never writes STATE.json."""
    return {"write": {"task.md": text + "\nSession {n}.\n"}, **more}


def looped(world: World, *sessions: Entry, most: int = 4, criteria: str = "") -> subprocess.CompletedProcess[str]:
    world.script(*sessions)
    if criteria:
        (world.task / "instructions.md").write_text(f"# Do it\n\n## Success Criteria\n\n{criteria}\n")
    return world.run("--workflow", "loop", "--max-iterations", str(most), "--trust")


@pytest.mark.parametrize(
    ("sessions", "code", "ran"),
    [
        pytest.param([work(OPEN), work(TICKED)], 0, 2, id="every box ticked"),
        pytest.param([work("# Nothing to tick\n")], 4, 4, id="no box at all"),
        pytest.param([{"say": [f"I read {MARK}", "Done."]}, work(OPEN, say=["Done.", MARK])], 0, 2, id="the mark"),
        pytest.param([work(f"{MARK}\n\n{OPEN}", say=[MARK, "That was task.md."])], 4, 4, id="the mark in a file"),
        pytest.param([work(OPEN, state={"state": "completed", "phase": "done"})], 0, 1, id="STATE.json"),
        pytest.param([work(OPEN, state={"state": "paused", "phase": "work", "note": "no way"})], 3, 1, id="paused"),
        pytest.param([work(OPEN), work(OPEN), work(OPEN), work(TICKED)], 0, 4, id="on the last session allowed"),
        pytest.param([work(TICKED, exit=1), work(TICKED)], 0, 2, id="a crash proves nothing"),
    ],
)
def test_when_it_is_complete(world: World, sessions: list[Entry], code: int, ran: int) -> None:
    done = looped(world, *sessions)
    assert (done.returncode, world.sessions()) == (code, ran), done.stdout
    assert "did not update STATE.json" not in done.stdout


def test_ticked_boxes_are_not_enough_where_a_criterion_fails(world: World) -> None:
    done = looped(world, work(TICKED), work(TICKED, touch="done.txt"), criteria="- `test -e done.txt`")
    assert (done.returncode, world.sessions()) == (0, 2), done.stdout
    assert "Not met: " in world.prompt(2)


def test_what_a_session_writes_into_task_md_is_in_the_next_prompt(world: World) -> None:
    looped(world, work(OPEN, append={"task.md": "Mind the cache.\n"}), work(TICKED))
    assert "task.md` is missing or empty" in world.prompt(1)
    assert "> - [ ] two" in world.prompt(2)
    assert "> Mind the cache." in world.prompt(2)


def test_it_looks_back_at_task_md(world: World) -> None:
    world.script(work(OPEN))
    world.run("--workflow", "loop", "--max-iterations", "2", "--reflect-every", "1")
    assert "## Look back first\n\nRead task.md as a stranger would." in world.prompt(2)


# The command


def repeated(world: World, *args: str) -> subprocess.CompletedProcess[str]:
    return world.cli("repeat", *args, "--agent", "command", "--", sys.executable, "-IS", str(AGENT), str(world.agent))


def tasks(world: World) -> list[Path]:
    return list((world.project / "docs" / "tasks").glob("*"))


def test_one_command_makes_and_starts_it(world: World) -> None:
    world.script(work(OPEN), work(TICKED))
    done = repeated(world, "Fix types", "No `Any` is left.", "--reflect-every", "1", "--success", "`true`", "--trust")
    assert done.returncode == 0, done.stdout + done.stderr
    (task,) = tasks(world)
    assert task.name.endswith("-fix-types")
    assert "No `Any` is left." in (task / "instructions.md").read_text()
    assert "> ## Checklist" in world.prompt(1)
    assert "> No `Any` is left." in world.prompt(1)
    assert "Look back first" in world.prompt(2)


def test_it_may_only_be_made(world: World) -> None:
    made = world.cli("repeat", "later", "Do it later.", "--no-start", "--json")
    (task,) = tasks(world)
    assert json.loads(made.stdout) == {"task": str(task)}
    assert not world.sessions()


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "!"])
def test_a_path_is_not_a_name(world: World, name: str) -> None:
    refused = repeated(world, name, "Do it.")
    assert refused.returncode == 2
    assert not tasks(world)
    assert {path.name for path in world.project.iterdir()} == {"task"}
