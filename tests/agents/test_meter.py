"""What a session uses, counted while it runs."""

from __future__ import annotations

from marathon.agents.meter import Meter
from marathon.core.budgets import Allowance, Limits, Usage, Used
from marathon.core.events import Event, Notice, Text, ToolCalled
from marathon.core.events import Used as Message


def spent(cost: float) -> Message:
    return Message(Usage(cost=cost, input=10, turns=1))


def test_every_event_goes_on_and_what_costs_is_counted() -> None:
    events: list[Event] = [spent(0.5), Text("hello"), ToolCalled("1", "bash"), spent(0.25)]
    seen: list[Event] = []
    meter = Meter(seen.append)
    assert meter.reported is None
    for event in events:
        meter.emit(event)
    assert seen == events
    assert meter.reported == Usage(cost=0.75, input=20, turns=2, toolCalls=1)
    assert not meter.must_stop()


def test_each_budget_is_warned_of_once_and_ends_the_session_when_it_is_used_up() -> None:
    seen: list[Event] = []
    meter = Meter(seen.append, Allowance(Limits(max_cost=1, max_seconds=100), Used(cost=0.5, seconds=70)))
    meter.emit(spent(0.3))
    meter.at(10)
    meter.emit(spent(0.1))
    meter.at(20)
    said = [event.text for event in seen if isinstance(event, Notice)]
    assert said == [
        "$0.80 of $1.00 (--max-cost) are used.",
        "1m 20s of 1m 40s of working time (--max-time) are used.",
    ]
    assert meter.warned == ["max_cost", "max_seconds"]
    assert not meter.must_stop()
    meter.emit(spent(0.2))
    assert meter.must_stop()
    assert meter.stopped_for
    assert meter.stopped_for.flag == "--max-cost"


def test_an_agent_that_keeps_to_its_budgets_itself_is_ended_only_when_it_is_late() -> None:
    meter = Meter(allowance=Allowance(Limits(max_cost=1, max_seconds=100)))
    meter.emit(spent(5))
    meter.at(129)
    assert not meter.must_stop(late=30)
    meter.at(130)
    assert meter.must_stop(late=30)
    assert meter.stopped_for
    assert meter.stopped_for.flag == "--max-time"


def test_warnings_wait_while_a_program_has_the_terminal() -> None:
    seen: list[Event] = []
    meter = Meter(seen.append, Allowance(Limits(max_seconds=100)))
    meter.quiet = True
    meter.at(90)
    assert seen == []
    meter.quiet = False
    meter.warn()
    assert len(seen) == 1


def test_time_that_passes_is_warned_of_without_any_event() -> None:
    seen: list[Event] = []
    meter = Meter(seen.append, Allowance(Limits(max_seconds=100)))
    meter.at(79)
    assert seen == []
    meter.at(80)
    assert [type(event) for event in seen] == [Notice]
