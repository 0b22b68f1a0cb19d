"""The course of a measured loop: which step follows from which records, and which row from which measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from marathon.core.budgets import Limits
from marathon.core.courses.measured import Bench, MeasuredLoop, bench_of
from marathon.core.decide import next_step
from marathon.core.lanes.blocks import Block
from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.rules import baseline_row
from marathon.core.lanes.trial import AT_START, Trial, noise_line, trial_row
from marathon.core.life import Life, fold
from marathon.core.records import (
    Answer,
    Gate,
    Proposal,
    Record,
    RowAdded,
    SessionEnded,
    SessionStarted,
    Trying,
    parse_record,
)
from marathon.core.steps import AddRow, Finish, Measure, RunSession, Step

COURSE = MeasuredLoop()
STARTED = SessionStarted(iteration=1, phase="iterate", agent="command", runner="m-1")
ENDED = SessionEnded(ending="ended", proposal=Proposal(state="running", phase="iterate", note="cache it"))
FAILED_GUARD = Check(name="guard", passed=False, kind="guard")
WON = Block((100, 101), (90, 91))
SAME = Block((100, 101), (100, 101))


def loop(**settings: Any) -> LaneState:
    state = LaneState(lane="perf", run_tag="r1", mode="optimize", verify_command="./bench", measured_by="runner")
    return state.with_(**settings)


def begun(values: tuple[float, ...] = (100.0,) * AT_START, **settings: Any) -> list[Record]:
    row = baseline_row(loop(**settings), values, [], commit="c" * 40, tree="t0")
    return [RowAdded(row=row.facts())]


def life_of(*records: Record) -> Life:
    stamped = [replace(record, n=n) for n, record in enumerate([COURSE.begin(), *records], start=1)]
    return fold([parse_record(record.to_json().encode()) for record in stamped], COURSE)


def step_of(*records: Record) -> Step:
    return next_step(life_of(*records), COURSE, Limits())


def bench(*records: Record) -> Bench:
    return bench_of(life_of(*records))


def row(records: list[Record], trial: Trial, tree: str, **more: Any) -> list[Record]:
    """The records with one more iteration, as the runner would settle it."""
    state = bench(*records).state
    assert state
    made = trial_row(state, trial).model_copy(update={"tree": tree, **more})
    return [*records, STARTED, ENDED, Trying(tree=tree, summary="1 file changed"), RowAdded(row=made.facts())]


def failing(count: int, **settings: Any) -> list[Record]:
    records = begun(**settings)
    for number in range(count):
        records = row(records, Trial(checks=(FAILED_GUARD,)), f"t{number + 1}")
    return records


KEPT = Trial((WON,) * 5, "keep")


def test_what_follows_from_what() -> None:
    assert step_of() == Measure("baseline")
    assert isinstance(step_of(*begun()), RunSession)
    worked = [*begun(), STARTED, ENDED]
    assert step_of(*worked) == Measure("try", "cache it")
    cut_off = [*worked, Trying(tree="t1", summary="1 file changed", hypothesis="cache it", seed=7)]
    assert step_of(*cut_off) == Measure("try", "cache it"), "what was being measured is measured again"
    assert bench(*cut_off).trying is not None
    assert isinstance(step_of(*row(begun(), KEPT, "t1", commit="d" * 40)), RunSession)


@pytest.mark.parametrize("ending", ["crashed", "timeout", "stopped", "lost", "left"])
def test_what_a_session_left_that_was_cut_short_is_no_candidate(ending: Any) -> None:
    step = step_of(*begun(), STARTED, replace(ENDED, ending=ending))
    assert not isinstance(step, Measure | AddRow)


@pytest.mark.parametrize(
    ("trial", "action", "said"),
    [
        (KEPT, "keep", "a sure gain, 20 of 20 comparisons won, p 0.00013"),
        (Trial((SAME,), "drop"), "revert", "no sure gain, 2 of 4 comparisons won, p 0.67"),
        (Trial((Block((9, 9), (8, 8)),), "keep", noiseless=True), "keep", "better, and the number has no noise"),
        (replace(KEPT, checks=(FAILED_GUARD,)), "revert", "failed checks: guard"),
        (Trial(error="verify printed nothing"), "crash", None),
        (Trial(skipped="nothing was changed"), "skip", None),
    ],
)
def test_what_becomes_of_a_candidate(trial: Trial, action: str, said: str | None) -> None:
    made = trial_row(loop(baseline=100.0), trial)
    assert (made.action, made.acceptance_reason) == (action, said)


def test_a_loop_that_logs_takes_what_passed_its_checks() -> None:
    state = loop(baseline=100.0, acceptance_mode="log")
    assert [trial_row(state, each).acceptance_passed for each in (Trial((SAME,)), Trial(checks=(FAILED_GUARD,)))] == [
        True,
        False,
    ]


def test_a_gain_that_looks_too_good_is_kept_and_marked_and_with_careful_asked_about() -> None:
    good = Trial((Block((100, 101), (40, 41)),) * 5, "keep")
    assert trial_row(loop(baseline=100.0), good).doubtful == "looks too good: see the diff"
    assert trial_row(loop(baseline=100.0), KEPT).doubtful is None
    assert isinstance(step_of(*row(begun(), good, "t1", commit="d" * 40)), RunSession)
    careful = row(begun(careful=True), good, "t1", commit="d" * 40)
    gate = step_of(*careful)
    assert isinstance(gate, Gate)
    assert "loop show perf/r1 1" in gate.message
    assert isinstance(step_of(*careful, replace(gate, token="t"), Answer(choice="continue")), RunSession)


def test_three_sessions_that_leave_nothing_new_are_a_gate() -> None:
    records = begun()
    for number in range(3):
        assert isinstance(step_of(*records), RunSession), number
        records = row(records, Trial(skipped="nothing was changed"), "t0")
    gate = step_of(*records)
    assert isinstance(gate, Gate)
    assert (gate.reason, "nothing was changed" in gate.message) == ("stuck", True)
    assert isinstance(step_of(*records, replace(gate, token="t"), Answer(choice="continue")), RunSession)


def test_the_ladder_advises_and_stops_nothing_and_a_keep_gives_the_pivots_back() -> None:
    records = failing(17)
    assert isinstance(step_of(*records), RunSession)
    state = bench(*records).state
    assert state
    assert (state.consecutive_failures, state.pivot_count) == (2, 3)
    kept = bench(*row(records, KEPT, "t99", commit="d" * 40)).state
    assert kept
    assert (kept.consecutive_failures, kept.pivot_count) == (0, 0)


def test_the_seeds_ladder_ends_at_a_gate_and_an_answer_gives_a_fresh_one() -> None:
    records = failing(15, ladder="seed")
    gate = step_of(*records)
    assert isinstance(gate, Gate)
    assert gate.reason == "stuck"
    step = step_of(*records, replace(gate, token="t"), Answer(choice="continue"))
    assert isinstance(step, AddRow)
    state = bench(*records, RowAdded(row=dict(step.row))).state
    assert state
    assert (state.status, state.consecutive_failures, state.pivot_count) == ("running", 0, 0)


def test_a_loop_that_kept_something_measures_at_its_end_what_it_has_gained() -> None:
    records = row(begun(max_iterations=1), KEPT, "t1", commit="d" * 40)
    assert step_of(*records) == Measure("gained")
    confirmed = Row(iteration=1, action="confirmed", metric=90.0, baseline=100.0, ratio=[0.9, 0.89, 0.91])
    assert step_of(*records, RowAdded(row=confirmed.facts())) == Finish()
    assert step_of(*failing(1, max_iterations=1)) == Finish()


def test_a_higher_cap_never_ends_sooner() -> None:
    for cap in range(1, 5):
        ends = [isinstance(step_of(*failing(count, max_iterations=cap)), Finish) for count in range(1, 5)]
        assert ends == [count >= cap for count in range(1, 5)]


def test_one_pair_of_runs_that_differ_means_noise_for_good() -> None:
    assert bench(*begun()).noiseless
    assert not bench(*begun((100.0,) * (AT_START - 1) + (101.0,))).noiseless
    records = row(begun(), Trial((SAME,), "drop"), "t1")
    assert not bench(*records).noiseless
    assert not bench(*row(records, Trial((Block((1, 1), (1, 1)),), "drop"), "t2")).noiseless


def test_a_pause_leaves_what_is_open() -> None:
    gate = Gate(reason="question", phase="iterate", message="which?", token="t")
    paused = RowAdded(row=Row(iteration=0, action="paused").facts())
    life = life_of(*begun(), STARTED, replace(ENDED, question="which?"), gate, paused)
    assert life.gate is not None
    state = bench_of(life).state
    assert state
    assert state.status == "paused"


def test_what_an_agent_measured_before_is_no_ground_for_the_runner() -> None:
    """Its rows are kept, and a baseline of the runner's own is measured."""
    reported = [Row(iteration=n, action="keep", metric=1.0) for n in (1, 2)]
    records: list[Record] = [RowAdded(row=each.facts()) for each in reported]
    assert step_of(*records) == Measure("baseline")
    both = bench(*records, RowAdded(row=baseline_row(loop(iteration=2), (100.0,), [], commit="c" * 40).facts()))
    assert both.state
    assert (both.state.best_metric, both.state.keeps, both.state.iteration, len(both.rows)) == (100, 0, 2, 3)


def test_the_noise_says_which_gain_is_mostly_missed() -> None:
    assert noise_line([100.0] * 12, "time") == "time has no noise: any gain can be seen"
    assert noise_line([90, 100, 110] * 4, "time") == "noise 15 %: a gain under 33 % is mostly missed"


def test_what_a_session_left_before_a_pause_is_tried_after_it() -> None:
    marks = [RowAdded(row=Row(iteration=0, action=action).facts()) for action in ("paused", "resumed")]
    assert step_of(*begun(), STARTED, ENDED, *marks) == Measure("try", "cache it")
