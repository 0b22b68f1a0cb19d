"""The network or the provider is away, or its limit resets later: waited out, and counted apart from failures of the
work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from marathon.core.budgets import Limits, Usage
from marathon.core.courses.phases import Phases
from marathon.core.decide import next_step
from marathon.core.records import AgentTakesOver, Gate, Record, RunStarted, SessionEnded, WaitEnded, WaitStarted
from marathon.core.steps import Note, RunSession, Step, Wait
from tests.core.making import RPI, after, decide, fold, gate, in_words, left, started, told, verdict

CHUNK = left("running/implement")
CRASH = left(None, ending="crashed", cause="exit code 1")
SIX_HOURS = 6 * 3600


def away(seconds: float = 0, **more: Any) -> SessionEnded:
    return left(None, ending="refused", cause="Connection error.", outage=True, seconds=seconds, **more)


def steps(records: list[Record], limits: Limits, ended: SessionEnded, most: int = 200) -> Iterator[Step]:
    """What the runner does while every session ends like that, up to a gate."""
    for _ in range(most):
        life = fold(records)
        step = next_step(life, Phases(RPI), limits)
        yield step
        match step:
            case RunSession():
                agent = life.takes_over or "pi"
                records += [replace(started("implement", life.iteration + 1), agent=agent), ended]
            case Wait(started=None):
                records.append(WaitStarted(kind=step.kind, seconds=step.seconds, reason=step.reason, until=0))
            case Wait():
                records.append(WaitEnded())
            case Note():
                records.append(step.record)
            case _:
                return


def under_way(*ended: SessionEnded) -> list[Record]:
    return after("implement", CHUNK, *ended)


def waits(records: list[Record]) -> list[float]:
    return [record.seconds for record in records if isinstance(record, WaitStarted)]


def test_a_night_is_waited_out_with_waits_that_grow_to_ten_minutes() -> None:
    records = under_way(away(15))
    (*_, last) = steps(records, Limits(), away(15))
    assert isinstance(last, Gate)
    assert (last.reason, last.message) == (
        "failed",
        "The provider could not be reached for 6h 00m (--outage): Connection error.",
    )
    grown = waits(records)
    assert grown[:10] == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600]
    assert set(grown[10:-1]) == {600}
    sessions = sum(isinstance(record, SessionEnded) for record in records) - 1
    assert sum(grown) + 15 * sessions == pytest.approx(SIX_HOURS, abs=15)
    assert {record.kind for record in records if isinstance(record, WaitStarted)} == {"outage"}


def test_it_is_no_failure_of_the_work_and_uses_up_no_session() -> None:
    life = fold(under_way(*[away()] * 40))
    assert (life.streaks.failed, life.streaks.outages, life.streaks.error_at) == (0, 40, ())
    assert (life.used.sessions, life.iteration) == (1, 41)
    assert in_words(decide(under_way(*[away()] * 40), limits=Limits(max_iterations=2))) == "wait outage 600"
    assert in_words(decide(under_way(*[away()] * 40, CRASH))) == "wait retry 2"


@pytest.mark.parametrize("over", [CHUNK, CRASH, left("running/implement", changed=False)])
def test_the_next_one_is_counted_anew(over: SessionEnded) -> None:
    assert in_words(decide(under_way(away(), away(), over, away()))) == "wait outage 2"


def test_a_wait_that_a_human_ended_does_not_count_as_waited() -> None:
    wait = WaitStarted(kind="outage", seconds=600, reason="-", until=0)
    for early, counted in ((True, 7), (False, 607)):
        assert fold([*under_way(away(7)), wait, WaitEnded(early=early)]).streaks.away == counted


def test_an_answer_at_its_gate_gives_it_the_whole_time_again() -> None:
    wait = WaitStarted(kind="outage", seconds=SIX_HOURS, reason="-", until=0)
    records = [*under_way(away()), wait, WaitEnded(), started("implement", 3), away()]
    assert in_words(decide(records)) == "gate failed implement, then again"
    records += [gate("failed", "implement", "again"), verdict(), started("implement", 4), away()]
    assert in_words(decide(records)) == "wait outage 2"


def test_zero_lets_it_count_as_any_failure() -> None:
    """The runner then records it as one."""
    assert in_words(decide(under_way(away()), limits=Limits(outage=0))).startswith("wait retry")


def test_before_a_run_is_under_way_it_is_a_gate_after_three_tries() -> None:
    records = after("implement", away())
    (*_, last) = steps(records, Limits(), away())
    assert isinstance(last, Gate)
    assert last.reason == "failed"
    assert "3 times in a row. No session of this run has worked yet" in last.message
    assert last.message.endswith(": Connection error.")
    assert waits(records) == [2, 4]


def test_a_new_run_has_to_get_under_way_again() -> None:
    run = RunStarted(run=2, path=[("rpi", 2)], phase="implement")
    assert in_words(decide([*under_way(), run, *after("implement", *[away()] * 3)[1:]])).startswith("gate failed")


def test_a_model_that_worked_before_it_was_gone_shows_that_the_network_is_right() -> None:
    worked = away(usage=vars(Usage(input=10, output=20)))
    assert in_words(decide(after("implement", worked, away(), away(), away()))) == "wait outage 16"


def test_another_agent_takes_over_after_ten_minutes() -> None:
    records = under_way(away(20))
    took = [step for step in steps(records, Limits(agents=("pi", "codex")), away(20), 40) if isinstance(step, Note)]
    assert [step.record for step in took] == [AgentTakesOver(agent="codex", after="pi", cause="Connection error.")]
    place = next(n for n, record in enumerate(records) if isinstance(record, AgentTakesOver))
    before = records[:place]
    spent = sum(waits(before)) + sum(record.seconds for record in before if isinstance(record, SessionEnded))
    assert 600 <= spent <= 620


def test_a_provider_that_says_how_long_is_believed_up_to_the_end() -> None:
    assert in_words(decide(under_way(away(retry_after=1800)))) == "wait outage 1800"
    assert in_words(decide(under_way(away(retry_after=90_000)))) == f"wait outage {SIX_HOURS}"


def test_without_a_first_wait_there_is_one_all_the_same() -> None:
    assert in_words(decide(under_way(away()), limits=Limits(retry_wait=0))) == "wait outage 2"


def limited(reset: float, **more: Any) -> SessionEnded:
    return left(None, ending="refused", cause="usage limit", retry_after=reset, **more)


@pytest.mark.parametrize(
    ("ended", "limits", "step"),
    [
        ([limited(90)], Limits(retries=0), "wait retry 90"),
        ([limited(90)] * 9, Limits(retries=1, max_iterations=2), "wait retry 512"),
        (
            [limited(90_000)],
            Limits(outage=60),
            "wait retry 90000",
        ),  # believed, even if it is longer than an outage may be
        ([CRASH, limited(90), CRASH], Limits(retries=2), "wait retry 4"),  # counted apart
        ([CRASH, limited(90), CRASH], Limits(retries=1), "gate failed implement, then again"),
        ([away(), limited(90)], Limits(retries=0), "wait retry 90"),
        ([limited(90), away()], Limits(retries=0), "wait outage 4"),
        ([limited(90)] * 2, Limits(retries=1, outage=0), "gate failed implement, then again"),
        ([limited(90)] * 2, Limits(retries=2, outage=0), "wait retry 90"),
    ],
)
def test_a_limit_that_says_when_it_resets_is_no_failure_of_the_work(
    ended: list[SessionEnded], limits: Limits, step: str
) -> None:
    assert in_words(decide(under_way(*ended), limits=limits)) == step


def test_a_limit_is_waited_out_before_a_run_is_under_way_too() -> None:
    """Other than a wrong network it is no setting."""
    assert in_words(decide(after("implement", *[limited(90)] * 5))) == "wait retry 90"


@pytest.mark.parametrize(("reset", "most"), [(1, 60), (3600, 37), (7 * 24 * 3600, 37)])
def test_a_reset_that_never_comes_is_a_gate_in_the_end(reset: float, most: int) -> None:
    records = under_way(limited(reset))
    (*_, last) = steps(records, Limits(), limited(reset))
    assert isinstance(last, Gate)
    assert last.message.startswith("The provider refused for 6h 0")
    assert last.message.endswith("m (--outage): usage limit")
    assert 30 < len(waits(records)) <= most


def test_its_reason_is_told() -> None:
    assert told(decide(under_way(away()))) == "the provider cannot be reached (Connection error.)"
