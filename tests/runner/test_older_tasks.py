"""A task directory made by an earlier version goes on where it was; tests/fixtures/older_tasks says how they were made.

Only the command line and the task's files are used here, so that these tests outlive every change inside.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import ROOT, Entry, World, chunk, finish, plan, research

OLDER = ROOT / "tests" / "fixtures" / "older_tasks"
NAMES = sorted(path.name for path in OLDER.iterdir() if path.is_dir())
WAS_AT = "/home/user/project"
KEYS_SHOWN = b"[q]      Quit marathon"
DOES: dict[str, Entry] = {"research": research(), "plan": plan(), "implement": finish(touch="made")}

# Where it stands open: its exit code, the answer, and the phases that follow it
GATES = {
    "research_gate": (3, ("approve",), ["plan", "implement"]),
    "plan_gate_with_feedback": (3, ("approve",), ["implement"]),
    "second_run_plan_redone": (3, ("approve",), ["implement"]),
    "gate_output": (3, ("approve",), ["plan", "implement"]),
    "gate_skipped": (3, ("approve",), ["plan", "implement"]),
    "gate_paused": (3, ("approve",), ["implement"]),
    "gate_question": (3, ("answer", "postgres"), ["research", "plan", "implement"]),
    "gate_failed": (1, ("approve",), ["research", "plan", "implement"]),
    "gate_left": (3, ("approve",), ["research", "plan", "implement"]),
    "gate_stuck": (5, ("approve",), ["implement"]),
    "gate_invalid": (3, ("approve",), ["research", "plan", "implement"]),
    "gate_limit": (4, ("approve",), ["implement"]),
    "gate_checks": (3, ("approve",), ["research", "plan", "implement"]),
    "gate_session": (3, ("approve",), ["implement"]),
    "pi_stream": (3, ("approve",), ["plan", "implement"]),
    "pi_tui": (3, ("approve",), ["plan", "implement"]),
}


def restore(world: World, name: str) -> None:
    """The older task as the world's own: nothing has moved, only the version is another.

    The version in between kept a copy of the journal where the task's home is now.
    """
    shutil.rmtree(world.project)
    shutil.copytree(OLDER / name, world.project)
    for stored in sorted(world.project.rglob("dot-marathon"), reverse=True):
        stored.rename(stored.with_name(".marathon"))
    world.kept.mkdir(parents=True, exist_ok=True)
    shutil.copy(world.task / ".marathon" / "journal.jsonl", world.kept)
    lock = world.task / ".marathon" / "lock"
    lock.write_text(lock.read_text().replace(WAS_AT, str(world.project)))


def sessions_since(world: World) -> list[str]:
    """The phases of the sessions that the version under test ran."""
    return [str(environment(world, number)["MARATHON_PHASE"]) for number in range(1, world.sessions() + 1)]


def environment(world: World, session: int) -> dict[str, str]:
    value = json.loads((world.agent / f"env-{session}").read_text())
    assert isinstance(value, dict)
    return value


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def finish_with(world: World, *phases: str, args: tuple[str, ...] = ()) -> None:
    """Go on unattended: exactly these phases are left."""
    world.script(*(DOES[phase] for phase in phases))
    ran = world.run("--auto-approve", *args)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sessions_since(world) == list(phases)
    assert world.state()["state"] == "completed"


@pytest.mark.parametrize("name", NAMES)
def test_status_tells_of_it_and_changes_nothing(world: World, name: str) -> None:
    restore(world, name)
    before = files_of(world.task)
    told = world.cli("status", "task", "--json")
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(told.stdout)["phase"]
    assert files_of(world.task) == before


def test_list_shows_them_all_beside_each_other(world: World) -> None:
    for name in NAMES:
        restore(world, name)
        shutil.move(world.task, world.home / name)
    shutil.rmtree(world.project)
    shutil.move(world.home, world.project)
    world.home.mkdir()
    listed = world.cli("list", ".")
    assert listed.returncode == 0
    assert [name for name in NAMES if name not in listed.stdout] == []


@pytest.mark.parametrize("name", GATES)
def test_an_open_gate_is_still_open_and_its_answer_leads_on(world: World, name: str) -> None:
    code, (verb, *words), phases = GATES[name]
    restore(world, name)
    logs = files_of(world.task / ".marathon" / "runs")
    ran = world.run()
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ("MARATHON PAUSED" in ran.stdout) is (name != "gate_checks"), "what is agreed to is a short question"
    assert f"pi-marathon {verb} task" in ran.stdout
    assert world.sessions() == 0, "nothing begins before the human has answered"
    answered = world.cli(verb, "task", *words)
    assert answered.returncode == 0, answered.stderr
    finish_with(world, *phases)
    kept = files_of(world.task / ".marathon" / "runs")
    assert {path: kept[path] for path in logs if path.name != "summary.md"} == {
        path: data for path, data in logs.items() if path.name != "summary.md"
    }


@pytest.mark.parametrize("copy", ["another one", "gone"])
def test_a_record_that_does_not_fit_its_copy_is_one_question(
    world: World, on_terminal: Callable[..., Pty], copy: str
) -> None:
    """And what is said to the task before it is started gets to know what to type."""
    restore(world, "plan_gate_with_feedback")
    journal = world.task / ".marathon" / "journal.jsonl"
    if copy == "gone":
        shutil.rmtree(world.kept)
    else:
        journal.write_text(journal.read_text() + '{"n":90,"at":"","type":"remark","text":"forged"}\n' * 2)
    for words in (["approve"], ["redo"], ["answer"], ["comment"], ["steer"], ["cancel", "--yes"], ["accept", "-m"]):
        refused = world.cli(
            words[0], "task", *words[1:], *(["words"] if words[0] not in ("approve", "redo", "cancel") else [])
        )
        assert (refused.returncode, "Start it first" in refused.stderr) == (2, True), (words, refused.stderr)
        assert "pi-marathon --task task" in refused.stderr
    refused = world.run()
    assert refused.returncode == 3
    assert "Go on from what its folder says" in refused.stderr
    assert journal.exists() or copy == "gone"
    terminal = on_terminal()
    terminal.expect(b"? [y/N]")
    terminal.send(b"y\r")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"Phase: research" in shown, "what was reviewed is asked again"
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert world.sessions() == 0


OLD_COMMENTS = """# Human Feedback

## Comment c1 (must) · research.md line 1 · 2026-01-02T03:04:05Z

> found

why not?

## Comment c2 (note) · 2026-01-02T03:04:06Z

taken back

## Comment c2 withdrawn · 2026-01-02T03:04:07Z
"""
FORGED = "\n## Comment c1 withdrawn · 2026-01-02T03:04:08Z\n\n## Comment c3 (must)\n\nforged\n"


def test_comments_that_stood_in_human_md_alone_become_records_once(world: World) -> None:
    restore(world, "research_gate")
    (world.task / "human.md").write_text(OLD_COMMENTS)
    kept = [("c1", "must", "why not?", False), ("c2", "note", "taken back", True)]

    def comments() -> list[tuple[str, str, str, bool]]:
        told = json.loads(world.cli("comments", "task", "--json").stdout)
        return sorted((each["id"], each["kind"], each["text"], each["withdrawn"]) for each in told)

    assert comments() == kept
    assert not (world.kept / "home.json").exists(), "to look changes nothing"
    assert world.cli("comment", "task", "a third one").returncode == 0
    assert comments() == [*kept, ("c3", "note", "a third one", False)]
    with (world.task / "human.md").open("a") as human:
        human.write(FORGED)
    world.script(research(), research())
    assert "c1 must be answered first" in world.run("--auto-approve").stdout
    assert world.cli("redo", "task", "-m", "see there").returncode == 0
    assert world.run().returncode == 3
    assert comments() == [*kept, ("c3", "note", "a third one", False)]
    assert [[each["id"] for each in record["comments"]] for record in world.records("commented")] == [
        ["c1", "c2"],
        ["c3"],
    ]
    assert "> c1 (must be answered, research.md" in world.prompt(1)
    assert world.prompt(1).count("why not?") == 1
    assert world.read("human.md").count("a third one") == 1


def test_a_gate_on_a_terminal_shows_what_the_older_version_recorded(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    restore(world, "research_gate")
    world.script(plan())
    terminal = on_terminal()
    shown = terminal.expect(KEYS_SHOWN)
    assert b"Phase: research | Iteration: 1" in shown
    assert b"Note: found" in shown
    assert b"Review the output: task/research.md" in shown
    terminal.send(b"\r")
    assert b"Phase: plan | Iteration: 2" in terminal.expect(KEYS_SHOWN)
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert sessions_since(world) == ["plan"]


def test_feedback_that_was_delivered_is_not_told_again_and_what_was_typed_since_is_told_once(world: World) -> None:
    restore(world, "plan_gate_with_feedback")
    world.script(chunk(), finish())
    assert world.cli("approve", "task", "-m", "and be quick").returncode == 0
    assert world.run().returncode == 0
    told = [world.prompt(1), world.prompt(2)]
    assert [text.count("keep it small") for text in told] == [1, 0]
    assert [text.count("and be quick") for text in told] == [1, 0]
    assert [text.count("mind the tests") for text in told] == [0, 0]
    human = world.read("human.md")
    assert [human.count(words) for words in ("mind the tests", "keep it small", "and be quick")] == [1, 1, 1]


def test_a_session_that_was_cut_off_is_followed_by_one_of_the_same_phase(world: World) -> None:
    restore(world, "killed_in_implement")
    finish_with(world, "implement")
    assert "cut off" in world.prompt(1)
    assert environment(world, 1)["MARATHON_ITERATION"] == "6"
    assert world.read("work.md") == "chunk 3\nchunk 4\nhalf of chunk 5\n"


def test_steering_of_a_session_that_was_cut_off_is_told_again_and_what_came_later_too(world: World) -> None:
    restore(world, "steered_and_killed")
    finish_with(world, "plan", "implement")
    assert [world.prompt(1).count(words) for words in ("first word", "second word", "old table")] == [1, 1, 1]
    assert world.prompt(1).index("first word") < world.prompt(1).index("second word")
    assert not any(words in world.prompt(2) for words in ("first word", "second word", "old table"))


def wait_until(world: World, seconds: float) -> None:
    """The deadline that stands in the journal, moved to this long from now: the fixture's own is long over."""
    until = time.time() + seconds
    for path in (world.task / ".marathon" / "journal.jsonl", world.kept / "journal.jsonl"):
        changed = re.sub(r'"until": [0-9.]+', f'"until": {until}', path.read_text())
        path.write_text(changed)


def test_a_wait_goes_on_with_its_deadline(world: World, on_terminal: Callable[..., Pty]) -> None:
    restore(world, "waiting")
    wait_until(world, 200)
    world.script(research())
    terminal = on_terminal()
    shown = terminal.expect(b"Enter go on now").decode()
    assert "CI" in shown
    left = re.search(r"(\d+)m (\d\d)s left", shown)
    assert left
    assert 120 < int(left[1]) * 60 + int(left[2]) <= 200
    assert world.sessions() == 0
    terminal.send(b"\r")
    terminal.expect(KEYS_SHOWN)
    assert "CI" in world.prompt(1)
    assert sessions_since(world) == ["research"]


@pytest.mark.parametrize("name", ["waiting", "retrying"])
def test_a_wait_that_is_over_is_not_begun_again(world: World, name: str) -> None:
    restore(world, name)
    wait_until(world, -5)
    finish_with(world, "research", "plan", "implement")


def test_a_completed_task_stays_so_and_begins_a_second_run_with_feedback(world: World) -> None:
    restore(world, "completed")
    ran = world.run()
    assert (ran.returncode, world.sessions()) == (0, 0)
    assert "-h" in ran.stdout
    finish_with(world, "research", "plan", "implement", args=("-h", "also X"))
    assert environment(world, 1)["MARATHON_RUN"] == "2"
    assert world.prompt(1).count("also X") == 1
    archived = [path.name for path in world.task.glob("*.????????-??????.md")]
    assert sorted(name.split(".")[0] for name in archived) == ["plan", "research", "result"]


def test_a_second_run_is_still_the_second(world: World) -> None:
    restore(world, "second_run_plan_redone")
    world.cli("redo", "task", "-m", "shorter")
    finish_with(world, "plan", "implement")
    assert environment(world, 1)["MARATHON_RUN"] == "2"
    assert [world.prompt(1).count(words) for words in ("shorter", "also X")] == [1, 0]
    rounds = {path.name for path in (world.task / ".marathon/runs/002/rounds").iterdir()}
    assert rounds == {"research-1.md", "plan-1.md", "plan-2.md", "plan-3.md"}


def test_an_answer_given_from_a_shell_counts_and_its_words_are_told_once(world: World) -> None:
    restore(world, "answered_from_a_shell")
    world.script(plan())
    assert world.run().returncode == 3, "the plan has a gate of its own"
    assert sessions_since(world) == ["plan"]
    finish_with(world, "plan", "implement")
    assert [world.prompt(number).count("mind the tests") for number in (1, 2)] == [1, 0]
    assert world.read("human.md").count("mind the tests") == 1


def test_a_redo_asked_for_from_a_shell_is_done(world: World) -> None:
    restore(world, "redo_from_a_shell")
    finish_with(world, "research", "plan", "implement")
    assert world.prompt(1).count("look at the parser too") == 1


def test_a_question_and_its_answer_reach_the_agent(world: World) -> None:
    restore(world, "gate_question")
    assert "Which DB?" in world.run().stdout
    world.cli("answer", "task", "postgres")
    finish_with(world, "research", "plan", "implement")
    assert "> Which DB?" in world.prompt(1)
    assert "> postgres" in world.prompt(1)
    assert "Which DB?" not in world.prompt(2)


def test_an_unmet_criterion_is_told_again_and_completion_waits_for_it(world: World) -> None:
    restore(world, "check_failing")
    world.script(finish(), finish(touch="made"))
    ran = world.run("--trust", "--auto-approve")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sessions_since(world) == ["implement", "implement"]
    assert "Not met: Made" in world.prompt(1)
    assert "Not met: Made" in world.prompt(2)
    assert "Not met: Kept" not in world.prompt(1)
    assert world.state()["criteriaStatus"] == {"Made": True, "Kept": True}


def test_instructions_once_called_unclear_lock_nothing(world: World) -> None:
    restore(world, "gate_clarify")
    finish_with(world, "research", "plan", "implement")


def noted(phase: str) -> Entry:
    return {"append": {"notes.md": f"{phase}\n"}, "state": {"state": "paused", "phase": phase}}


def test_a_place_inside_a_nested_workflow_is_kept(world: World) -> None:
    restore(world, "nested_workflow")
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: draft" in ran.stdout
    assert world.cli("approve", "task").returncode == 0
    world.script(noted("polish"), noted("publish"))
    assert world.run("--auto-approve").returncode == 0
    assert sessions_since(world) == ["polish", "publish"]


def test_a_workflow_that_changed_under_it_is_the_humans_to_settle(world: World) -> None:
    restore(world, "gate_workflow")
    ran = world.run()
    assert ran.returncode == 3
    assert "The workflow changed under this task" in ran.stdout
    assert world.cli("redo", "task", "--phase", "second", "-m", "new names").returncode == 0
    world.script(noted("second"))
    assert world.run("--auto-approve").returncode == 0
    assert sessions_since(world) == ["second"]
    assert world.prompt(1).count("new names") == 1
