"""What it takes to be done: every criterion with a yes, and no sequence of proposals instead of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.budgets import Limits
from marathon.core.completion import account, all_met, judged, known_by, result_facts
from marathon.core.courses.phases import Phases
from marathon.core.criteria import Criterion
from marathon.core.decide import next_step
from marathon.core.error_kind import Kind
from marathon.core.records import (
    Answer,
    Checked,
    CheckResult,
    CriteriaFound,
    FilesMissing,
    Finished,
    Gate,
    Moved,
    Record,
    SessionStarted,
)
from marathon.core.steps import Finish, RunSession, Step, Verify
from tests.core.making import RPI, begun, fold, left, library, started, thorough, verdict, workflow
from tests.core.play import Play
from tests.core.strategies import endings, verdicts

TESTS = Criterion(name="tests", command="pytest -q")
LINT = Criterion(name="lint", command="ruff check .")
READS = Criterion(name="reads well")
WANTED = CriteriaFound(digest="d", criteria=[TESTS, LINT, READS])
DONE = left("completed/done")


def checked(*met: str, digest: str = "d", **more: Any) -> Checked:
    """All three with a result; those named are met."""
    results = [
        CheckResult(name=each.name, met=each.name in met, command=each.command, **({} if each.name in met else more))
        for each in WANTED.criteria
    ]
    return Checked(digest=digest, results=results)


def proposed(*after: Record, criteria: CriteriaFound = WANTED) -> list[Record]:
    """A session of implement that called it completed, and what came after."""
    return [begun("implement"), criteria, started("implement"), DONE, *after]


def step(records: Iterable[Record], **limits: Any) -> Step:
    return next_step(fold(records), Phases(RPI), Limits(**limits))


def test_a_proposed_end_is_checked_first() -> None:
    assert step(proposed()) == Verify(WANTED)


def test_without_criteria_there_is_nothing_to_check() -> None:
    assert step(proposed(criteria=CriteriaFound())) == Finish()
    assert step([begun("implement"), started("implement"), DONE]) == Finish()


def test_every_criterion_met_is_the_end() -> None:
    assert step(proposed(checked("tests", "lint", "reads well"))) == Finish()


def test_what_is_not_met_goes_to_the_next_session_with_the_end_of_its_output() -> None:
    found = step(proposed(checked("lint", "reads well", reason="exit code 1", tail="E  assert 1 == 2")))
    assert isinstance(found, RunSession)
    assert found.phase.id == "implement"
    assert len(found.guidance) == 1
    assert "tests (`pytest -q`): exit code 1" in found.guidance[0]
    assert "E  assert 1 == 2" in found.guidance[0]


def test_a_criterion_nobody_looked_at_is_not_met() -> None:
    partial = Checked(digest="d", results=[CheckResult(name="tests", met=True), CheckResult(name="lint", met=True)])
    assert not all_met(WANTED, partial)
    assert isinstance(step(proposed(partial)), RunSession)


def test_results_of_other_criteria_do_not_count() -> None:
    assert step(proposed(checked("tests", "lint", "reads well", digest="older"))) == Verify(WANTED)
    harder = CriteriaFound(digest="e", criteria=[*WANTED.criteria, Criterion(name="fast", command="bench")])
    assert step(proposed(checked("tests", "lint", "reads well"), harder)) == Verify(harder)
    assert step(proposed(checked("tests", "lint", "reads well"), harder, WANTED)) == Verify(WANTED)


def test_results_of_an_earlier_session_do_not_count() -> None:
    all_of_them = checked("tests", "lint", "reads well")
    later = [*proposed(all_of_them), started("implement", 2), left("completed/done")]
    assert step(later) == Verify(WANTED)


def test_results_do_not_count_for_work_that_is_looked_at_again() -> None:
    """As where the task's folder was moved, and what lies there is not what was reviewed."""
    last = library(workflow("one", {"id": "work", "gate": True, "output": "result.md"}))
    records: list[Record] = [begun("work", last, "one"), WANTED, started("work"), DONE]
    records += [
        checked("tests", "lint", "reads well"),
        Moved(path=[("one", 0)], steps=2, phase="work", claimed=["work"]),
    ]
    assert next_step(fold(records, last), Phases(last), Limits()) == Verify(WANTED)


def test_completion_on_the_last_allowed_session_is_completion() -> None:
    assert step(proposed(), max_iterations=1) == Verify(WANTED)
    assert step(proposed(checked("tests", "lint", "reads well")), max_iterations=1) == Finish()
    missed = step(proposed(checked("tests", reason="no")), max_iterations=1)
    assert isinstance(missed, Gate)
    assert missed.reason == "limit"


def test_a_check_that_cannot_be_run_is_a_gate_at_once() -> None:
    blocked = step(proposed(checked("lint", "reads well", reason="exit code 127 (command not found)", kind="blocking")))
    assert isinstance(blocked, Gate)
    assert (blocked.reason, blocked.phase) == ("blocked", "implement")
    assert "command not found" in blocked.message


def test_unmet_criteria_are_told_again_after_the_gate_they_led_to() -> None:
    records = proposed(checked("lint", "reads well", reason="exit code 127", kind="blocking"))
    gate = step(records)
    assert isinstance(gate, Gate)
    found = step([*records, opened(gate), verdict(text="mend it")])
    assert isinstance(found, RunSession)
    assert any("tests" in line for line in found.guidance)


def test_a_human_who_only_says_go_on_may_have_mended_it() -> None:
    records = proposed(checked("lint", "reads well", reason="exit code 127", kind="blocking"))
    gate = step(records)
    assert isinstance(gate, Gate)
    assert step([*records, opened(gate), verdict()]) == Verify(WANTED)


@pytest.mark.parametrize(
    ("kinds", "step_wanted"),
    [
        (("logic", "logic"), "session"),
        (("logic", "blocking"), "blocked"),
        (("logic", "transient"), "session"),
        (("transient", "transient"), "blocked"),
        (("unknown", "transient"), "blocked"),
    ],
)
def test_an_error_is_the_agents_to_mend_or_the_humans(kinds: tuple[Kind, Kind], step_wanted: str) -> None:
    results = [
        CheckResult(name=name, met=False, command="x", reason="why", kind=kind)
        for name, kind in zip(("tests", "lint"), kinds, strict=True)
    ]
    met = CheckResult(name="reads well", met=True)
    found = step(proposed(Checked(digest="d", results=[*results, met])))
    assert (found.reason if isinstance(found, Gate) else "session") == step_wanted


# A human accepts the work as it is

BLOCKED = proposed(checked("lint", "reads well", reason="exit code 127", kind="blocking"))


def blocked() -> Gate:
    gate = step(BLOCKED)
    assert isinstance(gate, Gate)
    return gate


def test_a_human_may_accept_exactly_what_the_gate_showed_as_unmet() -> None:
    gate = blocked()
    assert gate.about == ["tests"]
    records = [*BLOCKED, opened(gate), verdict("accept", text="good enough")]
    assert step(records) == Finish(accepted=("tests",))
    life = fold([*records, Finished(accepted=["tests"])])
    assert (life.finished, life.accepted) == (True, ("tests",))
    assert life.unwritten is not None, "the words are for human.md"


def test_auto_approve_accepts_nothing() -> None:
    assert isinstance(step([*BLOCKED, opened(blocked()), verdict("accept", text="x", by="auto")]), RunSession)


def test_an_accept_does_not_count_for_criteria_that_changed_since() -> None:
    harder = CriteriaFound(digest="e", criteria=[*WANTED.criteria, Criterion(name="fast", command="bench")])
    assert step([*BLOCKED, opened(blocked()), harder, verdict("accept", text="x")]) == Verify(harder)


def test_a_gate_without_unmet_criteria_cannot_be_accepted_away() -> None:
    sessions: list[Record] = [started("implement"), left("completed/done", output="missing")]
    missing: list[Record] = [begun("implement"), WANTED, *sessions * 3]
    gate = step(missing)
    assert isinstance(gate, Gate)
    assert (gate.reason, gate.about) == ("stuck", [])
    assert isinstance(step([*missing, opened(gate), verdict("accept", text="x")]), RunSession)


def test_an_accept_of_missing_files_ends_nothing() -> None:
    """It is not offered there, and counts for nothing if it comes all the same."""
    gone: list[Record] = [begun("implement"), FilesMissing(names=["plan.md"])]
    gate = step(gone)
    assert isinstance(gate, Gate)
    assert (gate.reason, gate.about) == ("missing", ["plan.md"])
    assert step([*gone, opened(gate), verdict("accept", text="x")]) == gate


# How it is known

RAN = CheckResult(name="tests", met=True, command="pytest")
SAID = CheckResult(name="reads well", met=True, tail="I read it")
UNMET = CheckResult(name="lint", met=False, command="ruff", reason="exit code 1", tail="E501")


def test_what_ran_what_the_agent_says_and_what_a_human_accepted_are_told_apart() -> None:
    assert [known_by(each, ["lint"]) for each in (RAN, SAID, UNMET)] == ["ran", "agent", "accepted"]
    assert known_by(UNMET) is None
    assert [result_facts(each, ["lint"])["met"] for each in (RAN, SAID, UNMET)] == [True, True, False]
    assert [result_facts(each)["evidence"] for each in (RAN, SAID, UNMET)] == ["", "I read it", ""]


def test_no_sum_goes_over_what_ran_and_what_was_said() -> None:
    assert account([RAN, SAID, UNMET], ["lint"]) == ["1 criterion ran", "1 on the agent's word", "1 accepted by you"]
    assert account([RAN, RAN]) == ["2 criteria ran"]
    assert account([]) == []


def opened(gate: Gate) -> Record:
    return replace(gate, token="t")


# Agreement

UNSEEN = CriteriaFound(digest="d", criteria=[TESTS], agreed=False)


def test_commands_nobody_agreed_to_are_a_gate_before_any_session() -> None:
    found = step([begun("research"), UNSEEN])
    assert isinstance(found, Gate)
    assert found.reason == "checks"
    assert "pytest -q" in found.message
    assert isinstance(step([begun("research"), UNSEEN, opened(found), verdict()]), RunSession)


def test_what_was_agreed_to_is_exactly_what_was_shown() -> None:
    gate = step([begun("research"), UNSEEN])
    assert isinstance(gate, Gate)
    changed = CriteriaFound(digest="e", criteria=[LINT], agreed=False)
    again = step([begun("research"), UNSEEN, opened(gate), changed])
    assert isinstance(again, Gate)
    assert "ruff check" in again.message
    assert again.token == ""
    stale_yes = step([begun("research"), UNSEEN, opened(gate), changed, verdict()])
    assert isinstance(stale_yes, Gate)
    assert "ruff check" in stale_yes.message


def test_criteria_that_became_less_are_named_and_asked_about() -> None:
    fewer = CriteriaFound(digest="e", criteria=[READS], agreed=False, lost=["tests"])
    found = step(proposed(fewer))
    assert isinstance(found, Gate)
    assert "- tests" in found.message


def test_a_task_whose_criteria_were_all_removed_is_not_done_without_a_yes() -> None:
    none_left = CriteriaFound(digest="e", agreed=False, lost=["tests", "lint", "reads well"])
    found = step(proposed(none_left))
    assert isinstance(found, Gate)
    assert (found.reason, "- tests" in found.message) == ("checks", True)
    assert step([*proposed(none_left), opened(found), verdict()]) == Finish()


def test_criteria_that_cannot_be_read_end_nothing() -> None:
    assert not all_met(CriteriaFound(agreed=False, problem="line 3"), Checked(digest="", results=[]))
    broken = CriteriaFound(criteria=[TESTS], agreed=False, problem="checks.toml: line 3")
    found = step(proposed(broken))
    assert isinstance(found, Gate)
    assert (found.reason, "line 3" in found.message) == ("checks", True)


# Judgements

YES = {"criteriaStatus": {"a": True}, "criteriaEvidence": {"a": "saw it"}}


@pytest.mark.parametrize(
    ("verdicts", "met"),
    [
        (YES, True),
        ({}, False),
        ({"criteriaStatus": {"a": True}}, False),
        ({**YES, "criteriaEvidence": {"a": "  "}}, False),
        ({**YES, "criteriaEvidence": {"a": 1}}, False),
        ({**YES, "criteriaStatus": {"a": "true"}}, False),
        ({**YES, "criteriaStatus": {"a": "false"}}, False),
        ({**YES, "criteriaStatus": {"a": 1}}, False),
        ({**YES, "criteriaStatus": {"b": True}}, False),
        ({**YES, "criteriaStatus": [True]}, False),
        ({"criteriaStatus": None, "criteriaEvidence": "a"}, False),
    ],
)
def test_a_judgement_is_met_by_a_real_yes_with_evidence(verdicts: dict[str, Any], met: bool) -> None:
    result = judged("a", verdicts)
    assert result.met is met
    assert bool(result.reason) is not met


# The property

RESULTS = st.builds(
    lambda met, names: Checked(digest="d", results=[CheckResult(name=name, met=name in met) for name in names]),
    st.sets(st.sampled_from(["tests", "lint", "reads well"])),
    st.lists(st.sampled_from(["tests", "lint", "reads well", "else"]), max_size=5),
)


ENDS = st.one_of(st.just(left("completed/done")), st.just(left("completed/work", signal=True)), endings(("work",)))
WORKFLOWS = [
    library(workflow("one", {"id": "work", "repeats": repeats, "gate": gate, "output": "result.md"}))
    for repeats in (True, False)
    for gate in (True, False)
]


@thorough
@given(
    st.sampled_from(WORKFLOWS),
    st.lists(ENDS, max_size=20),
    st.lists(verdicts(("work",), ("continue", "answer", "redo", "accept")), max_size=20),
    st.lists(RESULTS, max_size=10),
)
def test_no_word_makes_an_unmet_criterion_met_and_only_a_humans_accept_ends_a_task_without_it(
    definitions: Any, ended: list[Any], said: list[Any], results: list[Checked]
) -> None:
    play = Play(definitions, "one", iter(ended), iter(said), checks=iter(results))
    play.record(WANTED)
    for found in play.steps():
        if isinstance(found, Finish):
            session = max(number for number, record in enumerate(play.records) if isinstance(record, SessionStarted))
            last = [record for record in play.records[session:] if isinstance(record, Checked)][-1]
            unmet = {"tests", "lint", "reads well"} - {result.name for result in last.results if result.met}
            assert set(found.accepted) == unmet
            if unmet:
                gate, answer = play.records[-2:]
                assert isinstance(gate, Gate)
                assert isinstance(answer, Answer)
                assert (answer.choice, set(gate.about)) == ("accept", unmet)
                assert answer.by != "auto"
