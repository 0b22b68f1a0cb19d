"""A clock that is set, a machine that sleeps or boots: waits are right and no archive is overwritten."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from marathon.process.clock import boot_id, since_boot
from tests.faults.sweep import Sweeper
from tests.process.driver import until
from tests.support.world import World, finish, plan, research

Start = Callable[..., subprocess.Popen[str]]
DAY = 86400.0


def leave_waiting(world: World, **wait: Any) -> None:
    """A journal that ends in a wait of five minutes, recorded when the clocks stood as `wait` says."""
    world.script({"state": {"state": "running", "phase": "research"}, "wait": [5, "CI"]}, research())
    runner = world.start()
    try:
        until(lambda: (world.task / ".marathon/journal.jsonl").exists() and world.records("wait_started"), "the wait")
    finally:
        runner.kill()
        runner.communicate()
    change_last(world, **wait)


def change_last(world: World, **fields: Any) -> None:
    """Rewrite the last record of the journal."""
    *before, last = world.journal()
    world.rewrite_journal([*before, {**last, **fields}])


def seconds_left(world: World) -> float:
    """What `status` says is left of the wait."""
    shown = json.loads(world.cli("status", "task", "--json").stdout)["waits_for"]
    minutes, _, seconds = shown.rpartition("(")[2].removesuffix(" left)").rpartition("m ")
    return float(minutes or 0) * 60 + float(seconds.removesuffix("s"))


@pytest.mark.parametrize("wall", [-DAY, 0.0, DAY], ids=["set back", "right", "set forward"])
def test_a_wait_within_one_boot_does_not_heed_the_wall_clock(world: World, in_background: Start, wall: float) -> None:
    leave_waiting(world, boot=boot_id(), until_boot=since_boot() + 60, until=time.time() + 60 - wall)
    assert 20 < seconds_left(world) <= 60
    runner = in_background()
    assert runner.stdout
    assert "waiting: CI" in runner.stdout.readline()
    time.sleep(0.5)
    assert world.sessions() == 1  # not ended early


@pytest.mark.parametrize("wall", [-DAY, DAY], ids=["set back", "set forward"])
def test_a_wait_that_is_over_ends_whatever_the_wall_clock_says(world: World, wall: float) -> None:
    leave_waiting(world, boot=boot_id(), until_boot=since_boot() + 1, until=time.time() - wall)
    done = world.run()
    assert done.returncode == 3
    assert world.sessions() == 2
    assert [record["early"] for record in world.records("wait_ended")] == [False]


def test_after_a_boot_the_wall_clock_counts_but_never_for_more_than_was_asked(world: World) -> None:
    leave_waiting(world, boot="another", until_boot=10.0, until=time.time() + 400 * DAY)
    assert seconds_left(world) <= 300
    change_last(world, until=time.time() - 5)
    done = world.run()
    assert done.returncode == 3
    assert world.sessions() == 2


def test_time_asleep_counts_as_waited(world: World) -> None:
    """In a time namespace the clock of the boot is ahead by what was slept; elsewhere the journal says so."""
    leave_waiting(world)
    sleeping = ["unshare", "--time", "--boottime", "600"]
    if os.geteuid() != 0:
        sleeping[1:1] = ["--user", "--map-root-user"]
    can = subprocess.run([*sleeping, "true"], capture_output=True, check=False).returncode == 0
    if not can:
        change_last(world, until_boot=since_boot() - 300)
    argv = [*(sleeping if can else []), *world.argv(*world.task_args())]
    done = subprocess.run(argv, cwd=world.project, env=world.env(), stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 3
    assert world.sessions() == 2


# A machine cannot be put to sleep for a test: where it has slept, the clock of its boot is ahead of the other.
SLEEPS = """
import os, time
told = time.clock_gettime
time.clock_gettime = lambda clock: told(clock) + 3 * 3600 * os.path.exists(os.environ["SLEPT"])
"""


def test_time_asleep_is_neither_work_nor_a_reason_to_time_out(world: World, in_background: Start) -> None:
    (world.home / "sitecustomize.py").write_text(SLEEPS)
    slept, path = world.home / "slept", f"{world.home}{os.pathsep}{world.env()['PYTHONPATH']}"
    world.script(research(hold=True))
    options = ("--session-timeout=1h", "--max-time=2h", "--auto-approve", "--max-iterations=1")
    runner = in_background(*options, PYTHONPATH=path, SLEPT=str(slept))
    until(lambda: world.holding(1), "the session is at work")
    slept.touch()
    time.sleep(1)  # several looks at the clock
    world.release(1)
    runner.communicate(timeout=30)
    ended = world.records("session_ended")
    assert [record["ending"] for record in ended] == ["ended"]
    assert ended[0]["seconds"] < 60


def complete(cli: Sweeper, world: World) -> None:
    world.script(*[research(), plan(), finish()] * 4)
    assert cli.run(world, *world.task_args("--auto-approve")) == 0


def archives(world: World) -> dict[str, str]:
    return {path.name: path.read_text() for path in world.task.glob("*.[0-9]*.md") if path.exists()}


def test_restarts_within_one_second_overwrite_nothing(cli: Sweeper, world: World) -> None:
    complete(cli, world)
    kept: dict[str, str] = {}
    for number in (1, 2, 3):
        assert cli.run(world, *world.task_args("--auto-approve", "-h", f"again {number}")) == 0
        now = archives(world)
        assert kept.items() <= now.items()
        assert len(now) == 3 * number
        kept = now
    stamps = [name.split(".")[1] for name in kept]
    assert {stamps.count(stamp) for stamp in stamps} == {3}  # a set has one time stamp
    numbers = sorted(int(re.findall(r"\d+", text)[-1]) for text in kept.values())
    assert numbers == list(range(1, 10))  # what each of nine sessions wrote is there once


def test_an_archive_name_that_is_taken_is_passed_by_for_the_whole_set(cli: Sweeper, world: World) -> None:
    complete(cli, world)
    now = datetime.now(UTC)
    taken = [(now + timedelta(seconds=second)).strftime("%Y%m%d-%H%M%S") for second in range(-2, 30)]
    for stamp in taken:
        (world.task / f"plan.{stamp}.md").write_text("somebody's own")
    (world.task / f"result.{taken[-1]}.md").symlink_to("nowhere")
    assert cli.run(world, *world.task_args("--auto-approve", "-h", "again")) == 0
    fresh = [name for name in archives(world) if name.split(".")[1] not in taken]
    assert {name.split(".")[0] for name in fresh} == {"research", "plan", "result"}
    assert len({name.split(".")[1] for name in fresh}) == 1
    for stamp in taken:
        assert world.read(f"plan.{stamp}.md") == "somebody's own"


def test_a_clock_set_back_to_an_earlier_restart_overwrites_nothing(cli: Sweeper, world: World) -> None:
    """As if the clock had been set back so that this second has been before."""
    complete(cli, world)
    assert cli.run(world, *world.task_args("--auto-approve", "-h", "again")) == 0
    first = archives(world)
    for name in first:  # the same names, some seconds ahead: they lie where the next restart would put its own
        stem, _, suffix = name.split(".")
        for second in range(20):
            stamp = (datetime.now(UTC) + timedelta(seconds=second)).strftime("%Y%m%d-%H%M%S")
            (world.task / f"{stem}.{stamp}.{suffix}").write_text(f"of the future: {stem}")
    before = archives(world)
    assert cli.run(world, *world.task_args("--auto-approve", "-h", "once more")) == 0
    after = archives(world)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 3


def test_a_journal_written_while_the_clock_ran_backwards_is_still_read(world: World) -> None:
    world.script(research(), plan(), finish())
    assert world.run().returncode == 3
    world.rewrite_journal([{**record, "at": "2099-12-31T23:59:59Z"} for record in world.journal()])
    lock = world.task / ".marathon" / "lock"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "since": time.time() + 50 * DAY}))
    assert world.cli("status", "task").returncode == 0
    assert world.run("--auto-approve").returncode == 0
    assert [record["n"] for record in world.journal()] == list(range(1, len(world.journal()) + 1))
