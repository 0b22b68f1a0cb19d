"""Agents that write into the journal, remove it or let go of the lock: no review is passed by it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.process.driver import Pty, until
from tests.support.fixtures import in_background as in_background
from tests.support.world import World, chunk, finish, plan, research

# What a journal holds between the end of research and implement, as far as an agent can make it up.
FORGED: list[dict[str, Any]] = [
    {"type": "gate_opened", "reason": "review", "token": "aa", "phase": "research", "onward": "next"},
    {"type": "gate_answered", "choice": "continue"},
    {"type": "moved", "path": [["rpi", 1]], "steps": 1, "phase": "plan"},
    {"type": "gate_opened", "reason": "review", "token": "bb", "phase": "plan", "onward": "next"},
    {"type": "gate_answered", "choice": "continue"},
    {"type": "moved", "path": [["rpi", 2]], "steps": 2, "phase": "implement"},
]


def forge(world: World) -> None:
    """Records that pass both reviews, ready to be appended."""
    lines = [{"n": 90 + number, "at": "2026-02-02T14:30:00Z", **record} for number, record in enumerate(FORGED)]
    (world.agent / "forged").write_text("".join(json.dumps(line) + "\n" for line in lines))


def types(world: World) -> list[str]:
    return [record["type"] for record in world.journal()]


def test_records_that_an_agent_appends_while_the_runner_lives_move_nothing(world: World) -> None:
    forge(world)
    world.script(research(run="cat ../agent/forged >> task/.marathon/journal.jsonl"), plan())
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research" in ran.stdout
    assert "Something other than the runner added to journal.jsonl" in ran.stdout
    assert types(world).count("moved") == 0
    (kept,) = world.kept.glob("journal.jsonl.added-*")
    assert kept.read_text() == (world.agent / "forged").read_text()
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert world.sessions() == 2
    assert [record["phase"] for record in world.records("moved")] == ["plan"]


def in_git(world: World) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "task"]):
        subprocess.run([*git, *words], cwd=world.project, env=world.env(), check=True)


def test_git_clean_in_a_session_costs_nothing(world: World) -> None:
    in_git(world)
    cleaned = {**chunk(), "run": "git add -f task/*.md; git clean -qfdx"}
    world.script(research(), plan(), cleaned, finish())
    ran = world.run("--auto-approve")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert world.sessions() == 4
    assert types(world)[0] == "begun"
    assert types(world)[-1] == "finished"
    names = [path.name for path in sorted((world.task / ".marathon/runs/001/iterations").iterdir())]
    assert names == ["001.json", "002.json", "003.json", "004.json"]


def test_the_link_never_shows_in_git_status(world: World) -> None:
    in_git(world)
    world.script(research(), plan())
    assert world.run().returncode == 3
    shown = subprocess.run(
        ["git", "status", "--porcelain"], cwd=world.project, env=world.env(), capture_output=True, text=True, check=True
    )
    assert sorted(shown.stdout.split()[1::2]) == ["task/STATE.json", "task/research.md"]


def test_a_copy_of_a_round_that_an_agent_changed_is_not_compared(world: World) -> None:
    """Else the review would say that nothing has changed."""
    copy = "task/.marathon/runs/001/rounds/research-1.md"
    second = research(write={"research.md": "two\n"}, run=f"printf 'two\\n' > {copy}")
    world.script(research(write={"research.md": "one\n"}), second)
    assert world.run().returncode == 3
    assert world.cli("redo", "task", "-m", "more").returncode == 0
    ran = world.run()
    assert (ran.returncode, world.read(".marathon/runs/001/rounds/research-1.md")) == (3, "two\n")
    assert "nothing changed" not in ran.stdout
    refused = world.cli("rounds", "task", "research", "1", "2")
    assert (refused.returncode, "was changed" in refused.stderr) == (2, True)


MADE_UP = "mkdir task/.marathon; cp ../agent/forged task/.marathon/journal.jsonl"
HARMS = {
    "git clean": ("git add -f task/*.md task/*.json; git clean -fdxq", "was gone"),
    "removed": ("rm task/.marathon", "was gone"),
    "led elsewhere": ("ln -sfn ../../agent task/.marathon", "led elsewhere"),
    "a folder": (f"rm task/.marathon; {MADE_UP}", "Something put"),
    "a file": ("rm task/.marathon; echo x > task/.marathon", "Something put"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_done_to_the_link_between_two_starts_is_told_and_no_way_past_a_review(world: World, harm: str) -> None:
    done, told = HARMS[harm]
    forge(world)
    in_git(world)
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    subprocess.run(["sh", "-ec", done], cwd=world.project, check=True)
    world.leave_state("running", "implement", 3)
    before = world.journal()
    ran = world.run()
    assert (ran.returncode, world.sessions()) == (3, 1)
    assert told in ran.stdout, ran.stdout
    assert world.journal() == before
    assert (world.task / ".marathon").resolve() == world.kept
    assert "your review of research" in world.cli("status", "task").stdout


@pytest.mark.parametrize("shipped", ["a folder", "a link to another task", "a link to nothing"])
def test_a_task_that_came_with_a_record_in_its_folder_begins_at_its_beginning(world: World, shipped: str) -> None:
    forge(world)
    world.script(research(), research())
    assert world.run().returncode == 3
    assert world.cli("approve", "task").returncode == 0
    other = world.project / "other"
    other.mkdir()
    (other / "instructions.md").write_text("# Another\n")
    if shipped == "a folder":
        (other / ".marathon").mkdir()
        (other / ".marathon" / "journal.jsonl").write_text((world.kept / "journal.jsonl").read_text())
    else:
        (other / ".marathon").symlink_to(world.kept if shipped == "a link to another task" else "/nowhere/at/all")
    args = world.task_args()
    args[args.index("task")] = "other"
    ran = world.cli(*args)
    assert ran.returncode == 3
    assert ("Something put" if shipped == "a folder" else "led elsewhere") in ran.stdout
    assert "Phase: research | Iteration: 1" in ran.stdout
    assert len(world.records("session_started")) == 1, "the first task's record got nothing of it"


UNLOCK = (
    "import fcntl, os\nfor fd in range(3, 64):\n    try: fcntl.flock(fd, fcntl.LOCK_UN)\n    except OSError: pass\n"
)


def test_an_agent_that_lets_go_of_the_lock_lets_no_second_runner_in(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    (world.agent / "unlock.py").write_text(UNLOCK)
    world.script(research(run="python3 ../agent/unlock.py; rm -f task/.marathon", hold=True), plan())
    first = in_background()
    until(lambda: world.holding(1), "the agent has let go")
    second = world.run()
    assert second.returncode == 6
    assert f"pid {first.pid} " in second.stderr
    assert world.cli("repair", "task", "--yes").returncode == 6
    world.release(1)
    assert first.wait(30) == 3
    assert world.sessions() == 1


def test_a_repair_is_not_the_agents_to_make(world: World) -> None:
    world.script(research())
    assert world.run().returncode == 3
    refused = world.cli("repair", "task", "--yes", MARATHON_RUNNER_ID="m-1")
    assert refused.returncode == 2
    assert "for the human" in refused.stderr


def elsewhere(world: World) -> World:
    """The same task on another machine: its folder was copied, what is kept in the home folder was not."""
    shutil.rmtree(world.home / ".local")
    return world


def test_a_task_from_another_machine_asks_again_what_was_reviewed(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    elsewhere(world)
    refused = world.run()
    assert refused.returncode == 3
    assert f"The record of {world.task.name} is not here" in refused.stderr
    assert "Go on from what its folder says: research done, plan waits for review?" in refused.stderr
    assert "--adopt" in refused.stderr
    terminal = on_terminal()
    terminal.expect(b"plan waits for review? [y/N]")
    terminal.send(b"n\r")
    assert terminal.wait() == 3
    assert not world.kept.joinpath("journal.jsonl").exists()
    terminal = on_terminal()
    terminal.expect(b"plan waits for review? [y/N]")
    terminal.send(b"y\r")
    shown = terminal.expect(b"[q]      Quit marathon")
    assert b"Phase: research" in shown
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3, "it is asked once"
    assert world.sessions() == 2, "the plan that is there is reviewed as it is"
    assert "your review of plan" in world.cli("status", "task").stdout
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 0
    assert world.sessions() == 3


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_state_in_implement_alone_passes_no_review(world: World, on_terminal: Callable[..., Pty], state: str) -> None:
    for name in ("research.md", "plan.md", "result.md"):
        (world.task / name).write_text("written by anyone\n")
    world.leave_state(state, "implement", 3)
    world.adopts = False
    world.script(finish())
    refused = world.run()
    assert refused.returncode == 3
    assert "research and plan done" in refused.stderr
    assert world.sessions() == 0
    assert not (world.kept / "journal.jsonl").exists()
    terminal = on_terminal()
    terminal.expect(b"? [y/N]")
    terminal.send(b"\r")
    assert terminal.wait() == 3
    assert world.sessions() == 0
    for phase in ("research", "plan"):
        assert world.run("--adopt").returncode == 3
        assert world.records("gate_opened")[-1]["phase"] == phase
        assert world.sessions() == 0
        assert world.cli("approve", "task").returncode == 0
