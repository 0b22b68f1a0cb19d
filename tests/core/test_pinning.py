"""The definition a task keeps: what is asked for, what a yes or a no does, and what the agent's files change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from marathon.core.courses.phases import Phases
from marathon.core.courses.pinning import find_again, find_first, resolved
from marathon.core.courses.workflow import Definitions
from marathon.core.records import DefinitionFound, Gate, Record, parse_record
from tests.core.making import RPI, after, begun, decide, fold, in_words, left, library, verdict, workflow

NO_PLAN = library(replace(RPI["rpi"], phases=(RPI["rpi"].phases[0], RPI["rpi"].phases[2])))
ONE_REVIEW = library(workflow("mine", {"id": "a", "gate": True}, "b"))
TWO_REVIEWS = library(workflow("mine", {"id": "a", "gate": True}, {"id": "b", "gate": True}))


def first(definitions: Definitions, key: str = "rpi", source: str = "project", chosen: bool = False) -> DefinitionFound:
    sources = dict.fromkeys(definitions, source)
    return find_first(definitions, key, sources, RPI, chosen_by_project=chosen)


@pytest.mark.parametrize(
    ("found", "asks"),
    [
        (first(RPI, source="built-in"), False),
        (first(RPI), False),  # the same as the built-in one
        (first(NO_PLAN), True),
        (first(NO_PLAN, source="user"), False),
        (first(ONE_REVIEW, "mine"), True),
        (first(ONE_REVIEW, "mine", "user"), False),
        (first(ONE_REVIEW, "mine", "user", chosen=True), True),
        (first(TWO_REVIEWS, "mine"), False),
    ],
)
def test_a_human_is_asked_where_a_project_takes_reviews_away(found: DefinitionFound, asks: bool) -> None:
    assert found.agreed is not asks
    assert bool(found.shown) is asks


def test_a_definition_comes_with_everything_it_refers_to_and_nothing_else() -> None:
    all_of_them = library(workflow("outer", "@inner", "end"), workflow("inner", "one"), workflow("other", "two"))
    assert sorted(resolved(all_of_them, "outer")) == ["inner", "outer"]


def test_a_definition_is_the_same_after_the_journal() -> None:
    found = first(library(workflow("outer", "@inner", {"id": "end", "gate": True}), workflow("inner", "one")), "outer")
    assert parse_record(found.to_json().encode()) == found


def test_only_a_newer_version_of_our_own_changes_nothing() -> None:
    pinned = first(RPI, source="built-in")
    assert find_again(NO_PLAN, "rpi", {"rpi": "built-in"}, pinned) is None
    assert find_again(NO_PLAN, "rpi", {"rpi": "user"}, pinned) is not None
    back = find_again(RPI, "rpi", {"rpi": "built-in"}, pinned)
    assert back is not None
    assert back.agreed


PINNED = first(RPI, source="built-in")
CHANGED = find_again(NO_PLAN, "rpi", {"rpi": "project"}, PINNED)
assert CHANGED
ASKED: list[Record] = [begun("research"), PINNED, *after("research", left("running/research"))[1:], CHANGED]


def test_until_a_yes_the_task_goes_by_what_it_began_with() -> None:
    life = fold(ASKED)
    assert life.pinned == PINNED
    assert Phases(NO_PLAN).pinned(life).where(life).next_phase == "plan"
    assert in_words(decide(ASKED)) == "gate redefined research, then again"


def opened() -> Gate:
    step = decide(ASKED)
    assert isinstance(step, Gate)
    return replace(step, token="token")


def test_a_yes_is_for_what_was_shown() -> None:
    yes = fold([*ASKED, opened(), verdict()])
    assert yes.pinned
    assert yes.pinned.definitions == NO_PLAN
    assert Phases(RPI).pinned(yes).where(yes).next_phase == "implement"
    other = replace(CHANGED, digest="another") if CHANGED else None
    assert other
    assert fold([*ASKED, opened(), other, verdict()]).pinned == PINNED


def test_a_no_is_not_asked_again_until_the_file_changes_once_more() -> None:
    refused: list[Record] = [*ASKED, opened(), verdict("redo", phase="research")]
    assert fold(refused).pinned == PINNED
    assert in_words(decide(refused)) == "session research"
    assert CHANGED
    assert in_words(decide([*refused, replace(CHANGED, digest="b", shown="b")])).startswith("gate redefined")


def test_before_anything_was_agreed_to_no_session_starts() -> None:
    records: list[Record] = [begun("research"), first(NO_PLAN)]
    assert in_words(decide(records)) == "gate definition research, then again"
    assert in_words(decide([*records, replace(first(NO_PLAN), agreed=True)])) == "session research"
