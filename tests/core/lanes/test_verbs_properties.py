"""What holds for every sequence of verbs."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from marathon.core.lanes.model import Check, LaneState, Refused, parse_row, parse_state
from marathon.core.lanes.rules import rebuilt
from tests.core.lanes.making import Walk, lane

VALUES = st.lists(st.integers(-200, 200).map(float), min_size=1, max_size=4)
CHECKS = st.lists(
    st.builds(Check, name=st.just("guard"), passed=st.booleans(), command=st.sampled_from(["make test", "other"])),
    max_size=2,
)
STEP = st.one_of(
    st.tuples(st.just("iterate")),
    st.tuples(st.just("measure"), VALUES, CHECKS),
    st.tuples(st.just("decide"), st.sampled_from(["keep", "revert", "log", "skip", "due"])),
    st.tuples(st.just("log"), st.sampled_from(["log", "skip", "crash", "blocked"])),
    st.tuples(st.just("resume")),
)
STEPS = st.lists(STEP, max_size=40)
LANES = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["optimize", "research"]),
        "guard_command": st.sampled_from([None, "make test"]),
        "metric_direction": st.sampled_from(["lower", "higher"]),
        "target_metric": st.one_of(st.none(), st.integers(-200, 200).map(float)),
        "max_iterations": st.one_of(st.none(), st.integers(1, 8)),
    }
)


def _walked(settings_: dict[str, Any], steps: list[Any], sign: int = 1) -> Walk:
    walk = Walk(lane(**settings_))
    for step in steps:
        try:
            _step(walk, step, sign)
        except Refused:
            continue
    return walk


def _step(walk: Walk, step: Any, sign: int) -> None:
    active = walk.state.active_iteration
    match step:
        case ("iterate",):
            walk.iterate()
        case ("measure", values, checks):
            walk.measure(*(sign * value for value in values), checks=checks)
        case ("decide", "due"):
            walk.decide(str(active and active.recommended_action), *((active and active.measurements) or []))
        case ("decide", action):
            walk.decide(action, *((active and active.measurements) or []))
        case ("log", action):
            walk.log(action)
        case ("resume",):
            walk.resume()


@given(LANES, STEPS)
def test_what_is_rebuilt_from_the_rows_is_what_was(settings_: dict[str, Any], steps: list[Any]) -> None:
    walk = _walked(settings_, steps)
    assert rebuilt(walk.state, walk.rows) == walk.state
    rows = [parse_row(row.to_line()) for row in walk.rows]
    assert (rows, parse_state(walk.state.to_bytes())) == (walk.rows, walk.state)
    if walk.rows:
        started = lane(**settings_).with_(active_iteration=walk.state.active_iteration)
        assert rebuilt(started, walk.rows).with_(finished_at=walk.state.finished_at) == walk.state


@given(LANES, STEPS)
def test_nothing_is_kept_that_a_guard_failed(settings_: dict[str, Any], steps: list[Any]) -> None:
    walk = _walked(settings_, steps)
    for row in walk.rows:
        verdicts = [each.passed for each in row.checks or ()]
        if row.action == "keep":
            assert all(verdicts)
            assert settings_["guard_command"] is None or verdicts
    moved = [row.metric for row in walk.rows if row.action in ("baseline", "keep") or row.acceptance_passed]
    assert walk.state.best_metric is None or walk.state.best_metric in moved


@given(LANES, STEPS)
def test_mirroring_the_numbers_and_the_direction_changes_nothing(settings_: dict[str, Any], steps: list[Any]) -> None:
    target = settings_["target_metric"]
    mirrored = {
        **settings_,
        "metric_direction": "higher" if settings_["metric_direction"] == "lower" else "lower",
        "target_metric": None if target is None else -target,
    }
    one, other = _walked(settings_, steps), _walked(mirrored, steps, sign=-1)
    assert [row.action for row in one.rows] == [row.action for row in other.rows]
    assert [row.escalation_type for row in one.rows] == [row.escalation_type for row in other.rows]
    assert _outcome(one.state) == _outcome(other.state)


@given(LANES, STEPS, st.integers(1, 5))
@settings(max_examples=50)
def test_a_higher_cap_never_ends_sooner(settings_: dict[str, Any], steps: list[Any], more: int) -> None:
    steps = [step for step in steps if step != ("resume",)]
    low = _walked({**settings_, "max_iterations": 3}, steps)
    high = _walked({**settings_, "max_iterations": 3 + more}, steps)
    assert high.state.iteration >= low.state.iteration


def _outcome(state: LaneState) -> tuple[object, ...]:
    return state.iteration, state.status, state.keeps, state.reverts, state.consecutive_failures, state.pivot_count
