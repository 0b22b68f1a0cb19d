"""A new session is told what is left of the loop, or in which phase of the marathon it is; and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.agents.claude.hook import about_loop, about_marathon, remaining_steps
from marathon.core.text import clean
from tests.agents.claude.test_hook import JSON
from tests.core.making import thorough

LOOP: dict[str, Any] = {
    "spec": "Make dates\naccept ISO weeks",
    "criteria": ["test passes", "no lint errors"],
    "criteriaStatus": {"test passes": True, "no lint errors": False},
    "steps": ["step1", "step2"],
    "completedSteps": ["step1"],
    "remainingSteps": ["step2"],
    "iteration": 2,
    "status": "in_progress",
}
FIELDS = st.sampled_from([*LOOP, "phase", "state"])


def test_an_active_loop_is_announced_with_what_is_left_of_it() -> None:
    news = about_loop(LOOP)
    for part in ("iteration 2", "accept ISO weeks", "Remaining steps: step2", "1 of 2", "no lint errors"):
        assert part in news
    assert "test passes" not in news
    assert "step1" not in news


@pytest.mark.parametrize(
    "state",
    [None, {**LOOP, "status": "paused"}, {**LOOP, "status": "cancelled"}, {"status": "completed", "criteria": []}],
)
def test_where_no_loop_is_active_nothing_is_said(state: dict[str, Any] | None) -> None:
    assert about_loop(state) == ""


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        ({"remainingSteps": ["b"], "steps": ["a", "b", "c"]}, ["b"]),
        ({"steps": ["a", "b"], "completedSteps": ["a"]}, ["b"]),
        ({"remainingSteps": [], "steps": ["a"]}, []),
        ({"remainingSteps": [1, None, "x"]}, ["x"]),
        ({"steps": "abc"}, []),
        ({}, []),
    ],
)
def test_the_remaining_steps_are_those_said_or_those_not_done(state: dict[str, Any], steps: list[str]) -> None:
    assert remaining_steps(state) == steps


def test_a_marathons_session_is_told_its_phase() -> None:
    state = {"state": "running", "phase": "plan", "iteration": 3, "criteriaStatus": {"tests": False}}
    news = about_marathon(state, "/p/task", "research")
    for part in ("phase plan", "iteration 3", "/p/task", "tests", "STATE.json"):
        assert part in news


@pytest.mark.parametrize("state", [None, {}, {"phase": ["plan"]}, {"phase": "  "}])
def test_where_the_state_says_no_phase_the_runner_does(state: dict[str, Any] | None) -> None:
    assert "phase research" in about_marathon(state, "/p/task", "research")


@thorough
@given(st.dictionaries(FIELDS, JSON | st.sampled_from(list(LOOP.values()))))
def test_any_state_gives_news_of_bounded_length_that_no_terminal_acts_on(state: dict[str, Any]) -> None:
    for news in (about_loop(state), about_marathon(state, "/p", "plan")):
        assert len(news) < 10_000
        assert clean(news) == news
