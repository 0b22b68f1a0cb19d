"""Whether Claude may stop: the criteria and the word of completion decide, and no session is ever held for good."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.agents.claude.hook import (
    MOST_HOLDS,
    STUCK_AFTER,
    Asked,
    Streak,
    Verdict,
    judge_loop,
    judge_marathon,
)
from marathon.agents.claude.state import MOST_NAMES
from marathon.core.text import COMPLETE_MARK
from tests.core.making import thorough

State = dict[str, Any]
AGAIN = Asked(session_id="s", stop_hook_active=True)
FIRST = Asked(session_id="s", stop_hook_active=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def loop(**status: Any) -> State:
    return {"criteria": list(status), "criteriaStatus": status, "status": "in_progress", "iteration": 2}


def judged(state: State, said: str = COMPLETE_MARK) -> Verdict:
    return judge_loop(state, said, AGAIN, Streak())


def evaluated(states: list[State], asked: list[Asked]) -> list[Verdict]:
    """One stop after the other, each with what was remembered of the one before."""
    streak, verdicts = Streak(), []
    for state, one in zip(states, asked, strict=True):
        verdicts.append(judge_loop(state, "", one, streak))
        # As it comes back from the file.
        streak = Streak.read(json.loads(json.dumps(verdicts[-1].streak._asdict())))
    return verdicts


@pytest.mark.parametrize(
    ("state", "said", "ok"),
    [
        (loop(tests=True, lint=False), COMPLETE_MARK, False),
        (loop(tests=True, lint=True), "I am done.", False),
        (loop(tests=True, lint=True), f"All is well.\n{COMPLETE_MARK}", True),
        (loop(), COMPLETE_MARK, False),
        ({}, COMPLETE_MARK, False),
        (loop(tests="true"), COMPLETE_MARK, False),
        (loop(tests="false"), COMPLETE_MARK, False),
        (loop(tests=1), COMPLETE_MARK, False),
        (loop(tests=None), COMPLETE_MARK, False),
        ({"criteria": ["tests", "lint"], "criteriaStatus": {"tests": True}}, COMPLETE_MARK, False),
        ({"criteria": ["tests"]}, COMPLETE_MARK, False),
        ({"criteriaStatus": {"tests": True}}, COMPLETE_MARK, True),
        ({"criteria": ["tests"], "criteriaStatus": ["tests"]}, COMPLETE_MARK, False),
        ({"criteria": "tests", "criteriaStatus": {"lint": True}}, COMPLETE_MARK, True),
        ({"criteria": [{"name": "tests"}], "criteriaStatus": {"lint": True}}, COMPLETE_MARK, False),
    ],
)
def test_every_criterion_and_the_word_of_completion_or_it_goes_on(state: State, said: str, ok: bool) -> None:
    verdict = judged(state, said)
    assert verdict.ok is ok
    assert verdict.output()["ok"] is ok
    assert verdict.output().get("decision") == (None if ok else "block")
    assert verdict.reason == "complete" if ok else verdict.reason.startswith(("unmet: ", "next: "))


def test_what_is_unmet_is_named_and_what_is_met_is_not() -> None:
    reason = judged({"criteria": ["docs"], "criteriaStatus": {"tests pass": True, "no lint": False}}).reason
    assert "docs" in reason
    assert "no lint" in reason
    assert "tests pass" not in reason


@pytest.mark.parametrize("status", ["paused", "cancelled", "Paused", " cancelled "])
def test_a_loop_that_is_over_holds_no_one(status: str) -> None:
    assert judged({**loop(tests=False), "status": status}, "").ok


def test_a_completed_loop_is_over_only_if_its_criteria_say_so_too() -> None:
    assert judged({**loop(tests=True), "status": "completed"}, "").ok
    assert not judged({**loop(tests=False), "status": " Completed"}).ok


@pytest.mark.parametrize("status", ["in_progress", "running", "", None, ["paused"], True])
def test_a_loop_that_is_not_over_is_active(status: object) -> None:
    assert not judged({**loop(tests=False), "status": status}).ok


def test_odd_names_are_still_one_line_of_json_without_anything_a_terminal_acts_on() -> None:
    output = json.dumps(judged(loop(**{'say "hi"\n\\ and': False, "\x1b[31mred\x07\ud800": False})).output())
    reason = json.loads(output)["reason"]
    assert 'say "hi" \\ and' in reason
    assert "red" in reason
    assert reason.isprintable()


def test_of_very_many_only_some_are_named() -> None:
    reason = judged(loop(**{f"criterion {number} " + "x" * 500: False for number in range(300)})).reason
    assert f"{300 - MOST_NAMES} more" in reason
    assert len(reason) < 6000


def test_the_same_unmet_set_five_times_in_a_row_is_stuck_and_the_human_is_told() -> None:
    verdicts = evaluated([loop(tests=False)] * 6, [FIRST] + [AGAIN] * 5)
    assert [verdict.ok for verdict in verdicts] == [False] * 4 + [True, False]
    stuck = verdicts[4].output()
    assert stuck["reason"] == "stuck"
    assert "tests" in stuck["systemMessage"]
    assert "decision" not in stuck
    assert all("systemMessage" not in verdict.output() for verdict in verdicts[:4])


@pytest.mark.parametrize("state", [loop(), loop(tests=True)], ids=["no criteria", "no word of completion"])
def test_a_missing_word_can_be_stuck_too(state: State) -> None:
    verdicts = evaluated([state] * 5, [AGAIN] * 5)
    assert [verdict.reason == "stuck" for verdict in verdicts] == [False] * 4 + [True]


def test_another_unmet_set_counts_anew_and_the_order_of_the_names_does_not_matter() -> None:
    one, other = loop(a=False, b=False), loop(b=False, a=False)
    moved = evaluated([one] * 4 + [loop(a=False)] + [one] * 4, [AGAIN] * 9)
    assert not any(verdict.ok for verdict in moved)
    assert [verdict.ok for verdict in evaluated([one, other] * 2 + [one], [AGAIN] * 5)] == [False] * 4 + [True]


def test_a_new_turn_counts_anew() -> None:
    verdicts = evaluated([loop(tests=False)] * 8, ([FIRST] + [AGAIN] * 3) * 2)
    assert not any(verdict.ok for verdict in verdicts)


def test_a_turn_that_pretends_to_be_new_does_not() -> None:
    same = [Asked(session_id="s", stop_hook_active=False, prompt_id="p1")] * STUCK_AFTER
    assert evaluated([loop(tests=False)] * STUCK_AFTER, same)[-1].reason == "stuck"
    other = [Asked(session_id="s", stop_hook_active=False, prompt_id=f"p{number}") for number in range(STUCK_AFTER)]
    assert not evaluated([loop(tests=False)] * STUCK_AFTER, other)[-1].ok


def test_unmet_sets_that_change_for_ever_are_let_go_in_the_end() -> None:
    states = [loop(**{f"criterion {number}": False}) for number in range(MOST_HOLDS + 1)]
    verdicts = evaluated(states, [AGAIN] * len(states))
    assert [verdict.ok for verdict in verdicts] == [False] * MOST_HOLDS + [True]
    assert verdicts[-1].reason == "stuck"
    assert verdicts[-1].tell


@thorough
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.sampled_from([True, False, "true"]), max_size=3),
            st.sampled_from([True, False, None]),
            st.sampled_from(["", "p1", "p2"]),
        ),
        min_size=MOST_HOLDS + 1,
        max_size=MOST_HOLDS + 1,
    )
)
def test_no_session_is_held_for_good(stops: list[tuple[dict[str, Any], bool | None, str]]) -> None:
    asked = [Asked(session_id="s", stop_hook_active=again, prompt_id=prompt) for _, again, prompt in stops]
    assert any(verdict.ok for verdict in evaluated([loop(**status) for status, _, _ in stops], asked))


@thorough
@given(st.dictionaries(st.sampled_from(["criteria", "criteriaStatus", "status", "state"]), JSON), st.text(), JSON)
def test_any_state_and_any_memory_has_an_answer_in_json(state: State, said: str, memory: object) -> None:
    for verdict in (
        judge_loop(state, said, AGAIN, Streak.read(memory)),
        judge_marathon(state, False, FIRST, Streak.read(memory)),
    ):
        output = json.loads(json.dumps(verdict.output()))
        assert set(output) <= {"ok", "decision", "reason", "systemMessage"}
        assert output["ok"] is ("decision" not in output)


@pytest.mark.parametrize(
    ("state", "written", "ok"),
    [
        ({"state": "paused", "phase": "research"}, False, True),
        ({"state": "completed", "phase": "done"}, False, True),
        ({"state": "running", "phase": "implement"}, True, True),
        ({"state": "running", "phase": "implement"}, False, False),
        ({"state": "running", "criteriaStatus": {"tests": False}}, True, True),
        ({"state": "done"}, True, False),
        ({"state": ["paused"]}, True, False),
        ({}, True, False),
        (None, True, False),
    ],
)
def test_a_marathons_session_may_stop_once_it_left_a_proposal(state: State | None, written: bool, ok: bool) -> None:
    verdict = judge_marathon(state, written, FIRST, Streak())
    assert verdict.ok is ok
    assert ok or verdict.reason.startswith("next: write STATE.json as the prompt says")


def test_a_marathons_session_is_told_once_and_never_again() -> None:
    state = {"state": "running", "phase": "plan"}
    told = judge_marathon(state, False, FIRST, Streak())
    assert not told.ok
    later = judge_marathon(state, False, FIRST, told.streak)
    assert later.ok
    assert judge_marathon(state, False, FIRST, later.streak).ok
    assert judge_marathon(state, False, AGAIN, Streak()).ok


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, Asked()),
        (
            {"hook_event_name": "Stop", "session_id": "s", "cwd": "/p", "prompt_id": "1", "stop_hook_active": True},
            Asked("Stop", "s", "/p", "1", True),
        ),
        (
            {"last_assistant_message": "x", "transcript_path": "/t"},
            Asked(last_assistant_message="x"),
        ),
        ({"stop_hook_active": "false", "cwd": 7, "session_id": None, "last_assistant_message": ["x"]}, Asked()),
    ],
)
def test_the_input_is_read_as_far_as_it_can_be(fields: dict[str, Any], asked: Asked) -> None:
    assert Asked.read(json.dumps(fields).encode()) == asked


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 10_000])
def test_garbage_is_no_input(data: bytes) -> None:
    assert Asked.read(data) is None


@thorough
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_input_is_read_without_failing(data: bytes) -> None:
    asked = Asked.read(data)
    assert asked is None or isinstance(asked, Asked)
