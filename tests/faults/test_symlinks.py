"""Links that lead out of the task directory are refused by name, and nothing behind them is read or changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import World, plan, research

SECRET = b'{"state": "paused", "phase": "plan"} words from outside\n'


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is none of our business."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(SECRET)
    return folder


def assert_untouched(outside: Path) -> None:
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == SECRET


@pytest.mark.parametrize("name", ["STATE.json", "human.md", "research.md", "result.md", "instructions.md"])
def test_a_file_that_is_a_link_out_is_refused_before_anything_starts(world: World, outside: Path, name: str) -> None:
    world.script(research())
    (world.task / name).unlink(missing_ok=True)
    (world.task / name).symlink_to(outside / "file")
    done = world.run()
    assert done.returncode == 7
    assert f"task/{name} is a symlink" in done.stderr
    assert world.sessions() == 0
    assert not (world.task / ".marathon").exists()
    assert_untouched(outside)


@pytest.mark.parametrize("name", ["lock", "journal.jsonl"])
def test_records_of_the_runner_that_are_links_are_refused(world: World, outside: Path, name: str) -> None:
    world.script(research())
    world.kept.mkdir(mode=0o700, parents=True)
    (world.kept / name).symlink_to(outside / "file")
    done = world.run()
    assert done.returncode in (1, 7)
    assert str(world.kept / name) in done.stderr
    assert "Traceback" not in done.stderr
    assert world.sessions() == 0
    assert_untouched(outside)


def test_an_agent_that_makes_its_state_a_link_gets_it_back_as_a_file(world: World, outside: Path) -> None:
    world.script({"run": f"ln -sf {outside / 'file'} task/STATE.json"}, research())
    done = world.run()
    assert done.returncode == 3
    assert "STATE.json was not valid: it is a symlink" in done.stdout
    assert not (world.task / "STATE.json").is_symlink()
    assert "it is a symlink" in world.prompt(2)
    assert "words from outside" not in world.prompt(2)
    assert_untouched(outside)


def test_an_output_that_is_a_link_out_does_not_count(world: World, outside: Path) -> None:
    done_by_link = {**research(), "write": {}, "run": f"ln -s {outside / 'file'} task/research.md"}
    world.script(done_by_link)
    done = world.run()
    assert done.returncode == 3
    assert world.sessions() == 2
    assert "research.md is missing or empty" in done.stdout
    assert not list((world.task / ".marathon").rglob("research-1.md"))
    assert_untouched(outside)


def test_feedback_is_not_written_through_a_link_an_agent_made(world: World, outside: Path) -> None:
    world.script(research(run=f"ln -s {outside / 'file'} task/human.md"), plan())
    world.run()
    assert world.cli("approve", "task", "-m", "keep this").returncode in (0, 7)
    done = world.run()
    assert done.returncode in (1, 7)
    assert "human.md" in done.stderr
    assert "Traceback" not in done.stderr
    assert_untouched(outside)
    (world.task / "human.md").unlink()
    if not world.records("gate_answered"):
        world.cli("approve", "task", "-m", "keep this")
    assert world.run().returncode == 3
    assert world.read("human.md").count("keep this") == 1
    assert "keep this" in world.prompt(2)


def test_links_that_stay_inside_the_task_are_fine(world: World) -> None:
    world.script(research())
    (world.task / "notes.md").symlink_to("instructions.md")
    assert world.run().returncode == 3
    assert world.sessions() == 1
