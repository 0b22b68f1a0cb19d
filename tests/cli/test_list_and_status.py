"""list and status: what is known of tasks, for people and as JSON, without touching them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rich.cells import cell_len

from tests.process.driver import until
from tests.support.listing import listing
from tests.support.world import World, chunk, finish, plan, research


def test_status_of_a_new_task_touches_nothing(world: World) -> None:
    before = listing(world.project)
    status = world.cli("status", "task")
    assert status.returncode == 0
    assert "new" in status.stdout
    assert "pi-marathon --task task" in status.stdout
    assert json.loads(world.cli("status", "task", "--json").stdout)["condition"] == "new"
    assert listing(world.project) == before


def test_status_of_a_new_task_tells_what_was_sent_to_it(world: World) -> None:
    world.cli("tell", "task", "use tabs")
    assert "Told:      1 message for the next session" in world.cli("status", "task").stdout
    assert json.loads(world.cli("status", "task", "--json").stdout)["steering"] == 1


def test_status_at_a_gate_tells_everything_and_how_to_go_on(world: World) -> None:
    world.script(research())
    world.run()
    before = listing(world.project)
    facts = json.loads(world.cli("status", "task", "--json").stdout)
    assert {key: facts[key] for key in ("condition", "phase", "run", "iteration", "waits_for", "note")} == {
        "condition": "gate",
        "phase": "research",
        "run": 1,
        "iteration": 1,
        "waits_for": "your review of research",
        "note": "found",
    }
    assert facts["breadcrumb"] == "Marathon > 🔍 Research [1/3]"
    assert facts["resume"] == "pi-marathon --task task"
    (session,) = facts["sessions"]
    assert (session["phase"], session["ending"]) == ("research", "ended")
    lines = world.cli("status", "task").stdout
    for part in (
        "Marathon > 🔍 Research [1/3]",
        "run",
        "your review of research",
        "found",
        facts["resume"],
        "approve task",
    ):
        assert part.lower() in lines.lower()
    assert listing(world.project) == before


def test_status_of_a_finished_task_shows_its_sessions_and_how_to_restart(world: World) -> None:
    world.script(research(), plan(), chunk(), finish())
    world.run("--auto-approve")
    facts = json.loads(world.cli("status", "task", "--json", "--sessions", "2").stdout)
    assert facts["condition"] == "completed"
    assert [each["iteration"] for each in facts["sessions"]] == [3, 4]
    assert "-h" in facts["resume"]
    lines = world.cli("status", "task", "--sessions", "0").stdout
    assert "completed" in lines
    assert "Sessions:" not in lines


def test_the_resume_command_of_status_can_be_typed_as_it_is(world: World) -> None:
    world.script(research(), plan())
    world.run()
    world.cli("approve", "task")
    resume = json.loads(world.cli("status", "task", "--json").stdout)["resume"]
    shim = f'pi-marathon() {{ "{world.argv()[0]}" -P -m marathon "$@"; }}; {resume}'
    ran = subprocess.run(
        ["bash", "-c", shim],
        cwd=world.project,
        env=world.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert ran.returncode == 3
    assert world.sessions() == 2


# Speaks pi's RPC: one call that has ended, one that runs until the file `ended` is there, and then silence.
PI_AT_WORK = """
import json, pathlib, sys, time
if sys.argv[2] == "--version":
    sys.exit(print("0.87.1"))
if "--no-session" in sys.argv:  # the start that the runner makes to see whether pi works
    sys.exit()

def say(**record):
    print(json.dumps(record), flush=True)

def call(what, id, command):
    about = {"result": {"content": []}, "isError": False} if what == "end" else {"args": {"command": command}}
    say(type=f"tool_execution_{what}", toolCallId=id, toolName="bash", **about)

asked = json.loads(sys.stdin.readline())
say(id=asked["id"], type="response", command=asked["type"], success=True)
say(type="agent_start")
call("start", "1", "git status")
call("start", "2", "npm test")
call("end", "1", "")
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
call("end", "2", "")
sys.stdin.read()
"""


def test_status_names_the_call_that_runs_now(world: World, tmp_path: Path) -> None:
    script, program, ended = tmp_path / "pi.py", tmp_path / "pi", tmp_path / "ended"
    script.write_text(PI_AT_WORK)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{script}" "{ended}" "$@"\n')
    program.chmod(0o755)
    started = world.cli("--task", "task", "--agent", "pi", "--mode", "stream", "--detach", MARATHON_PI=str(program))
    assert started.returncode == 0, started.stderr

    def told() -> str:
        return world.cli("status", "task").stdout

    try:
        until(lambda: re.search(r"^Doing: +bash npm test \(for \d+s\)$", told(), re.M), "only what has not ended")
        ended.touch()
        until(lambda: re.search(r"^Did: +bash npm test$", told(), re.M), "the last call, which has ended")
        assert "Doing:" not in told()
    finally:
        world.cli("stop", "--now", "task")


def test_what_an_agent_wrote_cannot_act_on_the_terminal(world: World) -> None:
    note = "\x1b]0;pwned\x07\x1b[2Jgood"
    world.script({**research(), "state": {"state": "paused", "phase": "research", "note": note}})
    world.run()
    for args in (("status", "task"), ("list", "."), ("status", "task", "--json")):
        shown = world.cli(*args)
        assert shown.returncode == 0
        assert "\x1b" not in shown.stdout
    assert "good" in world.cli("status", "task").stdout


def told(world: World, *args: str) -> list[str]:
    shown = [world.cli(*args, *more).stdout for more in ((), ("--json",))]
    return [
        re.sub(r' *\d+[smh]$|"(idle_seconds|bytes)": \d+|(?<=Record:).*', "age", text, flags=re.M) for text in shown
    ]


def test_status_and_list_tell_the_same_with_and_without_what_the_runner_left(world: World) -> None:
    world.script(research(), plan(), chunk(), finish())
    for args in ((), ("--auto-approve",)):
        world.run(*args)
        left = [told(world, *command) for command in (("status", "task"), ("list", "."))]
        (world.task / ".marathon/summary.json").unlink()
        assert [told(world, *command) for command in (("status", "task"), ("list", "."))] == left
    assert "completed" in left[0][0]


def test_what_the_runner_left_counts_only_until_something_happens(world: World) -> None:
    world.script(research())
    world.run()
    assert "State:     gate" in world.cli("status", "task").stdout
    world.cli("tell", "task", "use tabs")
    assert "Told:      1 message" in world.cli("status", "task").stdout
    world.cli("approve", "task")
    assert "State:     ready" in world.cli("status", "task").stdout
    assert "research (ready)" in world.cli("list", ".").stdout


def test_the_commands_in_status_name_the_task_as_it_was_typed(world: World) -> None:
    world.script(research())
    world.run()
    assert f"approve {world.task}" in world.cli("status", str(world.task)).stdout
    assert "approve ./task" not in world.cli("status", "./task").stdout


def test_a_summary_that_makes_no_sense_is_not_believed(world: World) -> None:
    world.script(research())
    world.run()
    before = told(world, "status", "task")
    for spoiled in ("", "[]", '{"journal": 1}', '{"condition": "completed"}'):
        (world.task / ".marathon/summary.json").write_text(spoiled)
        assert told(world, "status", "task") == before


def test_list_shows_each_task_with_its_condition(world: World) -> None:
    world.script(research())
    world.run()
    for name in ("a-new", "b-invalid", "not-a-task"):
        (world.project / name).mkdir()
    (world.project / "a-new" / "instructions.md").write_text("x\n")
    (world.project / "b-invalid" / "instructions.md").write_text("x\n")
    (world.project / "b-invalid" / "STATE.json").write_text("{")
    rows = json.loads(world.cli("list", ".", "--json").stdout)
    assert (rows[0]["task"], rows[0]["condition"]) == ("task", "gate")
    assert {row["name"]: row["condition"] for row in rows[1:]} == {"a-new": "new", "b-invalid": "invalid STATE.json"}
    assert (rows[0]["waits_for"], rows[0]["iteration"], rows[0]["cost"]) == ("your review of research", 1, 0)
    assert "waiting for you: review of research" in world.cli("list", ".").stdout.splitlines()[1]


def test_columns_are_aligned_also_for_wide_characters(world: World) -> None:
    for name in ("ascii", "日本の-テスト"):
        (world.project / "docs/tasks" / name).mkdir(parents=True)
        (world.project / "docs/tasks" / name / "instructions.md").write_text("x\n")
    lines = world.cli("list").stdout.splitlines()
    assert lines[0].split() == ["Task", "State", "Sessions", "Cost", "Age"]
    assert {cell_len(line[: line.index("new")]) for line in lines[1:]} == {lines[0].index("State")}
    assert len(lines) == 3
    assert {cell_len(line) for line in lines} == {len(lines[0])}


def test_list_all_knows_every_project_and_forgets_what_is_gone(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    made = subprocess.run(
        world.argv("new", "Elsewhere", "--goal", "x"), cwd=other, env=world.env(), capture_output=True, check=True
    )
    assert b"Made docs/tasks/" in made.stdout
    world.script(research())
    world.run()
    rows = json.loads(world.cli("list", "--all", "--json").stdout)
    assert [(row["name"][-9:], row["project"]) for row in rows] == [
        ("task", str(world.project)),
        ("elsewhere", str(other)),
    ]
    shown = world.cli("list", "--all").stdout
    assert "waiting for you" in shown.splitlines()[1]
    assert str(other) in shown.splitlines()[2]
    assert "elsewhere" not in world.cli("list").stdout
    (index,) = world.home.glob("**/pi-marathon/index")
    assert (index.stat().st_mode & 0o777, len(os.listdir(index))) == (0o700, 2)
    shutil.rmtree(other)
    assert "elsewhere" not in world.cli("list", "--all").stdout
    assert len(os.listdir(index)) == 1


def test_a_folder_that_is_not_there_is_not_an_empty_list(world: World) -> None:
    listed = world.cli("list", "nope")
    assert listed.returncode == 2
    assert "nope cannot be listed" in listed.stderr


def test_a_project_without_tasks_says_how_to_make_one(world: World) -> None:
    listed = world.cli("list")
    assert listed.returncode == 0
    assert "pi-marathon new" in listed.stdout
    assert json.loads(world.cli("list", "--json").stdout) == []


def test_a_row_fits_the_window(world: World) -> None:
    world.script(research())
    world.run()
    shutil.copytree(world.task, world.project / "docs/tasks/a-task-with-a-long-name-that-goes-on-and-on-for-ever")
    wide, narrow = (world.cli("list", COLUMNS=columns).stdout for columns in ("200", "70"))
    assert "waiting for you: review of research" in wide
    assert max(map(cell_len, narrow.splitlines())) <= 70
    assert "…" in narrow
