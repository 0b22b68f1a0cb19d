"""Life is a fold: what each record changes, what a crash keeps owed, and what is never counted twice."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.breakers import CUT_SHORT, Streaks
from marathon.core.budgets import Usage
from marathon.core.courses.phases import Phases, Place
from marathon.core.courses.workflow import Position, Segment
from marathon.core.criteria import Criterion
from marathon.core.human_note import HumanNote, Reply
from marathon.core.life import Life, Steer, apply
from marathon.core.records import (
    AgentTakesOver,
    Cancelled,
    CriteriaFound,
    DefinitionFound,
    FeedbackWritten,
    Finished,
    HumanMark,
    LimitSet,
    Moved,
    OversightSet,
    Reason,
    Record,
    Remark,
    RestartBegun,
    RunStarted,
    SessionEnded,
    StartedWith,
    SteerTaken,
    Torn,
    Undone,
    WaitEnded,
    WaitStarted,
    WorktreeSet,
    parse_record,
)
from tests.core.making import RPI, after, begun, fold, gate, left, mark, open_things, read, started, thorough, verdict
from tests.core.strategies import any_record

OTHER_ENDS = ("ended", "left")
PLAN = Moved(path=[("rpi", 1)], steps=1, phase="plan")
RESEARCH_AGAIN = Moved(path=[("rpi", 0)], steps=1, phase="research")
RESTART = RestartBegun(files=[("result.md", "result.1.md")], heading="Restart", text="also X")
RUN_2 = RunStarted(run=2, path=[("rpi", 0)], phase="research", at="2026-02-02T14:30:00Z")


def wait_record(**more: Any) -> WaitStarted:
    fields = {"type": "wait_started", "kind": "agent", "seconds": 300, "reason": "CI", "until": 1300, **more}
    found = read(fields)
    assert isinstance(found, WaitStarted)
    return found


def test_a_new_task_stands_where_its_first_record_says() -> None:
    progress = fold([begun("research", at="2026-02-02T14:30:00Z")])
    assert progress.own == Place("rpi", Position((Segment("rpi", 0),)))
    assert (progress.course, progress.phase, progress.run, progress.iteration) == ("phases", "research", 1, 0)
    assert progress.started == "2026-02-02T14:30:00Z"
    assert open_things(progress) == []


def test_an_adopted_task_that_awaits_its_review_is_judged_like_an_ended_session() -> None:
    progress = fold([begun("research", iteration=4, review=True, adopted=True, note="look")])
    assert progress.ended is not None
    assert progress.ended.proposal is not None
    assert (progress.ended.proposal.state, progress.ended.proposal.phase) == ("paused", "research")
    assert progress.ended.proposal.note == "look"
    assert progress.ended.output == "fresh"
    assert progress.iteration == 4


def test_the_number_of_the_last_record_is_known() -> None:
    assert fold([begun("research", n=1), Torn(bytes=7, n=2), Remark(text="x", n=3)]).last == 3


def test_the_documents_are_known_as_they_were_seen_last() -> None:
    seen = [left(documents={"plan.md": "1", "work.md": "1"}), left(documents={"plan.md": "2"})]
    records = after("research", *seen)
    assert dict(fold(records).documents) == {"plan.md": "2", "work.md": "1"}
    assert dict(fold([*records, gate(), verdict(documents={"work.md": "3"})]).documents) == {
        "plan.md": "2",
        "work.md": "3",
    }


def test_what_an_adopted_folder_claims_of_later_phases_ends_with_the_first_session() -> None:
    adopted = begun("research", review=True, adopted=True, claimed=["research", "plan"])
    assert fold([adopted]).claimed == ("plan",)
    assert fold([adopted, gate(), verdict("redo"), started()]).claimed == ()


def test_a_gate_offers_to_undo_as_long_as_something_is_left_to_undo() -> None:
    writes = {"tree": "t", "files": ["a.py", "b.py"], "count": 2}
    records = [*after("research", left(writes=writes)), gate(undoable=True)]
    for undone, undoable in ((["a.py"], True), (["a.py", "b.py"], False)):
        now = fold([*records, Undone(files=undone)])
        assert now.gate is not None
        assert now.gate.undoable == undoable


# What is open


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([started()], ["session"]),
        ([started(), left()], ["ended"]),
        ([started(), left(), gate()], ["gate"]),
        ([started(), left(), gate(), verdict()], ["answered"]),
        ([started(), left(), gate(), verdict(), PLAN], []),
        ([started(), left(), gate(), verdict(), started("research", 2)], ["session"]),
        ([started(), left(), wait_record()], ["wait"]),
        ([started(), left(), wait_record(), WaitEnded()], []),
        ([started(), left(), wait_record(), WaitEnded(), started("research", 2)], ["session"]),
        ([started(), left(), gate(), Finished()], []),
        ([started(), left(), gate(), Cancelled()], []),
        ([started(), left(), gate(), RESTART, RUN_2], []),
        ([started(), left(), gate("limit")], ["ended", "gate"]),
        ([started(), left(), gate("limit"), verdict()], ["ended"]),
        ([started(), left(), gate("limit"), verdict("redo")], ["ended", "answered"]),
        ([gate("limit"), verdict()], ["answered"]),
    ],
)
def test_one_thing_is_open_at_a_time_and_an_unjudged_end_beside_a_limit_gate(
    more: list[Record], expected: list[str]
) -> None:
    assert open_things(fold([begun("research"), *more])) == expected


def test_a_verdict_without_a_gate_is_nothing() -> None:
    assert fold([begun("research"), verdict(text="words")]) == fold([begun("research")])


def test_remarks_and_torn_lines_change_nothing() -> None:
    records = [*after("research", left()), gate()]
    assert fold([*records, Remark(text="x"), Torn(bytes=3)]) == fold(records)


# Streaks


def streaks_after(*ended: SessionEnded, phase: str = "research") -> Streaks:
    return fold(after(phase, *ended)).streaks


CRASH = left(None, ending="crashed")
TIMEOUT = left(None, ending="timeout")


@pytest.mark.parametrize(
    ("ended", "failed"),
    [
        ([CRASH], 1),
        ([CRASH, TIMEOUT, CRASH], 3),
        ([CRASH, CRASH, left()], 0),
        ([CRASH, left(), CRASH], 1),
        ([CRASH, left(ending="interrupted"), CRASH], 2),
        ([CRASH, left(ending="lost"), left(ending="stopped")], 1),
    ],
)
def test_failures_in_a_row_are_counted(ended: list[SessionEnded], failed: int) -> None:
    assert streaks_after(*ended).failed == failed


EMPTY_END = left("paused/research", output="missing")


@pytest.mark.parametrize(
    ("ended", "without_output"),
    [
        ([EMPTY_END], 1),
        ([EMPTY_END, left("paused/plan", output="stale")], 2),
        ([EMPTY_END, left("running/plan", output="missing")], 2),
        ([EMPTY_END, left("completed/done", output="missing")], 2),
        ([EMPTY_END, left("running/research", output="missing")], 0),
        ([EMPTY_END, left("paused/research")], 0),
        ([EMPTY_END, CRASH, EMPTY_END], 2),
    ],
)
def test_ends_called_complete_without_output_are_counted(ended: list[SessionEnded], without_output: int) -> None:
    assert streaks_after(*ended).without_output == without_output


UNREAD = left(None, invalid="it is empty")


@pytest.mark.parametrize(
    ("ended", "invalid"),
    [([UNREAD], 1), ([UNREAD, UNREAD], 2), ([UNREAD, left()], 0), ([UNREAD, CRASH, UNREAD], 2)],
)
def test_unreadable_states_in_a_row_are_counted(ended: list[SessionEnded], invalid: int) -> None:
    assert streaks_after(*ended).invalid == invalid


IDLE = left(changed=False)


@pytest.mark.parametrize(
    ("ended", "idle"),
    [
        ([IDLE, IDLE, IDLE], 3),
        ([IDLE, IDLE, left()], 0),
        ([IDLE, left(changed=False, wait={"seconds": 60})], 0),
        ([IDLE, left(changed=False, question="Which?")], 0),
        ([IDLE, CRASH, IDLE], 2),
    ],
)
def test_sessions_that_changed_nothing_are_counted_unless_they_wait(ended: list[SessionEnded], idle: int) -> None:
    assert streaks_after(*ended).idle == idle


IN_PASSING = ("session", "writes", "checks", "missing", "definition", "redefined", "setup")


@pytest.mark.parametrize("kind", get_args(Reason))
def test_a_humans_word_sets_every_streak_back_but_a_look_in_passing_none(kind: Reason) -> None:
    records = after("research", CRASH, EMPTY_END, UNREAD, IDLE, CRASH)
    assert fold(records).streaks != Streaks()
    assert fold([*records, gate(kind)]).streaks == fold(records).streaks
    after_it = fold([*records, gate(kind), verdict()]).streaks
    assert after_it == (fold(records).streaks if kind in IN_PASSING else Streaks())


def test_a_new_phase_begins_without_streaks() -> None:
    assert fold([*after("research", EMPTY_END), PLAN]).streaks == Streaks()


# What was delivered


@pytest.mark.parametrize("ending", OTHER_ENDS)
def test_feedback_is_delivered_when_its_session_came_to_an_end(ending: str) -> None:
    records: list[Record] = [begun("research"), started(human=mark(10)), left(ending=ending)]
    assert fold(records).delivered == mark(10)


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_feedback_of_a_session_that_was_cut_short_is_still_owed(ending: str) -> None:
    first: list[Record] = [begun("research"), started(human=mark(10)), left()]
    assert fold([*first, started("research", 2, human=mark(20)), left(ending=ending)]).delivered == mark(10)


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_what_a_session_was_told_is_delivered_if_it_was_cut_short_after_its_work_was_done(ending: str) -> None:
    told = started(human=mark(10), steer=["1"], guidance=["Write it."])
    records: list[Record] = [begun("research"), SteerTaken(id="1", text="first"), told]
    done = fold([*records, left("paused/research", ending=ending)])
    assert (done.delivered, done.steer, done.guidance) == (mark(10), (), ())
    unfinished = fold([*records, left("paused/research", ending=ending, output="stale")])
    assert (unfinished.delivered, len(unfinished.steer), len(unfinished.guidance)) == (HumanMark(), 1, 1)


def test_while_a_session_runs_its_feedback_is_not_yet_delivered() -> None:
    assert fold([begun("research"), started(human=mark(10))]).delivered == HumanMark()


def test_an_end_without_a_beginning_delivers_nothing() -> None:
    records: list[Record] = [begun("research"), SteerTaken(id="1", text="x"), left()]
    assert fold(records).delivered == HumanMark()
    assert fold(records).steer == (Steer("1", "x"),)


def test_steering_is_delivered_in_order_and_once() -> None:
    taken: list[Record] = [SteerTaken(id="1", text="first"), SteerTaken(id="2", text="second")]
    waiting = fold([begun("research"), *taken])
    assert [steer.text for steer in waiting.steer] == ["first", "second"]
    assert fold([begun("research"), *taken, started(steer=["1", "2"]), left()]).steer == ()


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_steering_is_kept_after_a_crash(ending: str) -> None:
    records: list[Record] = [
        begun("research"),
        SteerTaken(id="1", text="first"),
        started(steer=["1"]),
        left(ending=ending),
    ]
    assert [steer.text for steer in fold(records).steer] == ["first"]
    assert fold([*records, started("research", 2, steer=["1"]), left()]).steer == ()


def test_steering_that_came_during_a_session_is_for_the_next_one() -> None:
    given, came = SteerTaken(id="1", text="given"), SteerTaken(id="2", text="came")
    records: list[Record] = [begun("research"), given, started(steer=["1"]), came, left()]
    assert fold(records).steer == (Steer("2", "came"),)


def test_what_was_told_stands_in_human_md_and_is_new_to_no_other_session() -> None:
    """Words taken before a session are within what it was delivered, later ones beyond it until the next good end."""
    before, live = (SteerTaken(id=name, text=name, heading=f"Told · {name}") for name in ("1", "2"))
    given = fold([begun("research"), before])
    assert given.unwritten == HumanNote("Told · 1", "1")
    records: list[Record] = [begun("research"), before, started(steer=["1"], human=mark(10)), live, left(steered=["2"])]
    heard = fold(records)
    assert (heard.steer, [steer.id for steer in heard.told], heard.delivered) == ((), ["2"], mark(10))
    assert fold([*records, started("research", 2), left(ending="crashed")]).told == heard.told
    assert fold([*records, started("research", 2, human=mark(20)), left()]).told == ()


def test_steering_that_reached_the_agent_while_it_worked_is_not_told_again() -> None:
    records: list[Record] = [begun("research"), started(), SteerTaken(id="1", text="now"), SteerTaken(id="2", text="x")]
    assert fold([*records, left(steered=["1"])]).steer == (Steer("2", "x"),)
    assert len(fold([*records, left(steered=["1"], ending="crashed")]).steer) == 2


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_guidance_is_carried_over_a_session_that_was_cut_short(ending: str) -> None:
    records: list[Record] = [begun("research"), started(guidance=["Write it."]), left(ending=ending)]
    assert fold(records).guidance == ("Write it.",)


@pytest.mark.parametrize("ending", OTHER_ENDS)
def test_guidance_is_given_once(ending: str) -> None:
    assert fold([begun("research"), started(guidance=["Write it."]), left(ending=ending)]).guidance == ()


def test_guidance_for_one_phase_is_not_given_to_another() -> None:
    records: list[Record] = [
        begun("research"),
        started(guidance=["Write it."]),
        left(ending="stopped"),
        gate(),
        verdict(),
        PLAN,
    ]
    assert fold(records).guidance == ()


def test_an_answer_is_kept_until_a_session_that_had_it_came_to_its_end() -> None:
    asked = [*after("research", left(question="Which DB?")), gate("question", message="Which DB?", onward="again")]
    answered = [*asked, verdict("answer", text="postgres", heading="research phase")]
    reply = Reply("Which DB?", "postgres", "research phase")
    assert fold(answered).reply == reply
    assert fold([*answered, started("research", 2), CRASH]).reply == reply
    assert fold([*answered, started("research", 2), left()]).reply is None


def test_an_empty_answer_is_an_answer() -> None:
    records = [*after("research", left(question="Which DB?")), gate("question", message="Which DB?"), verdict("answer")]
    assert fold(records).reply == Reply("Which DB?", "")
    assert fold(records).unwritten is None
    assert fold([*records[:-1], verdict("answer", text=" \n")]).unwritten is None


def test_the_words_of_a_verdict_are_owed_until_they_are_written() -> None:
    records = [
        *after("research", left("paused/research")),
        gate(),
        verdict(text="check auth", heading="research phase"),
    ]
    assert fold(records).unwritten == HumanNote("research phase", "check auth")
    assert fold([*records, FeedbackWritten()]).unwritten is None
    assert fold([*records[:-1], verdict()]).unwritten is None


def test_an_answer_is_owed_together_with_its_question() -> None:
    asked = [*after("research", left(question="Which DB?")), gate("question", message="Which DB?\nNow?")]
    records = [*asked, verdict("answer", text="postgres", heading="research phase")]
    words = HumanNote("research phase", "The agent asked:\n\n> Which DB?\n> Now?\n\nThe answer:\n\npostgres")
    assert fold(records).unwritten == words
    assert fold([*records, FeedbackWritten()]).unwritten is None
    assert fold([*records, started("research", 2)]).unwritten is None, "as in the journals of earlier versions"


# Rounds


def test_a_round_is_a_review_and_counted_by_phase() -> None:
    once = [*after("research", left("paused/research")), gate()]
    twice = [*once, verdict("redo"), RESEARCH_AGAIN]
    twice += [started("research", 2), left("paused/research"), gate()]
    assert fold(once).own.round_of("research") == 1
    assert fold(twice).own.round_of("research") == 2
    assert fold(twice).own.round_of("plan") == 0


@pytest.mark.parametrize("kind", [kind for kind in get_args(Reason) if kind not in ("review", "rounds")])
def test_other_gates_are_no_rounds(kind: Reason) -> None:
    assert fold([*after("research", left()), gate(kind, onward="again")]).own.round_of("research") == 0


def test_the_output_is_compared_with_what_was_there_when_the_round_began() -> None:
    records: list[Record] = [
        begun("research"),
        started(output_mark="before"),
        left(),
        started("research", 2, output_mark="during"),
    ]
    assert fold(records).round_mark == "before"
    assert fold([*records, left("paused/research"), gate(), verdict(), PLAN]).round_mark is None
    redone = [
        *records,
        left("paused/research"),
        gate(),
        verdict("redo"),
        Moved(path=[("rpi", 0)], steps=1, phase="research"),
    ]
    assert fold([*redone, started("research", 3, output_mark="after")]).round_mark == "after"


# Limits


def test_sessions_and_seconds_are_counted() -> None:
    progress = fold(after("research", left(seconds=10), CRASH, left(seconds=2.5)))
    assert (progress.used.sessions, progress.used.seconds, progress.seconds) == (3, 12.5, 12.5)


@pytest.mark.parametrize("kind", get_args(Reason))
def test_only_an_answered_limit_gate_allows_as_much_again(kind: Reason) -> None:
    more = "--max-iterations +10" if kind == "limit" else ""
    records = [*after("research", left(seconds=10), left(seconds=5)), gate(kind, more=more)]
    assert (fold(records).used.sessions, fold(records).used.seconds) == (2, 15)
    answered = fold([*records, verdict()])
    expected = (0, 15) if kind == "limit" else (2, 15)
    assert (answered.used.sessions, answered.used.seconds) == expected
    assert answered.seconds == 15


def test_more_of_one_budget_leaves_the_others_as_they_are() -> None:
    told = started(warned=["max_cost", "max_tokens"])
    added = [LimitSet(name=name, value=5, added=True) for name in ("max_cost", "max_tokens")]
    records: list[Record] = [begun("research"), *added, told, left(usage={"input": 7, "cost": 5})]
    now = fold([*records, gate("limit", more="--max-cost +10"), verdict()])
    assert (now.used.cost, now.used.tokens, now.warned) == (0, 7, ("max_tokens",))
    assert now.added == (("max_tokens", 5),)


def test_a_limit_that_is_typed_takes_the_place_of_what_was_added() -> None:
    records: list[Record] = [begun("research"), LimitSet(name="max_cost", value=9, added=True)]
    now = fold([*records, LimitSet(name="max_cost", value=2)])
    assert (now.limits, now.added) == ((("max_cost", 2),), ())


def test_moving_on_and_waiting_do_not_allow_more() -> None:
    assert fold([*after("research", left()), wait_record(), WaitEnded(), PLAN]).used.sessions == 1


def test_what_sessions_used_is_summed_over_all_runs() -> None:
    first = left(usage={"input": 10, "output": 5, "cacheRead": 3, "cost": 0.5, "turns": 2, "model": "small"})
    second = left(usage={"input": 1, "cacheWrite": 4, "cost": 0.25, "turns": 1, "toolCalls": 7})
    records = [*after("research", first, left(), second), RESTART, RUN_2]
    expected = Usage(input=11, output=5, cacheRead=3, cacheWrite=4, cost=0.75, turns=3, toolCalls=7, model="small")
    assert fold(records).usage == expected
    assert fold(records).usage.tokens == 23


# Waits


def test_a_wait_that_is_over_is_remembered_for_the_next_session_only() -> None:
    waiting = [*after("research", left()), wait_record()]
    assert fold(waiting).wait == wait_record()
    assert fold([*waiting, WaitEnded()]).waited == wait_record()
    assert fold([*waiting, WaitEnded(), started("research", 2)]).waited is None


def test_only_time_that_an_outage_took_counts_as_away() -> None:
    def away(kind: str, **ended: Any) -> float:
        failed = left(ending="crashed", outage=True)
        return fold([begun("research"), started(), failed, wait_record(kind=kind), WaitEnded(**ended)]).streaks.away

    assert [away("outage"), away("outage", early=True), away("retry"), away("agent")] == [300, 0, 300, 0]


def test_an_agent_that_failed_may_be_tried_again_after_a_good_session() -> None:
    failed: list[Record] = [
        begun("research"),
        started(),
        CRASH,
        AgentTakesOver(agent="codex", after="claude", cause="no key"),
    ]
    assert fold([*failed, started(), CRASH]).unable == ("claude",)
    assert fold([*failed, started(), left()]).unable == ()


# Runs


def test_a_restart_is_owed_until_the_new_run_began() -> None:
    records = [*after("implement", left("completed/done")), Finished()]
    assert fold([*records, RESTART]).restart == RESTART
    begun_anew = fold([*records, RESTART, RUN_2])
    assert (begun_anew.restart, begun_anew.restarted_with) == (None, "also X")


def test_a_new_run_begins_anew_and_keeps_what_is_owed_to_the_human() -> None:
    records: list[Record] = [
        begun("research"),
        SteerTaken(id="1", text="still owed"),
        started(human=mark(10), guidance=["Write it."]),
        left(seconds=10, output="missing", invalid="it is empty"),
        gate("review"),
        verdict(text="words"),
        PLAN,
        started("plan", 2, human=mark(20), steer=[]),
        left("paused/plan", seconds=5),
        gate("question", "plan"),
        verdict("answer", text="yes"),
        Cancelled(),
    ]
    assert fold([*records, RESTART, RUN_2]) == Life(
        begun=True,
        course="phases",
        own=Place("rpi", Position((Segment("rpi", 0),))),
        phase="research",
        run=2,
        restarted_with="also X",
        archived=("result.1.md",),
        started="2026-02-02T14:30:00Z",
        delivered=mark(20),
        steer=(Steer("1", "still owed"),),
        seconds=15,
    )


def test_a_new_run_keeps_what_a_human_set_for_the_task() -> None:
    pinned = DefinitionFound(workflow="rpi", definitions=RPI, digest="agreed", agreed=True)
    refused = DefinitionFound(workflow="rpi", definitions=RPI, digest="refused", agreed=False)
    tests = Criterion(name="tests", command="pytest")
    criteria = CriteriaFound(digest="d", criteria=[tests], agreed=True)
    began = StartedWith(agent="claude")
    place = WorktreeSet(branch="marathon/x", folder="/worktrees/x")
    set_before: list[Record] = [
        OversightSet(oversight="colleague"),
        LimitSet(name="max_cost", value=5),
        began,
        place,
        pinned,
        criteria,
    ]
    shown = gate("redefined", digest="refused", answered={"c1": "done"})
    now = fold([begun("research"), *set_before, refused, shown, verdict("redo"), RESTART, RUN_2])
    assert now.run == 2
    assert (now.oversight, now.limits) == ("colleague", (("max_cost", 5),))
    assert (now.started_with, now.worktree) == (began, place)
    assert (now.pinned, now.definition, now.kept) == (pinned, refused, "refused")
    assert (now.criteria, now.agreed) == (criteria, (tests,))
    assert now.comment_answers == (("c1", "done"),)


def test_a_finished_and_a_cancelled_task_say_so() -> None:
    assert fold([*after("implement", left("completed/done")), Finished()]).finished
    assert fold([*after("research", left()), gate(), Cancelled()]).cancelled


# Whatever the journal holds


@thorough
@given(st.lists(any_record(RPI, "rpi"), max_size=30), st.integers(0, 30))
def test_a_journal_read_back_in_two_parts_amounts_to_the_same(records: list[Record], cut: int) -> None:
    """A runner that is killed and started again knows exactly what the first one knew."""
    whole = fold([begun("research"), *records])
    again = fold(parse_record(record.to_json().encode()) for record in [begun("research"), *records[:cut]])
    for record in records[cut:]:
        again = apply(again, record, Phases(RPI))
    assert again == whole


@thorough
@given(st.lists(any_record(RPI, "rpi"), max_size=30))
def test_counters_are_never_negative_and_steering_is_never_invented(records: list[Record]) -> None:
    progress = fold([begun("research"), *records])
    counts = (*progress.used, progress.seconds, *progress.streaks)
    assert all(count >= 0 for count in counts if isinstance(count, int | float))
    sent = [Steer(record.id, record.text) for record in records if isinstance(record, SteerTaken)]
    assert set(progress.steer) <= set(sent)
