"""What counts as the same error, as going back and forth, and how breakers are set."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.breakers import circles, remember, returns, signature
from marathon.core.budgets import Breakers, Limits, parse_breakers
from marathon.core.criteria import Criterion
from marathon.core.records import Answer, Checked, CheckResult, CriteriaFound, Gate, Record
from marathon.core.steps import RunSession, Wait
from tests.core.making import after, begun, decide, fold, left, started, thorough

SAME = [
    ("Timeout after 30 s", "Timeout after 31 s"),
    ("File /home/a/x.py, line 12", "File /tmp/b/x.py, line 99"),
    ("object at 0x7fd15c83a610", "object at 0x7fc0cbfb99d0"),
    ("commit 4f2a9c1 failed", "commit 99aa001 failed"),
    ("took 1.25s in ./build/out.log", "took 9.75s in ./build/other.log"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_numbers_addresses_and_paths_do_not_make_another_error(one: str, other: str) -> None:
    assert signature("check a", one) == signature("check a", other)


@pytest.mark.parametrize(("one", "other"), [("No module named x", "No module named y"), ("refused", "timed out")])
def test_other_words_do(one: str, other: str) -> None:
    assert signature("check a", one) != signature("check a", other)


def test_another_place_does() -> None:
    assert signature("check a", "refused") != signature("check b", "refused")


@thorough
@given(st.text(max_size=2000))
def test_a_signature_is_short_and_on_one_line(text: str) -> None:
    found = signature("x", text)
    assert len(found) <= 403
    assert "\n" not in found


@pytest.mark.parametrize(
    ("contents", "count"),
    [("", 0), ("a", 0), ("ab", 0), ("aba", 1), ("abab", 2), ("ababa", 3), ("abcb", 1), ("abc", 0)],
)
def test_going_back_to_what_it_was_two_changes_ago_is_counted(contents: str, count: int) -> None:
    assert returns(tuple(contents)) == count


def test_a_file_that_stays_as_it_is_goes_nowhere() -> None:
    history: Any = ()
    for digest in "aabbaabbaa":
        history = remember(history, {"f": digest})
    assert dict(history)["f"] == tuple("ababa")
    assert circles(history, 3) == "Rewritten back and forth between the same two contents: f."
    assert circles(history, 4) is None
    assert circles(history, 0) is None


def test_histories_are_bounded() -> None:
    history: Any = ()
    for number in range(1000):
        history = remember(history, {f"file {number}": "x", "same": str(number)})
    assert len(history) <= 200
    assert len(dict(history)["same"]) <= 32


def test_breakers_are_set_by_name() -> None:
    assert parse_breakers([]) == Breakers(3, 3, 5, 3, 13)
    assert parse_breakers(["same-error=5", "no_progress = 0"]) == Breakers(same_error=5, no_progress=0)


@pytest.mark.parametrize("word", ["", "same-error", "same-error=", "same-error=x", "same-error=-1", "other=3"])
def test_what_is_no_breaker_is_named(word: str) -> None:
    with pytest.raises(ValueError, match="NAME=N"):
        parse_breakers([word])


# In the judgement

TESTS = Criterion(name="tests", command="pytest")
READS = Criterion(name="reads well")
WANTED = CriteriaFound(digest="d", criteria=[TESTS, READS])


def failing(tail: str = "", *names: str) -> Checked:
    """Results in which these (or the tests) are not met."""
    unmet = names or ("tests",)
    results = [
        CheckResult(name=each.name, met=each.name not in unmet, command=each.command, reason="exit code 1", tail=tail)
        for each in WANTED.criteria
    ]
    return Checked(digest="d", results=results)


def attempts(*found: Record | list[Record]) -> list[Record]:
    """Each a session that called it completed, and what the checks said then."""
    records: list[Record] = [begun("implement"), WANTED]
    for number, one in enumerate(found, start=1):
        more = one if isinstance(one, list) else [one]
        records += [started("implement", number), left("completed/done"), *more]
    return records


def stuck(records: list[Record], **breakers: int) -> str | None:
    step = decide(records, limits=Limits(breakers=Breakers(**breakers)))
    if isinstance(step, RunSession):
        return None
    assert isinstance(step, Gate)
    assert step.reason == "stuck"
    return step.message


def test_the_sessions_that_changed_nothing_are_named() -> None:
    ended = [left("running/implement", changed=number == 1) for number in (1, 2, 3, 4)]
    said = stuck(after("implement", *ended))
    assert said is not None
    assert said.startswith("Nothing changed in the last 3 sessions (2, 3, 4).")


def test_the_same_error_three_times_is_stuck_and_names_its_evidence() -> None:
    twice = attempts(failing("line 12: boom"), failing("line 13: boom"))
    assert stuck(twice) is None
    said = stuck(attempts(failing("line 12: boom"), failing("line 13: boom"), failing("line 14: boom")))
    assert said is not None
    assert "sessions 1, 2, 3" in said
    assert "boom" in said


def test_a_different_error_between_counts_anew() -> None:
    records = attempts(failing("boom"), failing("boom"), failing("bang"), failing("boom"), failing("boom"))
    assert stuck(records, same_unmet=0) is None


def test_the_same_unmet_criteria_five_times_is_stuck_whatever_they_say() -> None:
    words = ("apple", "pear", "plum", "fig", "lime")
    assert stuck(attempts(*(failing(word) for word in words[:4]))) is None
    said = stuck(attempts(*(failing(word) for word in words)))
    assert said is not None
    assert "5 times in a row: tests" in said


def test_another_set_of_unmet_criteria_between_counts_anew() -> None:
    words = ("apple", "pear", "plum", "fig")
    between = failing("lime", "tests", "reads well")
    assert stuck(attempts(*(failing(word) for word in words), between, failing("kiwi"))) is None


def test_judgements_are_given_five_times_too() -> None:
    assert stuck(attempts(*[failing("", "reads well")] * 4)) is None
    assert stuck(attempts(*[failing("", "reads well")] * 5)) is not None


def test_a_human_who_says_go_on_sets_them_back() -> None:
    gate = Gate(reason="stuck", token="t", phase="implement")
    answered: list[Record] = [failing("boom"), gate, Answer(choice="continue")]
    assert stuck(attempts(failing("boom"), failing("boom"), answered, failing("boom"), failing("boom"))) is None


def test_every_breaker_can_be_turned_off() -> None:
    assert stuck(attempts(*[failing("boom")] * 9), same_error=0, same_unmet=0) is None


def test_a_change_in_what_the_checks_say_is_progress() -> None:
    idle = left("completed/done", changed=False)
    records: list[Record] = [begun("implement"), WANTED]
    for number, found in enumerate([failing("a"), failing("b"), failing("c", "reads well"), failing("d")], start=1):
        records += [started("implement", number), idle, found]
    assert stuck(records) is None
    assert fold(records).streaks.idle == 0


def back_and_forth(contents: str) -> list[Record]:
    records: list[Record] = [begun("implement")]
    for number, digest in enumerate(contents, start=1):
        records += [started("implement", number), left("running/implement", files=[("src/a.py", digest)])]
    return records


def test_a_file_rewritten_back_and_forth_is_stuck_and_named() -> None:
    assert stuck(back_and_forth("abab")) is None
    said = stuck(back_and_forth("ababa"))
    assert said is not None
    assert "src/a.py" in said
    assert stuck(back_and_forth("ababa"), back_and_forth=0) is None


def test_the_same_crash_again_and_again_between_good_sessions_is_stuck() -> None:
    crash = left(None, ending="crashed", cause="out of memory at 0x7fd15c83a610")
    good = left("running/implement")
    records: list[Record] = [begun("implement")]
    for number, ended in enumerate([crash, good, crash, good, crash], start=1):
        records += [started("implement", number), ended]
    step = decide(records)
    assert isinstance(step, Gate)
    assert (step.reason, "sessions 1, 3, 5" in step.message) == ("stuck", True)


def test_a_limit_that_resets_is_no_circle() -> None:
    limited = left(None, ending="refused", cause="You've hit your 5-hour limit", retry_after=600)
    records: list[Record] = [begun("implement")]
    for number, ended in enumerate([limited, left("running/implement")] * 5 + [limited], start=1):
        records += [started("implement", number), ended]
    step = decide(records)
    assert isinstance(step, Wait)
    assert (step.kind, step.seconds) == ("retry", 600)


def reviews(rounds: int) -> list[Record]:
    records: list[Record] = [begun("research")]
    for number in range(1, rounds):
        records += [
            started("research", number),
            left("paused/research"),
            Gate(reason="review", token="t", phase="research", onward="next"),
            Answer(choice="redo", phase="research"),
        ]
    return [*records, started("research", rounds), left("paused/research")]


@pytest.mark.parametrize(
    ("rounds", "reason", "said"), [(3, "review", False), (4, "review", True), (13, "rounds", True)]
)
def test_review_rounds_are_warned_of_and_then_stuck(rounds: int, reason: str, said: bool) -> None:
    step = decide(reviews(rounds))
    assert isinstance(step, Gate)
    assert (step.reason, f"round {rounds}" in step.message, step.onward) == (reason, said, "next")
