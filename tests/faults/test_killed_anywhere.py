"""kill -9 of the runner before any change to any file: nothing is half, nothing skipped, nothing done twice.

`./bin/test` tries every so-many-th change; MARATHON_FULL_SWEEP=1 tries them all (some minutes).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.faults.sweep import (
    KILLED,
    Sweeper,
    assert_completed,
    assert_in_order,
    assert_whole,
    changes_of,
    copy_of,
    marathon_args,
    nobody_left,
    points,
)
from tests.process.driver import until
from tests.support.world import World


def at_each_change(
    cli: Sweeper, before: World, args: list[str], step: int, expected: int, folder: Path
) -> Iterator[tuple[World, str]]:
    """For each point of the sweep: the world in which `args` was killed there, and what it was about to do."""
    world = copy_of(before, folder / "undisturbed")
    assert cli.run(world, *args) == expected
    changes = changes_of(world)
    for number in points(len(changes), step):
        world = copy_of(before, folder / "killed")
        assert cli.run(world, *args, kill_at=number) == KILLED
        assert_whole(world)
        yield world, f"killed before change {number}: {changes[number - 1]}"
        until(partial(nobody_left, world), "the agent's processes are gone")
        shutil.rmtree(folder / "killed")


def test_from_the_first_start_to_the_end(cli: Sweeper, world: World, tmp_path: Path) -> None:
    args = marathon_args("--auto-approve")
    for killed, point in at_each_change(cli, world, args, 11, 0, tmp_path):
        assert cli.run(killed, *args) == 0, point
        assert_completed(killed, run=1)


def test_in_the_first_start_and_again_while_recovering(cli: Sweeper, world: World, tmp_path: Path) -> None:
    args = marathon_args("--auto-approve")
    for number, (killed, point) in enumerate(at_each_change(cli, world, args, 29, 0, tmp_path), start=1):
        assert cli.run(killed, *args, kill_at=number * 3) in (KILLED, 0), point
        assert_whole(killed)
        assert cli.run(killed, *args) == 0, point
        assert_completed(killed, run=1)


def test_in_a_restart_with_feedback(cli: Sweeper, world: World, tmp_path: Path) -> None:
    assert cli.run(world, *marathon_args("--auto-approve")) == 0
    args, restart = marathon_args("--auto-approve"), marathon_args("--auto-approve", "-h", "also X")
    for killed, point in at_each_change(cli, world, restart, 19, 0, tmp_path):
        assert cli.run(killed, *args) == 0, point
        if not killed.records("restart_begun"):
            # Killed before anything was promised: it is as if the command had never been typed.
            assert_completed(killed, run=1)
            assert not (killed.task / "human.md").exists(), point
            assert cli.run(killed, *restart) == 0, point
        assert_completed(killed, run=2)
        assert killed.read("human.md").count("also X") == 1, point
        assert_archived_as_a_set(killed)
        assert_told_once(killed, "also X", "2-", "research")


def test_in_a_restart_that_is_then_typed_again(cli: Sweeper, world: World, tmp_path: Path) -> None:
    assert cli.run(world, *marathon_args("--auto-approve")) == 0
    sessions = len(world.records("session_ended"))
    restart = marathon_args("--auto-approve", "-h", "also X")
    tried = set()
    for killed, point in at_each_change(cli, world, restart, 5, 0, tmp_path):
        if len(killed.records("session_ended")) > sessions:
            break  # from here on the words were heard, and it is a restart of what has begun
        tried.add((len(killed.records("run_started")), len(killed.records("session_started")) - sessions))
        assert cli.run(killed, *restart) == 0, point
        assert_completed(killed, run=2)
        assert killed.read("human.md").count("also X") == 1, point
    until(partial(nobody_left, killed), "the agent's processes are gone")
    assert tried == {(0, 0), (1, 0), (1, 1)}


def test_while_a_verdict_from_a_shell_is_carried_out(cli: Sweeper, world: World, tmp_path: Path) -> None:
    args = marathon_args()
    assert cli.run(world, *args) == 3
    assert cli.run(world, "approve", "task", "-m", "check auth") == 0
    for killed, point in at_each_change(cli, world, args, 5, 3, tmp_path):
        assert cli.run(killed, *args) == 3, point
        assert killed.records("gate_opened")[-1]["phase"] == "plan", point
        assert killed.state()["state"] == "paused"
        assert [record["phase"] for record in killed.records("moved")] == ["plan"], point
        assert killed.read("human.md").count("check auth") == 1, point
        assert not list((killed.task / ".marathon" / "inbox").iterdir()), point
        assert_in_order(killed)
        assert cli.run(killed, "approve", "task") == 0
        assert cli.run(killed, *args) == 0, point
        assert_completed(killed, run=1)
        assert_told_once(killed, "check auth", "1-", "plan")


def test_while_a_verdict_is_given(cli: Sweeper, world: World, tmp_path: Path) -> None:
    assert cli.run(world, *marathon_args()) == 3
    verdict = ["approve", "task", "-m", "check auth"]
    seen = set()
    for killed, point in at_each_change(cli, world, verdict, 2, 0, tmp_path):
        answered = bool(list((killed.task / ".marathon" / "inbox").glob("[0-9]*.json")))
        seen.add(answered)
        assert cli.run(killed, *verdict) == (2 if answered else 0), point
        assert cli.run(killed, *marathon_args()) == 3, point
        assert killed.read("human.md").count("check auth") == 1, point
        assert_in_order(killed)
    assert seen == {False, True}


def test_while_a_comment_is_made(cli: Sweeper, world: World, tmp_path: Path) -> None:
    assert cli.run(world, *marathon_args()) == 3
    comment = ["comment", "task", "why so?"]
    kept = set()
    for killed, point in at_each_change(cli, world, comment, 2, 0, tmp_path):
        assert cli.run(killed, "comments", "task", "--json") == 0
        made = len(json.loads(cli.printed(killed)))
        kept.add(made)
        if not made:
            assert cli.run(killed, *comment) == 0, point
        assert_commented_once(cli, killed, point)
    assert kept == {0, 1}


def test_while_a_comment_is_taken_up(cli: Sweeper, world: World, tmp_path: Path) -> None:
    assert cli.run(world, *marathon_args()) == 3
    assert cli.run(world, "approve", "task") == 0
    message = {"kind": "comment", "comment": {"id": "c1", "text": "why so?", "kind": "must"}}
    (world.kept / "inbox" / "1.json").write_text(json.dumps(message))
    for killed, point in at_each_change(cli, world, marathon_args(), 9, 3, tmp_path):
        assert_commented_once(cli, killed, point)
        (told,) = killed.agent.glob("prompt-1-*-plan")
        assert "> c1 (must be answered): why so?" in told.read_text(), point


def assert_commented_once(cli: Sweeper, killed: World, point: str) -> None:
    """It is on record, and human.md shows it, once a runner has been there again."""
    assert cli.run(killed, *marathon_args()) == 3, cli.printed(killed) + point
    assert [[each["id"] for each in record["comments"]] for record in killed.records("commented")] == [["c1"]], point
    assert killed.read("human.md").count("why so?") == 1, point
    assert not list((killed.kept / "inbox").glob("[0-9]*")), point
    assert_in_order(killed)


def assert_archived_as_a_set(world: World) -> None:
    archived = sorted(path.name for path in world.task.glob("*.2*.md"))
    stamps = {name.split(".")[1] for name in archived}
    assert len(stamps) == 1
    assert [name.split(".")[0] for name in archived] == ["plan", "research", "result"]
    for name in archived:
        assert world.read(name).endswith("of run 1\n")


def assert_told_once(world: World, words: str, run: str, phase: str) -> None:
    """The words came as new to sessions of that phase only, and to no second one that could do its work."""
    told = [path.name for path in world.agent.glob("prompt-*") if words in path.read_text()]
    assert told
    assert all(name.startswith(f"prompt-{run}") and name.endswith(f"-{phase}") for name in told), told
    ended = [line for line in (world.agent / "log").read_text().splitlines() if line == f"ended {run[:-1]} {phase}"]
    # Killed with its runner, after its work, it could not say so any more; the journal tells that its work counted.
    assert len(ended) <= 1
    assert _completed_sessions(world, int(run[:-1]), phase) == 1


def _completed_sessions(world: World, run: int, phase: str) -> int:
    """How many sessions of a phase left it complete, by what the runner found and wrote down."""
    completed, now, where = 0, 1, ""
    for record in world.journal():
        match record["type"]:
            case "run_started":
                now = record["run"]
            case "session_started":
                where = record["phase"]
            case "session_ended" if (now, where) == (run, phase):
                completed += (record["proposal"] or {}).get("state") == "paused" and record["output"] == "fresh"
    return completed


def test_while_the_end_is_held_against_the_criteria(cli: Sweeper, world: World, tmp_path: Path) -> None:
    """The first proposal fails its check, the second passes; no kill makes a third of it, or an end without a yes."""
    check = "test -e tried || { touch tried; exit 1; }"
    criteria = f"# Do it\n\n## Success Criteria\n\n- Tried: `{check}`\n"
    (world.task / "instructions.md").write_text(criteria)
    args = marathon_args("--auto-approve", "--trust", "--max-iterations", "9")
    for killed, point in at_each_change(cli, world, args, 17, 0, tmp_path):
        assert cli.run(killed, *args) == 0, point
        results = [record["results"][0]["met"] for record in killed.records("checked")]
        assert results[-1] is True, point
        assert results.count(True) == 1, point
        assert killed.state()["criteriaStatus"] == {"Tried": True}, point
        assert [record["phase"] for record in killed.records("moved")] == ["plan", "implement"], point
