"""Which task a human means by a name."""

from __future__ import annotations

import pytest

from marathon.core.names import called, completions, is_whole_name, meant

API, API_V2, CSV, OLD_CSV = (
    "20260202-143000-api",
    "20260203-090000-api-v2",
    "20260204-100000-csv",
    "20250101-000000-csv",
)
NAMES = [API, API_V2, CSV, OLD_CSV, "by-hand", "20260205-000000-übung"]
SIZE = "20260206-000000-große-andern"  # made of the title "Größe ändern"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (API, [API]),
        ("api", [API]),
        ("API-V", [API_V2]),
        ("pi", [API, API_V2]),
        ("csv", [CSV, OLD_CSV]),
        ("20260204", [CSV]),
        ("hand", ["by-hand"]),
        ("u\u0308bung", ["20260205-000000-übung"]),
        ("nope", []),
    ],
)
def test_a_whole_name_wins_over_a_part_and_nothing_is_guessed(typed: str, found: list[str]) -> None:
    assert meant(typed, NAMES) == found


@pytest.mark.parametrize(
    "typed", ["Größe ändern", "größe-ändern", "grosse", "GRÖSSE", "größe", "gro\u0308ße", "ändern"]
)
def test_a_name_is_found_by_the_title_it_was_made_of_and_by_its_words(typed: str) -> None:
    assert meant(typed, [*NAMES, SIZE]) == [SIZE]


def test_a_name_that_is_typed_exactly_is_not_another_that_is_only_spelled_alike() -> None:
    assert meant("übung", ["übung", "ubung"]) == ["übung"]
    assert meant("by_hand", ["by_hand", "by-hand"]) == ["by_hand"]
    assert meant("?!", ["...", "?"]) == []


@pytest.mark.parametrize(("typed", "offered"), [("größ", ["große-andern"]), ("api-", ["api-v2"])])
def test_completion_offers_what_a_title_begins_with(typed: str, offered: list[str]) -> None:
    assert completions(typed, [*NAMES, SIZE]) == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["api", "api-v2", CSV, OLD_CSV, "by-hand", "übung"]),
        ("ap", ["api", "api-v2"]),
        ("20260202", [API]),
        ("202602", [CSV]),
        ("x", []),
    ],
)
def test_completion_offers_names_that_are_understood(typed: str, offered: list[str]) -> None:
    assert completions(typed, NAMES) == offered
    assert all(len(meant(name, NAMES)) == 1 for name in offered)


def test_a_part_is_not_a_whole_name() -> None:
    assert is_whole_name("api", NAMES)
    assert is_whole_name(API, NAMES)
    assert not is_whole_name("ap", NAMES)


def test_a_sentence_names_a_task_without_its_time_and_a_loop_by_its_lane() -> None:
    assert called(("docs", "tasks", API)) == "api"
    assert called((".multiloop", "lanes", "perf", "faster", "task")) == "perf/faster"
