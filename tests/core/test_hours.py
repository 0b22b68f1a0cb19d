"""--hours: when sessions may start, and what waits for it."""

from __future__ import annotations

from datetime import datetime

import pytest

from marathon.core.budgets import Limits
from marathon.core.courses.phases import Phases
from marathon.core.decide import next_step
from marathon.core.hours import opens_at, parse_hours
from marathon.core.records import Record, WaitEnded, WaitStarted
from marathon.core.steps import RunSession, Step, Wait
from tests.core.making import RPI, after, begun, fold, gate, left, verdict

LIMITS = Limits(hours="20:00-07:00")
WAITING = WaitStarted(kind="hours", seconds=60, reason="your hours are 20:00-07:00", until=1000)


@pytest.mark.parametrize(
    ("hours", "now", "opens"),
    [
        ("20:00-07:00", "2026-02-02 19:59", "2026-02-02 20:00"),
        ("20:00-07:00", "2026-02-02 20:00", ""),
        ("20:00-07:00", "2026-02-02 06:59", ""),
        ("20:00-07:00", "2026-02-02 07:00", "2026-02-02 20:00"),
        ("9:00-17:30", "2026-02-02 17:30", "2026-02-03 09:00"),
        ("9:00-17:30", "2026-02-02 08:00", "2026-02-02 09:00"),
        ("18:00-24:00", "2026-02-28 00:00", "2026-02-28 18:00"),
        ("", "2026-02-02 12:00", ""),
    ],
)
def test_when_the_hours_begin(hours: str, now: str, opens: str) -> None:
    found = opens_at(hours, datetime.fromisoformat(now))
    assert found == (datetime.fromisoformat(opens) if opens else None)


@pytest.mark.parametrize("text", ["20-7", "25:00-07:00", "20:00-07:60", "20:00-20:00", "20:00-24:30", "night"])
def test_what_says_no_hours(text: str) -> None:
    assert parse_hours(text) is None


def step(records: list[Record], closed_for: float) -> Step:
    return next_step(fold(records), Phases(RPI), LIMITS, closed_for)


REDONE = [*after("research", left("paused/research")), gate("review", "research"), verdict("continue", text="mind X")]


@pytest.mark.parametrize(
    "records",
    [[begun("research")], after("implement", left("running/implement")), [*REDONE]],
    ids=["at the beginning", "between sessions", "after an answer"],
)
def test_a_session_outside_of_the_hours_waits_and_is_then_the_same_session(records: list[Record]) -> None:
    there = [*records]
    while not isinstance(open_now := step(there, 0), RunSession):
        there.append(open_now.record)  # type: ignore[union-attr]  # a move to the next phase needs no hours
    assert step(there, 60) == Wait("hours", 60, WAITING.reason)
    assert step([*there, WAITING], 30) == Wait("hours", 30, WAITING.reason, started=WAITING)
    assert step([*there, WAITING], 0) == open_now, "a runner that comes back in the hours does not wait"
    assert step([*there, WAITING, WaitEnded()], 0) == open_now


def test_other_hours_begin_another_wait() -> None:
    waits = next_step(fold([begun("research"), WAITING]), Phases(RPI), Limits(hours="21:00-07:00"), 90)
    assert waits == Wait("hours", 90, "your hours are 21:00-07:00")


def test_a_gate_and_a_wait_of_the_agent_come_at_any_hour() -> None:
    assert step(after("research", left("paused/research")), 60) == step(after("research", left("paused/research")), 0)
    asked = after("implement", left("running/implement", wait={"seconds": 90, "reason": "CI"}))
    assert step(asked, 60) == step(asked, 0)


def test_going_on_now_counts_until_the_hours_begin() -> None:
    assert fold([begun("research"), WAITING, WaitEnded(early=True)]).free_until == 1000
    assert fold([begun("research"), WAITING, WaitEnded()]).free_until == 0
