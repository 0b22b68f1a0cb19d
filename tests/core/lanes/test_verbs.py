"""The verbs of a lane that an agent measures: what they record, and what they refuse."""

from __future__ import annotations

import pytest

from marathon.core.lanes import verbs
from marathon.core.lanes.model import ActiveIteration, Check, LaneState, Refused, parse_row
from marathon.core.lanes.rules import applied, lesson, reanchors, rebuilt
from marathon.core.validation import Invalid
from tests.core.lanes.making import NOW, Walk, guard, lane, with_baseline


def _active(state: LaneState) -> ActiveIteration:
    assert state.active_iteration is not None
    return state.active_iteration


def test_the_first_measurement_is_the_baseline_and_no_iteration() -> None:
    walk = with_baseline(10, 11, 12)
    state = walk.state
    assert (state.baseline, state.current_metric, state.best_metric) == (11, 11, 11)
    assert (state.iteration, state.active_iteration, state.measured_by) == (0, None, "agent")
    assert [(row.action, row.iteration, row.is_mark) for row in walk.rows] == [("baseline", 0, True)]


@pytest.mark.parametrize("values", [[], [float("nan")], [1.0, float("inf")]])
def test_what_is_no_number_is_refused(values: list[float]) -> None:
    for state in (lane(), with_baseline().state):
        with pytest.raises(Refused, match="verify again"):
            verbs.measure(state, NOW, values)
    with pytest.raises(Refused, match="verify again"):
        verbs.decide(with_baseline().state, NOW, "keep", values)


def test_a_configured_guard_without_a_verdict_counts_as_failed() -> None:
    walk = with_baseline(guard_command="make test", prompt_verifier="Is it readable?")
    active = _active(walk.measure(50, checks=[Check(name="guard", passed=True)]))
    assert [(each.name, each.passed) for each in active.checks or ()] == [
        ("guard", True),
        ("guard", False),
        ("prompt verifier", False),
    ]
    assert (active.recommended_action, active.acceptance_passed) == ("revert", False)
    judged = Check(name="", passed=True, prompt=" Is it readable? ")
    active = _active(walk.measure(50, checks=[guard(), judged]))
    assert (active.recommended_action, [each.name for each in active.checks or ()]) == ("keep", ["guard", "check-2"])


def test_a_better_number_with_a_failed_check_is_reverted_and_counts_as_a_failure() -> None:
    walk = with_baseline()
    row = walk.turn(50, checks=[Check(name="lint", passed=False)])
    assert (row.action, row.acceptance_reason) == ("revert", "metric improved; failed checks: lint")
    assert (walk.state.consecutive_failures, walk.state.current_metric) == (1, 100)


def test_decide_wants_the_numbers_and_the_action_of_the_measurement() -> None:
    walk = with_baseline()
    walk.measure(80, 81)
    for action, values in (("keep", [80]), ("keep", [80, 82]), ("revert", [80, 81]), ("log", [80, 81])):
        with pytest.raises(Refused, match=r"pi-marathon loop decide perf keep --value 80 --value 81"):
            verbs.decide(walk.state, NOW, action, values)
    with pytest.raises(Refused, match=r"loop log perf skip"):
        verbs.decide(walk.state, NOW, "skip", [80, 81])
    row = walk.decide("keep", 81, 80.0)
    assert (row.metric, row.baseline, row.delta, row.confidence) == (80.5, 100, -19.5, "low")


def test_decide_without_a_baseline_or_a_measurement_is_refused() -> None:
    with pytest.raises(Refused, match="no baseline"):
        verbs.decide(lane(), NOW, "keep", [1])
    with pytest.raises(Refused, match="no measurement"):
        verbs.decide(with_baseline().iterate(), NOW, "keep", [1])


def test_an_iteration_is_started_once_and_not_left_undecided() -> None:
    walk = with_baseline()
    first = _active(walk.iterate(hypothesis="cache"))
    again = _active(walk.iterate(hypothesis="index"))
    assert (again.iteration, again.started_at, again.hypothesis) == (first.iteration, first.started_at, "index")
    walk.measure(80)
    with pytest.raises(Refused, match=r"loop decide perf keep --value 80"):
        walk.iterate()
    assert _active(walk.measure(70)).measurements == [70]
    assert walk.decide("keep", 70).hypothesis == "index"


def test_a_measurement_may_open_the_iteration() -> None:
    assert _active(with_baseline().measure(80)).iteration == 1


def test_fifteen_failures_climb_the_ladder_to_its_end() -> None:
    walk = with_baseline()
    steps = [walk.turn(200).escalation_type for _ in range(15)]
    assert {number: step for number, step in enumerate(steps, 1) if step} == {
        **{3: "refine", 4: "refine", 5: "pivot", 8: "refine", 9: "refine", 10: "pivot"},
        **{13: "refine", 14: "refine", 15: "stop"},
    }
    assert (walk.state.status, walk.state.pivot_count) == ("stopped", 2)
    with pytest.raises(Refused, match="loop resume perf/r1"):
        walk.iterate()


def test_a_keep_resets_the_streak_but_not_the_pivots() -> None:
    walk = with_baseline()
    for _ in range(7):
        walk.turn(200)
    walk.turn(50)
    assert (walk.state.consecutive_failures, walk.state.pivot_count) == (0, 1)


def test_a_resumed_lane_gets_a_fresh_ladder_that_its_rows_tell() -> None:
    walk = with_baseline()
    for _ in range(15):
        walk.turn(200)
    walk.resume()
    assert [walk.turn(200).escalation_type for _ in range(5)] == [None, None, "refine", "refine", "pivot"]
    assert rebuilt(walk.state, walk.rows) == walk.state
    assert walk.state.status == "running"


def test_log_does_not_move_the_reference_of_a_lane_that_keeps_and_reverts() -> None:
    walk = with_baseline(guard_command="make test")
    walk.measure(1)
    row = walk.log()
    assert (row.metric, row.measurements) == (None, [1])
    assert (walk.state.current_metric, walk.state.best_metric, walk.state.logs) == (100, 100, 1)
    for action in ("skip", "crash", "blocked"):
        walk.measure(1)
        walk.log(action)
    assert (walk.state.current_metric, walk.state.iteration) == (100, 4)
    assert (walk.state.crashes, walk.state.blocked, walk.state.last_action) == (1, 1, "blocked")


def test_a_log_lane_takes_every_number_but_the_best_only_with_passed_checks() -> None:
    walk = with_baseline(mode="research")
    assert walk.turn(120).action == "log"
    assert (walk.state.current_metric, walk.state.best_metric) == (120, 100)
    walk.turn(90)
    walk.turn(10, checks=[guard(False)])
    assert (walk.state.current_metric, walk.state.best_metric) == (10, 90)
    assert walk.state.consecutive_failures == 0


def test_a_broken_tree_gives_no_baseline() -> None:
    walk = Walk(lane(guard_command="make test"))
    with pytest.raises(Refused, match="broken"):
        walk.measure(100, checks=[guard(False)])
    assert walk.measure(100).baseline == 100, "a verdict that is only missing is told, not refused"
    assert walk.rows[0].acceptance_passed is False


def test_fewer_samples_than_the_lane_wants_are_refused() -> None:
    with pytest.raises(Refused, match="at least 3 samples and got 2"):
        Walk(lane(min_measurements=3)).measure(1, 2)


def test_a_target_that_the_baseline_meets_completes_the_lane_with_no_iteration() -> None:
    assert (with_baseline(100, target_metric=100).state.status) == "completed"
    assert (with_baseline(100, target_metric=99).state.status) == "running"
    unchecked = with_baseline(100, target_metric=100, guard_command="make test")
    assert unchecked.state.status == "running", "no one said that the guard passes"


def test_a_cap_counts_every_row_and_a_stop_of_the_ladder_wins_over_it() -> None:
    walk = with_baseline(max_iterations=2)
    walk.turn(200)
    walk.log("skip")
    assert (walk.state.status, walk.state.finished_at) == ("completed", NOW)
    long = with_baseline(max_iterations=15)
    while long.state.status == "running":
        long.turn(200)
    assert (long.state.iteration, long.state.status) == (15, "stopped")


def test_resume_is_refused_while_the_end_holds_and_names_the_option() -> None:
    walk = with_baseline(max_iterations=1, target_metric=10)
    walk.turn(5)
    with pytest.raises(Refused, match="--max-iterations"):
        walk.resume()
    with pytest.raises(Refused, match="--target"):
        walk.resume(max_iterations=9)
    walk.resume(max_iterations=9, target_metric=1)
    assert walk.state.status == "running"
    stale = walk.state.with_(max_iterations=1)
    assert rebuilt(stale, walk.rows).max_iterations == 9, "the rows tell what was raised"


def test_the_runner_s_lanes_take_no_numbers_from_an_agent() -> None:
    state = lane(measured_by="runner")
    with pytest.raises(Refused, match="loop run perf"):
        verbs.measure(state, NOW, [1])
    with pytest.raises(Refused, match="loop run perf"):
        verbs.log(state, NOW)


def test_settings_of_row_0_win_over_an_edited_snapshot() -> None:
    walk = with_baseline(guard_command="make test", acceptance_mode="keep-revert")
    edited = walk.state.with_(guard_command=None, metric_direction="higher", acceptance_mode="log")
    assert rebuilt(edited, walk.rows) == walk.state


def test_rows_beyond_the_snapshot_count_and_a_later_start_is_kept() -> None:
    walk = with_baseline()
    states = [walk.state]
    for _ in range(7):
        walk.turn(200)
        states.append(walk.state)
    for number, kept in ((8, True), (7, False)):
        stale = states[5].with_(active_iteration=ActiveIteration(iteration=number))
        found = rebuilt(stale, walk.rows)
        assert (found.iteration, found.active_iteration is not None) == (7, kept)
        assert found.with_(active_iteration=None) == walk.state


def test_rows_of_the_original_have_no_row_0_and_may_tell_no_pivots() -> None:
    walk = with_baseline()
    for _ in range(6):
        walk.turn(200)
    old = [row.model_copy(update={"escalation_type": None}) for row in walk.rows[1:]]
    found = rebuilt(walk.state.with_(iteration=3), old)
    assert (found.iteration, found.baseline, found.pivot_count, found.reverts) == (6, 100, 1, 6)


def test_a_row_of_an_unknown_action_only_counts() -> None:
    walk = with_baseline()
    row = walk.turn(80).model_copy(update={"action": "dream", "iteration": 2, "metric": 1})
    state = applied(walk.state, row)
    assert (state.iteration, state.current_metric, state.keeps) == (2, 80, 1)


def test_lessons_are_about_what_was_not_kept() -> None:
    walk = with_baseline()
    walk.iterate(hypothesis="inline it")
    walk.measure(200)
    assert lesson(walk.decide("revert", 200)) == (
        "Iteration 1 (inline it) gave 200 against 100: revert, metric did not improve; no extra checks recorded."
    )
    assert lesson(walk.turn(50)) == ""
    assert [number for number in range(31) if reanchors(number)] == [10, 20, 30]


def test_a_commit_in_a_row_cannot_be_an_option_of_git() -> None:
    with pytest.raises(Invalid, match="commit"):
        parse_row(b'{"iteration": 1, "action": "keep", "commit": "--output=x"}')
