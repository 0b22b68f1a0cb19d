"""What the journal tells of each session: every one that ended, once, under its own run and number."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marathon.core.budgets import Usage
from marathon.core.records import Record, RunStarted, SessionEnded, SessionStarted, Torn, WaitAsked
from marathon.core.sessions import how_many, sessions_of
from tests.core.making import RPI, begun
from tests.core.strategies import any_record

RUN_2 = RunStarted(run=2, path=[("rpi", 0)], phase="research")


def session(iteration: int, phase: str = "research", **ended: Any) -> list[Record]:
    return [
        SessionStarted(at=f"start {iteration}", iteration=iteration, phase=phase, agent="command"),
        SessionEnded(at=f"end {iteration}", **{"ending": "ended", **ended}),
    ]


def told(*records: Record) -> list[tuple[int, int, str]]:
    return [(facts["run"], facts["iteration"], facts["phase"]) for facts in sessions_of(records)]


def test_every_session_is_told_under_its_run_in_the_order_they_ran() -> None:
    first, second = session(1), session(2, "plan")
    again = session(1)
    assert told(begun("research"), *first, *second, RUN_2, *again) == [
        (1, 1, "research"),
        (1, 2, "plan"),
        (2, 1, "research"),
    ]


def test_a_session_that_runs_is_not_told_yet() -> None:
    assert told(begun("research"), *session(1), session(2)[0]) == [(1, 1, "research")]


def test_one_whose_end_was_recorded_by_a_later_runner_is_told_once() -> None:
    start, end = session(1)
    assert told(begun("research"), start, Torn(bytes=3), end) == [(1, 1, "research")]


def test_the_facts_are_plain_and_say_when_it_began_and_ended() -> None:
    ended: dict[str, Any] = {
        "ending": "crashed",
        "cause": "exit code 1",
        "seconds": 2.5,
        "usage": Usage(cost=0.5, turns=3),
    }
    [facts] = sessions_of([begun("research"), *session(7, **ended, wait=WaitAsked(seconds=60), steps=(1, 2))])
    assert json.loads(json.dumps(facts)) == facts | {"steps": [1, 2]}
    assert (facts["startedAt"], facts["endedAt"], facts["agent"]) == ("start 7", "end 7", "command")
    assert (facts["ending"], facts["cause"], facts["seconds"]) == ("crashed", "exit code 1", 2.5)
    assert facts["usage"]["cost"] == 0.5
    assert facts["wait"] == {"seconds": 60, "reason": ""}
    assert not facts.keys() & {"n", "at", "type"}


@given(st.lists(any_record(RPI, "rpi")))
def test_of_any_journal_no_more_sessions_are_told_than_began(records: list[Record]) -> None:
    assert len(told(*records)) <= sum(isinstance(record, SessionStarted) for record in records)


def test_the_sessions_of_every_run_are_counted_with_the_one_that_is_not_over() -> None:
    first = [begun("research"), *session(1), *session(2), RUN_2]
    assert how_many([*first, *session(1)]) == "3 sessions"
    assert how_many([*first, session(1)[0]]) == "3 sessions, one not over"
    assert how_many([]) == "0 sessions"
