"""A task goes on as it was started: with its agent, what the agent was given, and the options of the start."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.process.driver import Pty, until
from tests.support.side import Side
from tests.support.world import World, chunk, finish, plan, research

GATE = b"[q]      Quit marathon"


def started_with(world: World) -> dict[str, Any]:
    return world.records("started_with")[-1]


def agent_named(world: World, name: str) -> Path:
    """A program in a folder for PATH that appends its arguments to a file and leaves the phase running."""
    folder = world.home / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\ncase $1 in --version) echo 9.9.9;; *) echo "$0 $*" >> {world.home}/called;; esac\n')
    path.chmod(0o755)
    return path


def test_a_start_without_options_goes_on_with_the_agent_and_its_arguments(world: World) -> None:
    world.script(research(), plan(), finish())
    first = world.run("--set", "plan.args='--for plan'", "--retries", "1", "--session-timeout", "20m")
    assert first.returncode == 3
    assert first.stdout.splitlines()[-1] == "then: pi-marathon --task task"
    assert world.cli("approve", "task").returncode == 0
    assert world.cli("--task", "task").returncode == 3
    assert world.sessions() == 2
    assert len(world.records("started_with")) == 1, "nothing new was chosen"
    facts = json.loads(world.cli("status", "task", "--json").stdout)
    words = ["--agent=command", "--set=plan.args='--for plan'", "--session-timeout=1200", "--retries=1", "--"]
    assert shlex.split(facts["started_with"])[:6] == [*words, sys.executable]
    assert f"Options:   {facts['started_with']}" in world.cli("status", "task").stdout
    assert world.cli("-h", "again", "--yes", "--task", "task").returncode == 3, "a new run is the same task"
    assert world.sessions() == 3


def test_a_flag_comes_before_what_is_remembered_and_that_before_the_environment(world: World) -> None:
    world.script(research(hold=False))
    world.run("--retries", "1", "--breaker", "no-progress=9", "--outage", "1h", PI_MARATHON_KEEP_EVENTS="7")
    environment = {"PI_MARATHON_AGENT": "rehearsal", "PI_MARATHON_RETRIES": "5", "PI_MARATHON_KEEP_EVENTS": "0"}
    world.cli("--task", "task", "--session-timeout", "9m", "--breaker", "same-error=2", timeout=60, **environment)
    chosen = started_with(world)
    names = ("agent", "retries", "outage", "keep_events", "session_timeout", "breakers")
    expected = ["command", 1, 3600, 7, 540, ["no-progress=9", "same-error=2"]]
    assert [chosen[name] for name in names] == expected
    world.cli("--task", "task", "--retries", "2", timeout=60, **environment)
    assert started_with(world)["retries"] == 2


def test_budgets_of_the_environment_belong_to_the_task_like_typed_ones(world: World) -> None:
    world.script(chunk(touch="{n}", state={"state": "running", "phase": "research"}))
    assert world.run(PI_MARATHON_MAX_ITERATIONS="2").returncode == 4
    assert world.cli("--task", "task").returncode == 4, "a start from cron has not this environment"
    assert world.cli("--task", "task", PI_MARATHON_MAX_ITERATIONS="9").returncode == 4
    assert world.sessions() == 2
    assert world.cli("--task", "task", "--max-iterations", "3").returncode == 4
    assert world.sessions() == 3


def test_oversight_that_was_chosen_is_not_taken_back_by_the_environment(world: World) -> None:
    world.script(research(), plan(), chunk())
    assert world.run("--oversight", "colleague", "--auto-approve", "--max-iterations", "1").returncode == 4
    assert world.cli("--task", "task", PI_MARATHON_OVERSIGHT="tool").returncode == 4
    assert [each["oversight"] for each in world.records("oversight_set")] == ["colleague"]
    assert world.cli("--task", "task", "--oversight", "tool").returncode == 4
    assert world.cli("--task", "task", PI_MARATHON_OVERSIGHT="colleague").returncode == 4
    assert [each["oversight"] for each in world.records("oversight_set")] == ["colleague", "tool"]


def test_what_answers_or_starts_is_never_remembered(world: World) -> None:
    world.script(research(), plan())
    stopped = world.run("--auto-approve", "--trust", "--max-iterations", "1", "--json", "--no-notify")
    assert stopped.returncode == 4
    assert set(started_with(world)) - {"n", "at", "type"} <= {
        *("agent", "agent_args", "mode", "settings", "setup", "hours", "sandbox", "sandbox_write"),
        *("breakers", "reflect_every"),
        *("session_timeout", "retries", "retry_wait", "outage", "keep_events"),
    }
    goes_on = world.cli("--task", "task", "--max-iterations", "+1")
    assert (goes_on.returncode, world.sessions()) == (3, 2)
    assert "Review the output" in goes_on.stdout, "it is printed, and it is a gate"


def test_another_agent_is_chosen_by_its_name_and_starts_without_what_was_for_the_one_before(world: World) -> None:
    world.script(research())
    world.run("--mode", "stream", "--set", "plan.args=--x", "--retries", "1")
    assert world.cli("--task", "task", "--agent", "rehearsal", "--", "--quick").returncode != 2
    chosen = started_with(world)
    assert (chosen["agent"], chosen["agent_args"], chosen["retries"]) == ("rehearsal", ["--quick"], 1)
    assert (chosen["mode"], chosen["settings"]) == (None, None)
    world.cli("--task", "task", "--agent", "rehearsal")
    assert started_with(world)["agent_args"] == ["--quick"], "the same agent keeps them"
    world.cli("--task", "task", "--")
    assert started_with(world)["agent_args"] == [], "and nothing after -- takes them away"


def test_what_was_set_for_a_phase_is_joined_by_name_and_can_be_forgotten(world: World) -> None:
    world.script(research())
    world.run("--set", "plan.args=--x", "--set", "research.args=--y")
    world.cli("--task", "task", "--set", "plan.args=--z")
    assert started_with(world)["settings"] == ["plan.args=--z", "research.args=--y"]
    world.cli("--task", "task", "--set", "plan=")
    assert started_with(world)["settings"] == ["research.args=--y"]
    unknown = world.cli("--task", "task", "--set", "build.args=--z")
    assert unknown.returncode == 2
    assert "To forget what was set for it: --set build=" in unknown.stderr


def test_the_background_and_the_service_go_on_with_it(world: World) -> None:
    world.script(research(), plan(), finish())
    assert world.run("--set", "plan.args=--x").returncode == 3
    assert world.cli("approve", "task").returncode == 0
    assert world.cli("--task", "task", "--detach").returncode == 0
    until(lambda: len(world.records("gate_opened")) == 2, "the background is at the review of the plan")
    assert world.cli("stop", "task").returncode == 0
    assert world.sessions() == 2
    assert len(world.records("started_with")) == 1


def test_a_pool_goes_on_with_what_each_task_was_started_with(world: World) -> None:
    side = Side(world, "one", "two")
    side.run("one", expected=3)
    side.run("two", "--retries", "1", expected=3)
    side.type("approve", "one")
    side.type("approve", "two")
    side.type("run", "one", "two", expected=3)
    for name in ("one", "two"):
        assert side.status(name)["waits_for"] == "your review of plan"
    assert "--retries=1" in side.status("two")["started_with"]
    assert "--retries" not in side.status("one")["started_with"]


def test_the_terminal_mode_is_kept_for_terminals(world: World, typed: Callable[..., Pty]) -> None:
    """A start in the background has no terminal to hand over, and the next one on a terminal has."""
    world.script(research(), plan(), finish())
    window = typed(*world.task_args("--mode", "tui"))
    window.expect(GATE)
    window.send(b"q")
    assert window.wait() == 3
    assert world.cli("approve", "task").returncode == 0
    again = world.cli("--task", "task", "--json")
    assert again.returncode == 3, again.stderr
    assert started_with(world)["mode"] == "tui"
    assert json.loads((world.agent / "env-2").read_text())["MARATHON_PHASE"] == "plan"


def test_an_agent_that_is_gone_is_named_with_another_that_is_there(world: World) -> None:
    claude = agent_named(world, "claude")
    agent_named(world, "codex")
    path = f"{world.home}/bin:/usr/bin:/bin"
    missing = world.cli("--task", "task", PATH=path)
    assert missing.returncode == 1
    assert "pi was not found" in missing.stderr
    assert "claude and codex are installed: --agent claude" in missing.stderr
    world.cli("--task", "task", "--agent", "claude", "--retries", "0", PATH=path)
    assert started_with(world)["agent"] == "claude"
    claude.unlink()
    gone = world.cli("--task", "task", PATH=path)
    assert gone.returncode == 1
    assert "This task was started with claude. codex is installed: --agent codex" in gone.stderr
    made = world.cli("new", "Another", "--goal", "Do something else.", PATH=path)
    assert made.stdout.splitlines()[-1] == "pi was not found. codex is installed: --agent codex"
    chosen = world.cli("new", "Third", "--goal", "Do something else.", PATH=path, PI_MARATHON_AGENT="codex")
    assert "installed" not in chosen.stdout


def test_a_sandbox_that_is_gone_is_not_left_out_unsaid(world: World) -> None:
    state = '{"state": "running", "phase": "research", "iteration": 1, "updatedAt": "2026-02-02T14:30:00Z"}'
    works = f"cd $MARATHON_TASK_DIR && date +%N > notes.md && echo '{state}' > STATE.json"
    agent = ("--agent", "command", "--max-iterations", "1", "--", "sh", "-c", works)
    assert world.cli("--task", "task", "--sandbox", *agent).returncode == 4
    folder = world.home / "bin"
    folder.mkdir()
    for name in ("sh", "env", "git", "date"):
        (folder / name).symlink_to(str(shutil.which(name)))
    without = world.cli("--task", "task", "--max-iterations", "2", PATH=str(folder))
    assert without.returncode == 1
    assert "This task was started with it. To go on without: --sandbox=off" in without.stderr
    assert len(world.records("session_ended")) == 1
    off = world.cli("--task", "task", "--max-iterations", "2", "--sandbox=off", PATH=str(folder))
    assert off.returncode == 4, off.stderr
    assert len(world.records("session_ended")) == 2
    assert started_with(world)["sandbox"] == "off"


def test_a_journal_that_came_with_a_project_names_no_program(world: World) -> None:
    """What is remembered was chosen on this machine."""
    world.script(research(), plan())
    world.run()
    journal = world.journal()
    evil = world.home / "evil"
    for record in journal:
        if record["type"] == "started_with":
            record["agent_args"] = ["sh", "-c", f"touch {evil}"]
    shutil.rmtree(world.kept)
    (world.task / ".marathon").unlink()
    (world.task / ".marathon").mkdir()
    (world.task / ".marathon" / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in journal))
    path = f"{Path(sys.executable).parent}:/nowhere"
    assert world.cli("--task", "task", "--adopt", PATH=path).returncode == 1, "this is pi, which is not here"
    adopted = world.cli("--task", "task", "--adopt", "--agent", "rehearsal", PI_MARATHON_RETRIES="0")
    assert adopted.returncode == 3
    world.cli("approve", "task")
    world.cli("--task", "task", timeout=90)
    assert started_with(world)["agent"] == "rehearsal"
    assert not evil.exists()


def test_a_task_that_was_moved_goes_on_with_its_agent(world: World) -> None:
    world.script(research(), plan())
    world.run()
    moved = world.project / "docs" / "tasks" / "moved"
    moved.parent.mkdir(parents=True)
    world.task.rename(moved)
    assert world.cli("--task", "moved").returncode == 3, "whether it is the same task is asked once"
    assert world.cli("--task", "moved", "--adopt").returncode == 3
    world.cli("approve", "moved")
    assert world.cli("--task", "moved").returncode == 3
    assert world.sessions() == 2


def test_a_measured_loop_goes_on_with_its_agent(world: World) -> None:
    program = world.project / "work.sh"
    (world.project / "speed").write_text("100\n")
    program.write_text("n=$(cat speed); echo $((n - 10)) > speed\n")
    side = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    for words in (["git", "init", "-q"], ["git", "add", "-A"], [*side, "commit", "-qm", "start"]):
        subprocess.run(words, cwd=world.project, check=True)
    assert (
        world.cli("loop", "start", "Faster", "--lane", "perf", "--run", "r1", "--verify", "cat speed").returncode == 0
    )
    agent = ("--agent", "command", "--", "sh", str(program))
    first = world.cli("loop", "run", "perf", "--trust", "--max-iterations", "1", *agent)
    assert first.returncode == 0, first.stderr
    again = world.cli("loop", "run", "perf", "--max-iterations", "2")
    assert again.returncode == 0, again.stderr
    rows = (world.project / ".multiloop").rglob("results.jsonl")
    assert [json.loads(line)["action"] for line in next(iter(rows)).read_text().splitlines()].count("keep") == 2


def test_an_older_task_has_nothing_to_remember(world: World) -> None:
    world.script(research(), plan())
    world.run()
    world.rewrite_journal([each for each in world.journal() if each["type"] != "started_with"])
    assert world.cli("status", "task", "--json").returncode == 0
    world.cli("approve", "task")
    assert world.run().returncode == 3
    assert started_with(world)["agent_args"][-1] == str(world.agent)
