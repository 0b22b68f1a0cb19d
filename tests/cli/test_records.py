"""A task's record outside of the project: status names it, and one whose folder is gone is found and removed."""

from __future__ import annotations

import json
import shutil

from tests.support.world import World, finish, plan, research


def test_status_names_the_record_and_its_size(world: World) -> None:
    world.script(research())
    assert world.run().returncode == 3
    told = world.cli("status", "task").stdout
    assert f"Record:    {world.kept} (" in told
    record = json.loads(world.cli("status", "task", "--json").stdout)["record"]
    assert record["folder"] == str(world.kept)
    assert record["bytes"] >= (world.kept / "journal.jsonl").stat().st_size


def test_the_record_of_a_folder_that_is_gone_is_listed_and_removed(world: World) -> None:
    world.script(research())
    assert world.run().returncode == 3
    assert "folders that are gone" not in world.cli("list", "--all").stdout
    shutil.rmtree(world.task)
    listed = world.cli("list", "--all").stdout
    assert f"{world.task} (" in listed
    asked = world.cli("rm", str(world.task))
    assert asked.returncode == 2
    assert f"pi-marathon rm {world.task} --yes" in asked.stderr
    assert world.kept.exists()
    assert world.cli("rm", str(world.task), "--yes", MARATHON_RUNNER_ID="m-1").returncode == 2
    removed = world.cli("rm", "task", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not world.kept.exists()
    assert "folders that are gone" not in world.cli("list", "--all").stdout


def test_the_summary_goes_where_ci_collects_it(world: World) -> None:
    world.script(research(), plan(), finish())
    assert world.run("--auto-approve", "--summary", "out.md").returncode == 0
    kept = (world.kept / "runs" / "001" / "summary.md").read_text()
    assert (world.project / "out.md").read_text() == kept
    told = world.run("--summary", "no-such-folder/out.md")
    assert told.returncode == 0
    assert "The summary was not written. Could not write" in told.stdout
