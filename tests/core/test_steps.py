"""A wait neither ends early nor hangs, whatever happens to the clocks; killed and started again, the rest is left."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.records import Record, WaitStarted
from marathon.core.steps import Now, carried_over, left, wait_record
from marathon.process.clock import boot_id
from tests.core.making import after, thorough
from tests.core.making import left as ended
from tests.support.world import World, research

DAY = 86_400.0
BEGAN = Now(wall=1_000_000.0, boot="this boot", since_boot=500.0)
FIVE_MINUTES = wait_record("agent", 300, "CI", BEGAN)


def later(seconds: float, *, clock_set: float = 0) -> Now:
    """So much later in the same boot, with the wall clock set forward or back."""
    return Now(BEGAN.wall + seconds + clock_set, BEGAN.boot, BEGAN.since_boot + seconds)


def rebooted(seconds: float, *, clock_set: float = 0) -> Now:
    """So much later, in another boot whose clock has just begun."""
    return Now(BEGAN.wall + seconds + clock_set, "another boot", 20.0)


def test_a_wait_is_recorded_with_its_deadline_on_both_clocks() -> None:
    assert wait_record("agent", 300, "CI", BEGAN) == WaitStarted(
        kind="agent", seconds=300, reason="CI", until=1_000_300, boot="this boot", until_boot=800
    )


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        (later(0), 300),
        (later(120), 180),  # killed at minute 2 and started again: 3 minutes are left
        (later(299.5), 0.5),
        (later(300), 0),
        (later(5000), 0),
        # the wall clock is set while the machine is up: it does not matter
        (later(120, clock_set=-DAY), 180),
        (later(120, clock_set=DAY), 180),
        (later(300, clock_set=-DAY), 0),
        # asleep: the clock of the boot goes on, so a laptop opened after an hour does not wait again
        (later(3600), 0),
        # another boot: the wall clock is all there is
        (rebooted(120), 180),
        (rebooted(300), 0),
        (rebooted(DAY), 0),
        # another boot with the clock set back: never more than the whole wait
        (rebooted(120, clock_set=-DAY), 300),
        (rebooted(120, clock_set=-1e9), 300),
    ],
)
def test_what_is_left_of_five_minutes(now: Now, seconds: float) -> None:
    assert left(FIVE_MINUTES, now) == pytest.approx(seconds)


def test_where_boots_have_no_names_the_wall_clock_counts() -> None:
    nameless = wait_record("agent", 300, "CI", Now(BEGAN.wall, "", 500.0))
    assert left(nameless, Now(BEGAN.wall + 120, "", 9000.0)) == 180


@thorough
@given(
    seconds=st.floats(0, 3600),
    wall=st.floats(0, 4e9),
    boot=st.sampled_from(["this boot", "another boot", ""]),
    since_boot=st.floats(0, 1e8),
)
def test_never_less_than_nothing_and_never_more_than_the_wait(
    seconds: float, wall: float, boot: str, since_boot: float
) -> None:
    record = wait_record("retry", seconds, "", BEGAN)
    assert 0 <= left(record, Now(wall, boot, since_boot)) <= seconds


@thorough
@given(
    passed=st.floats(0, 1000),
    clock_set=st.floats(-DAY, DAY),
    onward=st.floats(0, 1000),
    set_again=st.floats(-DAY, DAY),
)
def test_carried_over_to_another_boot_it_counts_down_whatever_the_wall_clock_does(
    passed: float, clock_set: float, onward: float, set_again: float
) -> None:
    up = rebooted(passed, clock_set=clock_set)
    carried = carried_over(FIVE_MINUTES, up)
    rest = left(FIVE_MINUTES, up)
    assert left(carried, up) == pytest.approx(rest)
    then = Now(up.wall + set_again, up.boot, up.since_boot + onward)
    assert left(carried, then) == pytest.approx(max(0.0, rest - onward), abs=1e-6)
    assert (carried.kind, carried.seconds, carried.reason) == ("agent", 300, "CI")


def test_after_a_reboot_with_the_clock_set_back_a_day_a_wait_still_ends(world: World) -> None:
    """The whole way: a journal from another boot, whose deadline lies a day ahead on the wall clock."""
    asked = WaitStarted(kind="agent", seconds=0.5, reason="CI", until=time.time() + DAY, boot="another boot")
    records: list[Record] = [*after("research", ended("running/research", wait={"seconds": 60})), asked]
    (world.task / "STATE.json").write_text('{"state": "running", "phase": "research", "iteration": 1}')
    world.kept.mkdir(parents=True)
    (world.kept / "journal.jsonl").write_text("".join(line.to_json() + "\n" for line in records))
    world.script(research())
    assert world.run().returncode == 3
    assert world.sessions() == 1
    assert "You asked to wait" in world.prompt(1)
    assert [record["boot"] for record in world.records("wait_started")] == ["another boot", boot_id()]
    assert len(world.records("wait_ended")) == 1
