"""The course of a measured loop: which step follows from which records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from marathon.core.budgets import Limits
from marathon.core.courses.measured import Bench, MeasuredLoop
from marathon.core.decide import next_step
from marathon.core.lanes.model import LaneState
from marathon.core.life import Life, fold
from marathon.core.records import (
    Answer,
    CandidateTaken,
    Gate,
    LaneOpened,
    Measured,
    MeasurementKind,
    Proposal,
    Record,
    SessionEnded,
    SessionStarted,
    Settled,
    parse_record,
)
from marathon.core.steps import Finish, Measure, RunSession, Settle, Step, TakeCandidate

COURSE = MeasuredLoop()
STARTED = SessionStarted(iteration=1, phase="iterate", agent="command", runner="m-1")
ENDED = SessionEnded(ending="ended", proposal=Proposal(state="running", phase="iterate", note="cache it"))
STEADY = Measured(kind="baseline", candidate=[100.0] * 5, reference=[100.0] * 5)
FAILED_GUARD = {"name": "guard", "passed": False, "kind": "guard"}


def opened(resumes: int = 0, **settings: Any) -> LaneOpened:
    state = LaneState(lane="perf", run_tag="r1", mode="optimize", verify_command="./bench", **settings)
    return LaneOpened(state=state.facts(), commit="c0", resumes=resumes)


def taken(tree: str = "t1", summary: str = "1 file changed") -> CandidateTaken:
    return CandidateTaken(tree=tree, summary=summary)


def screen(*values: float, **more: Any) -> Measured:
    return Measured(kind="screen", candidate=list(values), **more)


def confirm(value: float, reference: float = 100, **more: Any) -> Measured:
    return Measured(kind="confirm", candidate=[value] * 5, reference=[reference] * 5, **more)


def life_of(*records: Record) -> Life:
    """As the journal has them. A step that settles is carried out as the runner would."""
    stamped = [replace(record, n=n) for n, record in enumerate([COURSE.begin(), *records], start=1)]
    return fold([parse_record(record.to_json().encode()) for record in stamped], COURSE)


def step_of(*records: Record) -> Step:
    return next_step(life_of(*records), COURSE, Limits())


def settled(*records: Record) -> Settled:
    step = step_of(*records)
    assert isinstance(step, Settle), step
    return Settled(row=dict(step.row), commit="c1")


def begun(**settings: Any) -> list[Record]:
    first: list[Record] = [opened(**settings), STEADY]
    return [*first, settled(*first)]


def after(*records: Record, **settings: Any) -> list[Record]:
    return [*begun(**settings), STARTED, ENDED, *records]


def iterated(count: int, **settings: Any) -> list[Record]:
    """So many iterations that fail their guard."""
    records = begun(**settings)
    for number in range(count):
        records += [STARTED, ENDED, taken(f"t{number}"), screen(checks=[FAILED_GUARD])]
        records.append(settled(*records))
        if isinstance(step_of(*records), Measure):
            records.append(Measured(kind="reference", candidate=[100.0] * 5))
    return records


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([taken()], "screen"),
        ([taken(), screen(90, 90, 90)], "confirm"),
        ([taken(), screen(90, 90, 90), confirm(90)], "keep"),
        ([taken(), screen(90, 90, 90), confirm(100)], "revert"),
        ([taken(), screen(90, 90, 90), confirm(90, checks=[FAILED_GUARD])], "revert"),
        ([taken(), screen(90, 90, 90), Measured(kind="confirm", checks=[FAILED_GUARD])], "revert"),
        ([taken(), screen(90, 90, 90), Measured(kind="confirm", problem="verify printed nothing")], "crash"),
        ([taken(), screen(90, 90)], "revert"),  # low confidence never keeps
        ([taken(), screen(100, 100, 100)], "revert"),
        ([taken(), screen(110, 110, 110)], "revert"),
        ([taken(), screen(checks=[FAILED_GUARD])], "revert"),
        ([taken(), screen(problem="verify printed nothing")], "crash"),
        ([taken(summary="")], "skip"),
    ],
)
def test_what_becomes_of_a_candidate(records: list[Record], expected: str) -> None:
    step = step_of(*after(*records))
    assert (step.kind if isinstance(step, Measure) else step.row["action"] if isinstance(step, Settle) else "") == (
        expected
    )


def test_a_session_is_taken_before_anything_is_measured() -> None:
    assert step_of(opened()) == Measure("baseline")
    assert isinstance(step_of(*begun()), RunSession)
    assert step_of(*after()) == TakeCandidate()


@pytest.mark.parametrize("ending", ["crashed", "timeout", "stopped", "lost", "left"])
def test_what_a_session_left_that_was_cut_short_is_no_candidate(ending: Any) -> None:
    step = step_of(*begun(), STARTED, replace(ENDED, ending=ending))
    assert not isinstance(step, TakeCandidate | Measure | Settle)


@pytest.mark.parametrize(
    "bad",
    [
        Measured(kind="baseline", problem="verify printed nothing"),
        Measured(kind="baseline", checks=[FAILED_GUARD]),
        Measured(kind="baseline", candidate=[1.0] * 5, reference=[2.0] * 5),
    ],
)
def test_a_bad_baseline_is_a_gate_until_another_start_measures_again(bad: Measured) -> None:
    gate = step_of(opened(), bad)
    assert isinstance(gate, Gate)
    assert gate.reason == "baseline"
    open_gate = replace(gate, token="t")
    assert isinstance(step_of(opened(), bad, open_gate), Gate)
    assert step_of(opened(), bad, open_gate, opened()) == Measure("baseline")
    assert step_of(opened(), bad, open_gate, Answer(choice="continue")) == Measure("baseline")
    assert isinstance(step_of(opened(), bad, open_gate, opened(), STEADY), Settle)


def test_the_same_change_again_is_skipped_and_three_in_a_row_are_a_gate() -> None:
    records = [*after(taken(), screen(110, 110, 110))]
    records.append(settled(*records))
    for number in range(3):
        assert isinstance(step_of(*records), RunSession), number
        records += [STARTED, ENDED, taken()]
        step = step_of(*records)
        assert isinstance(step, Settle)
        assert step.row["reason"] == "the same change was tried in iteration 1"
        records.append(settled(*records))
    gate = step_of(*records)
    assert isinstance(gate, Gate)
    assert gate.reason == "stuck"
    assert isinstance(step_of(*records, replace(gate, token="t"), Answer(choice="continue")), RunSession)


def test_the_ladder_ends_at_a_gate_and_an_answer_gives_a_fresh_one() -> None:
    records = iterated(15)
    gate = step_of(*records)
    assert isinstance(gate, Gate)
    assert gate.reason == "stuck"
    assert isinstance(step_of(*records, opened()), Gate), "another start alone changes nothing"
    records += [replace(gate, token="t"), Answer(choice="continue")]
    resumed = settled(*records)
    assert resumed.row["action"] == "resumed"
    bench = life_of(*records, resumed).own
    assert isinstance(bench, Bench)
    assert (bench.state.status, bench.state.consecutive_failures, bench.state.pivot_count) == ("running", 0, 0)


def test_the_reference_is_measured_again_after_ten_iterations_and_drift_is_a_row() -> None:
    records = iterated(9)
    records += [STARTED, ENDED, taken("t9"), screen(checks=[FAILED_GUARD])]
    records.append(settled(*records))
    assert step_of(*records) == Measure("reference")
    kind: MeasurementKind = "reference"
    assert isinstance(step_of(*records, Measured(kind=kind, candidate=[100.0] * 5)), RunSession)
    drift = step_of(*records, Measured(kind=kind, candidate=[130.0] * 5))
    assert isinstance(drift, Settle)
    assert (drift.row["action"], drift.row["metric"]) == ("drift", 130)
    gate = step_of(*records, Measured(kind=kind, problem="verify failed"))
    assert isinstance(gate, Gate)
    assert gate.reason == "baseline"


def test_a_higher_cap_never_ends_sooner() -> None:
    for cap in range(1, 5):
        ends = [isinstance(step_of(*iterated(count, max_iterations=cap)), Finish) for count in range(1, 5)]
        assert ends == [count >= cap for count in range(1, 5)]


def test_only_bounds_and_a_resume_count_of_what_the_files_say_later() -> None:
    records = iterated(3)
    changed = opened(max_iterations=7, metric_direction="higher", baseline=5.0, consecutive_failures=0)
    bench = life_of(*records, changed).own
    assert isinstance(bench, Bench)
    state = bench.state
    assert (state.max_iterations, state.metric_direction, state.baseline) == (7, "lower", 100)
    assert state.consecutive_failures == 3
    fresh = life_of(*records, opened(resumes=1)).own
    assert isinstance(fresh, Bench)
    assert fresh.state.consecutive_failures == 0


@pytest.mark.parametrize(("memory", "action"), [(104.0, "keep"), (106.0, "revert")])
def test_a_secondary_metric_may_get_worse_only_so_much(memory: float, action: str) -> None:
    both: dict[str, Any] = {"also": {"memory": [memory] * 5}, "also_reference": {"memory": [100.0] * 5}}
    step = step_of(*after(taken(), screen(90, 90, 90), confirm(90, **both), also=["memory:lower:5%"]))
    assert isinstance(step, Settle)
    assert step.row["action"] == action
