"""-h on a task that is over or paused: the last run moves aside as a set, a new one begins with the human's words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.world import Entry, World, chunk, finish, plan, research

ARTIFACTS = ("research.md", "plan.md", "result.md")


def archives(folder: Path) -> dict[str, list[Path]]:
    """Archived files by their time stamp."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.md")):
        match = re.fullmatch(r"\w+\.(\d{8}-\d{6})\.md", path.name)
        if match:
            found.setdefault(match[1], []).append(path)
    return found


def test_a_restart_archives_the_last_run_and_begins_a_second_one(world: World) -> None:
    world.script(research(), plan(), chunk(), finish(), research())
    assert world.run("--auto-approve").returncode == 0
    old = {name: world.read(name) for name in ARTIFACTS}
    ran = world.run("-h", "also X")
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 1" in ran.stdout
    (stamp,) = archives(world.task)
    assert {name: world.read(name.replace(".md", f".{stamp}.md")) for name in ARTIFACTS} == old
    (kept,) = [line for line in ran.stdout.splitlines() if line.startswith("Kept from the run before: ")]
    assert {f"{name.removesuffix('.md')}.{stamp}.md" for name in ARTIFACTS} == set(kept[26:].split(", "))
    assert world.read("human.md").endswith("also X\n")
    assert "phase research (run 2, iteration 1)" in world.prompt(5)
    assert world.prompt(5).count("also X") == 1
    (named,) = [line for line in world.prompt(5).splitlines() if "the run before this one" in line]
    assert all(f"task/{name.removesuffix('.md')}.{stamp}.md" in named for name in ARTIFACTS)
    assert world.records("run_started")[0]["run"] == 2
    assert world.read("work.md") == "chunk 3\n"
    assert (world.task / ".marathon/runs/002/iterations/001.json").exists()


def test_the_state_is_back_in_research_before_the_agent_starts(world: World) -> None:
    world.leave_state("completed", "done", 9, mine="kept")
    world.script(research(run='cp "$MARATHON_TASK_DIR/STATE.json" "$MARATHON_TASK_DIR/seen.json"'))
    world.run("-h", "once more")
    seen = world.read("seen.json")
    for part in ('"state": "running"', '"phase": "research"', '"iteration": 1', '"mine": "kept"'):
        assert part in seen


@pytest.mark.parametrize("verdict", ["answer", "approve"])
def test_what_was_said_to_the_gate_before_is_not_lost_by_a_restart(world: World, verdict: str) -> None:
    asks: Entry = {"state": {"state": "running", "phase": "research"}, "ask": "Which DB?"}
    world.script(asks if verdict == "answer" else research(), research())
    assert world.run().returncode == 3
    words = ["postgres"] if verdict == "answer" else ["-m", "postgres"]
    assert world.cli(verdict, "task", *words).returncode == 0
    assert world.run("-h", "also X").returncode == 3
    assert world.read("human.md").count("postgres") == 1
    for said in ("postgres", "also X"):
        assert world.prompt(2).count(said) == 1
    assert "run 2, iteration 1" in world.prompt(2)


def test_two_restarts_at_once_keep_two_sets(world: World) -> None:
    world.leave_state("completed", "done", 4)
    for name in ARTIFACTS:
        (world.task / name).write_text(f"first {name}\n")
    world.script(research())
    world.run("-h", "one")
    first = {path.name: path.read_bytes() for paths in archives(world.task).values() for path in paths}
    assert len(first) == 3
    # Every name of the coming two minutes is taken: the second set must still find one of its own.
    now = datetime.now(UTC)
    stamps = {(now + timedelta(seconds=second)).strftime("%Y%m%d-%H%M%S") for second in range(120)}
    taken = [path for stamp in stamps if not (path := world.task / f"research.{stamp}.md").exists()]
    for path in taken:
        path.write_text("taken\n")
    world.run("-h", "two")
    everything = archives(world.task)
    assert {
        path.name: path.read_bytes() for paths in everything.values() for path in paths if path.name in first
    } == first
    kept = [path.read_text() for paths in everything.values() for path in paths]
    assert kept.count("taken\n") == len(taken) >= 119
    assert kept.count("findings 1\n") == 1
    assert world.read("research.md") == "findings 2\n"
    human = world.read("human.md")
    assert human.index("one") < human.index("two")
    assert world.prompt(2).count("two") == 1
    assert "> one" not in world.prompt(2)


def test_a_paused_task_is_restarted_and_its_open_gate_is_gone(world: World) -> None:
    world.script(research(), research())
    world.run()
    ran = world.run("--human", "look at the parser instead")
    assert ran.returncode == 3
    assert world.sessions() == 2
    assert "look at the parser instead" in world.prompt(2)
    assert len(archives(world.task)) == 1
    assert len(world.records("gate_opened")) == 2


def test_feedback_that_looks_like_options_or_markdown_is_taken_literally(world: World) -> None:
    world.script(research())
    words = "--help\n# A heading\n$(touch pwned) `x`"
    assert world.run("-h", words).returncode == 3
    assert world.read("human.md").endswith(f"{words}\n")
    assert "> # A heading" in world.prompt(1)
    assert not (world.project / "pwned").exists()
