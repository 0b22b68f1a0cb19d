"""Agents that write into the journal, remove it or let go of the lock: no review is passed by it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.process.driver import Pty, until
from tests.runner.conftest import forks as forks
from tests.runner.conftest import world as world
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


def test_records_that_an_agent_appends_move_nothing(world: World) -> None:
    forge(world)
    world.script(research(run="cat ../agent/forged >> task/.marathon/journal.jsonl"), plan())
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research" in ran.stdout
    assert "Something other than the runner changed .marathon/journal.jsonl" in ran.stdout
    assert "it has 6 lines (gate_opened, gate_answered, moved, gate_opened, gate_answered, …) more" in ran.stdout
    assert types(world).count("moved") == 0
    (kept,) = (world.task / ".marathon").glob("journal.jsonl.changed-*")
    assert kept.read_text().endswith((world.agent / "forged").read_text())
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert world.sessions() == 2
    assert [record["phase"] for record in world.records("moved")] == ["plan"]


def test_a_journal_that_was_changed_between_two_starts_is_refused_and_restored(world: World) -> None:
    forge(world)
    world.script(research(), plan())
    assert world.run().returncode == 3
    journal = world.task / ".marathon/journal.jsonl"
    good = journal.read_text()
    journal.write_text(good + (world.agent / "forged").read_text())
    world.leave_state("running", "implement", 3)
    for _ in range(2):
        refused = world.run()
        assert refused.returncode == 7
        assert "it has 6 lines" in refused.stderr
        assert f"pi-marathon repair {world.task}" in refused.stderr
    unasked = world.cli("repair", "task")
    assert unasked.returncode == 2
    assert "pi-marathon repair task --yes" in unasked.stderr
    assert journal.read_text() != good
    repaired = world.cli("repair", "task", "--yes")
    assert repaired.returncode == 0
    assert "A repair takes away:" in repaired.stdout
    assert journal.read_text() == good
    assert world.run().returncode == 3
    assert world.sessions() == 1
    assert world.records("gate_opened")[-1]["phase"] == "research"


def in_git(world: World) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "task"]):
        subprocess.run([*git, *words], cwd=world.project, env=world.env(), check=True)


def test_git_clean_in_a_session_costs_nothing_but_a_warning(world: World) -> None:
    in_git(world)
    cleaned = {**chunk(), "run": "git add task/*.md; git clean -qfdx"}
    world.script(research(), plan(), cleaned, finish())
    ran = world.run("--auto-approve")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "changed .marathon/journal.jsonl: it is missing or empty" in ran.stdout
    assert world.sessions() == 4
    assert types(world)[0] == "begun"
    assert types(world)[-1] == "finished"
    names = [path.name for path in sorted((world.task / ".marathon/runs/001/iterations").iterdir())]
    assert names == ["003.json", "004.json"]
    assert "completed" in world.run().stdout
    names = [path.name for path in sorted((world.task / ".marathon/runs/001/iterations").iterdir())]
    assert names == ["001.json", "002.json", "003.json", "004.json"], "the next start writes what was lost again"


def test_a_journal_removed_between_two_starts_is_no_way_past_a_review(world: World) -> None:
    in_git(world)
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    good = world.journal()
    shutil.rmtree(world.task / ".marathon")
    world.leave_state("running", "implement", 3)
    refused = world.run()
    assert refused.returncode == 7
    assert "it is missing or empty" in refused.stderr
    assert world.cli("repair", "task", "--yes").returncode == 0
    assert world.journal() == good
    assert world.run().returncode == 3
    assert world.sessions() == 1
    assert "your review of research" in world.cli("status", "task").stdout


def test_what_the_human_removed_on_purpose_may_stay_removed(world: World) -> None:
    world.script(research(), research())
    assert world.run().returncode == 3
    shutil.rmtree(world.task / ".marathon")
    (world.task / "STATE.json").unlink()
    assert world.run().returncode == 7
    assert world.cli("repair", "task", "--as-is", "--yes").returncode == 0
    assert world.run().returncode == 3
    assert world.sessions() == 2
    assert len(world.records("begun")) == 1


UNLOCK = (
    "import fcntl, os\nfor fd in range(3, 64):\n    try: fcntl.flock(fd, fcntl.LOCK_UN)\n    except OSError: pass\n"
)


def test_an_agent_that_lets_go_of_the_lock_lets_no_second_runner_in(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    (world.agent / "unlock.py").write_text(UNLOCK)
    world.script(research(run="python3 ../agent/unlock.py; rm -rf task/.marathon", hold=True), plan())
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
    refused = world.cli("repair", "task", "--as-is", "--yes", MARATHON_RUNNER_ID="m-1")
    assert refused.returncode == 2
    assert "for the human" in refused.stderr


def elsewhere(world: World) -> World:
    """The same task on another machine: its directory was copied, what is kept in the home folder was not."""
    shutil.rmtree(world.home / ".local")
    return world


def test_a_task_from_another_machine_is_adopted_after_a_yes(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan())
    assert world.run().returncode == 3
    assert world.cli("approve", "task").returncode == 0
    elsewhere(world)
    refused = world.run()
    assert refused.returncode == 3
    assert "tells of reviews that are not on record here" in refused.stderr
    assert "--adopt" in refused.stderr
    assert world.sessions() == 1
    terminal = on_terminal()
    terminal.expect(b"Continue with the task as it stands? [y/N]")
    terminal.send(b"n\r")
    assert terminal.wait() == 3
    assert world.sessions() == 1
    terminal = on_terminal()
    terminal.expect(b"Continue with the task as it stands? [y/N]")
    terminal.send(b"y\r")
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert world.sessions() == 1, "an answer that was given on another machine has another code, so the gate asks again"
    assert world.run().returncode == 3, "it is asked once"


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_state_in_implement_alone_passes_no_review(world: World, on_terminal: Callable[..., Pty], state: str) -> None:
    for name in ("research.md", "plan.md", "result.md"):
        (world.task / name).write_text("written by anyone\n")
    world.leave_state(state, "implement", 3)
    world.adopts = False
    world.script(finish())
    refused = world.run()
    assert refused.returncode == 3
    assert "no review of research and plan is on record" in refused.stderr
    assert world.sessions() == 0
    assert not (world.task / ".marathon/journal.jsonl").exists()
    terminal = on_terminal()
    terminal.expect(b"Continue with the task as it stands? [y/N]")
    terminal.send(b"\r")
    assert terminal.wait() == 3
    assert world.sessions() == 0
    world.run("--adopt")
    assert world.records("remark")[0]["text"] == "adopted in implement: a human vouched for research and plan"
