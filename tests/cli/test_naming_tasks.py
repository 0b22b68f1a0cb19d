"""Tasks by name, or by nothing where one fits, from any folder of the project. Two candidates are listed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import until
from tests.support.fixtures import in_background as in_background
from tests.support.world import World, research

RATE = "20260202-143000-rate-limits"
CARD = "20260203-143000-rate-card"


def task(world: World, name: str, changed: float = 0) -> Path:
    folder = world.project / "docs/tasks" / name
    folder.mkdir(parents=True)
    (folder / "instructions.md").write_text("# Do it\n")
    os.utime(folder / "instructions.md", (changed, changed))
    return folder


def at(world: World, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A command typed in another folder."""
    project, world.project = world.project, folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return world.cli(*args)
    finally:
        world.project = project


def named(shown: subprocess.CompletedProcess[str]) -> str:
    assert shown.returncode == 0, shown.stderr
    return str(json.loads(shown.stdout)["task"])


def test_a_task_is_named_by_path_by_a_part_of_its_name_and_by_a_dot(world: World) -> None:
    folder = task(world, RATE)
    task(world, CARD)
    for place, typed in (
        (world.project, f"docs/tasks/{RATE}"),
        (world.project, "limits"),
        (world.project / "src/deep", "limits"),
        (world.project / "src/deep", f"docs/tasks/{RATE}"),
        (world.project / "src/deep", f"../../docs/tasks/{RATE}"),
        (folder, "."),
    ):
        assert named(at(world, place, "status", typed, "--json")) == f"docs/tasks/{RATE}"


def test_a_task_is_named_by_the_title_it_was_made_of(world: World) -> None:
    assert world.cli("new", "Größe ändern", "--goal", "x").returncode == 0
    task(world, CARD)
    for typed in ("größe", "Größe ändern", "grosse"):
        assert named(world.cli("status", typed, "--json")).endswith("-große-andern")


def test_a_task_of_another_project_is_told_with_the_way_there(world: World, tmp_path: Path) -> None:
    assert world.cli("new", "Over there", "--goal", "x").returncode == 0
    asked = at(world, tmp_path / "elsewhere", "status", "over-there")
    assert asked.returncode == 7
    assert f"'over-there' is a task of another project. Go there first: cd {world.project}\n" in asked.stderr


def test_two_candidates_are_listed_and_neither_is_taken(world: World) -> None:
    task(world, RATE)
    task(world, CARD)
    shown = world.cli("status", "rate")
    assert (shown.returncode, shown.stdout) == (2, "")
    lines = shown.stderr.splitlines()
    assert "'rate' may mean" in lines[0]
    assert {line.split()[0] for line in lines[2:]} == {"rate-limits", "rate-card"}, (
        "without the time, where that is unique"
    )
    assert len({line.index("new") for line in lines[2:]}) == 1  # aligned, with the state
    assert world.cli("status", "nope").returncode == 7


def test_status_without_a_task_is_of_the_latest_or_of_the_one_around(world: World) -> None:
    assert world.cli("status").returncode == 2
    older = task(world, RATE, changed=1000)
    task(world, "20250101-000000-newer", changed=2000)
    shown = world.cli("status", "--json")
    assert named(shown).endswith("-newer")
    assert "The latest of 2 tasks" in shown.stderr
    assert named(at(world, older, "status", "--json")) == f"docs/tasks/{RATE}"


def test_approve_without_a_task_needs_exactly_one_open_gate(world: World) -> None:
    task(world, CARD)
    world.script(research())
    assert world.cli("approve").returncode == 2
    assert world.run().returncode == 3  # the task lies beside docs/tasks and is known because it ran here
    other = ["--task", CARD, *world.task_args()[2:]]
    assert world.cli(*other).returncode == 3
    refused = world.cli("approve")
    assert refused.returncode == 2
    assert "rate-card" in refused.stderr
    assert "waiting for you: review of research" in refused.stderr
    assert not world.records("gate_answered")
    assert world.cli("redo", "card", "-m", "no").returncode == 0
    approved = at(world, world.project / "src", "approve")
    assert approved.returncode == 0, approved.stderr
    assert approved.stderr == "Task: task\n"
    assert "pi-marathon --task task" in approved.stdout
    assert world.cli("approve").returncode == 2  # both are answered


def test_steer_and_stop_without_a_task_mean_the_only_one_that_runs(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    task(world, RATE)
    assert world.cli("stop").returncode == 2
    world.script(research(hold=True), research())
    runner = in_background()
    until(lambda: world.holding(1), "the agent works")
    missing = world.cli("steer", RATE)
    assert missing.returncode == 2
    assert "The text is missing" in missing.stderr
    assert world.cli("steer", "task", "use more tabs").stderr == ""
    sent = world.cli("steer", "use tabs")
    assert (sent.returncode, sent.stderr) == (0, "Task: task\n")
    assert [record["text"] for record in world.records("steer_taken")] in (
        [],
        ["use more tabs"],
        ["use more tabs", "use tabs"],
    )
    stopped = world.cli("stop")
    assert (stopped.returncode, stopped.stderr) == (0, "Task: task\n")
    world.release(1)
    assert runner.wait(60) == 3


def test_from_a_folder_of_the_project_the_agent_works_in_its_root(world: World) -> None:
    task(world, RATE)
    world.script(research(touch="where"))
    args = ["--task", "limits", *world.task_args()[2:]]
    ran = at(world, world.project / "src", *args)
    assert ran.returncode == 3
    assert f"The agent works in the project, {world.project}" in ran.stderr
    assert (world.project / "where").exists()
    assert f"pi-marathon approve docs/tasks/{RATE}" in ran.stdout


def test_here_keeps_the_folder_and_the_task_stays_there(world: World) -> None:
    task(world, RATE)
    world.script(research(touch="where"), research(touch="again"))
    sub = world.project / "src"
    args = ["--task", f"../docs/tasks/{RATE}", *world.task_args("--here")[2:]]
    assert at(world, sub, *args).returncode == 3
    assert (sub / "where").exists()
    assert at(world, sub, "redo", "limits", "-m", "once more").returncode == 0
    assert at(world, sub / "deeper", "--task", "limits", *world.task_args()[2:]).returncode == 3
    assert (sub / "again").exists()
    refused = world.cli("--task", "limits", *world.task_args()[2:])
    assert refused.returncode == 2
    assert f"cd {sub} && " in refused.stderr


def test_no_note_leads_the_agent_out_of_the_project(world: World) -> None:
    """Neither one in the task's folder nor the one of a runner that once had a larger project."""
    folder, outside = task(world, RATE), world.project.parent
    world.script(research(touch="where"))
    lock = {"pid": 1, "host": "h", "runner": "r", "since": 1.0, "cwd": str(outside), "task": str(folder)}
    for place in (folder / ".marathon", world.kept_of(folder)):
        place.mkdir(parents=True)
        (place / "lock").write_text(json.dumps({**lock, "resume": "x"}))
    refused = at(world, world.project / "src", "--task", "limits", *world.task_args()[2:])
    assert not (outside / "where").exists()
    assert (refused.returncode, f"So far this task ran in {outside}" in refused.stderr) == (2, True)


def test_a_home_folder_in_git_is_no_project_of_what_lies_below(world: World) -> None:
    (world.home / ".git").mkdir()
    place = world.home / "notes"
    made = at(world, place, "new", "Idea", "--goal", "x")
    assert made.returncode == 0
    assert (place / "docs/tasks").is_dir()


def test_new_and_list_work_from_a_folder_of_the_project(world: World) -> None:
    (world.project / ".git").mkdir()
    made = at(world, world.project / "src", "new", "Idea", "--goal", "x")
    assert made.returncode == 0
    assert f"(in {world.project})" in made.stdout
    (folder,) = (world.project / "docs/tasks").iterdir()
    assert folder.name.endswith("-idea")
    assert "idea  new" in at(world, world.project / "src", "list").stdout


@pytest.mark.parametrize("command", ["status", "--task", "answer"])
def test_completion_offers_names_and_folders_only_for_a_path(world: World, command: str) -> None:
    task(world, RATE)
    task(world, CARD)

    def offered(incomplete: str) -> list[str]:
        words = f"pi-marathon {command} {incomplete}"
        shown = at_completion(world, words)
        return [line.split(",", 1)[1] for line in shown.splitlines()]

    assert offered("") == ["rate-limits", "rate-card"]
    assert offered("rate-l") == ["rate-limits"]
    assert offered("docs/") == ["docs/"]


def at_completion(world: World, words: str) -> str:
    return world.cli(_PI_MARATHON_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="2").stdout


def test_a_misspelled_name_is_answered_with_the_one_that_is_meant(world: World) -> None:
    task(world, RATE)
    for typed in ("rate-limts", "limts", "ratelimits"):
        said = world.cli("status", typed)
        assert said.returncode == 7
        assert f"There is no task '{typed}'. Did you mean rate-limits?" in said.stderr
    assert "elsewhere does not exist" in world.cli("status", "elsewhere").stderr
