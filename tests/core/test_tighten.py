"""Which direction of a project's setting is the tighter one."""

from __future__ import annotations

from typing import Any

import pytest

from marathon.cli.main import cli
from marathon.cli.settings import ProjectSettings
from marathon.core.budgets import Breakers
from marathon.core.tighten import BOUNDS, tightened


def test_every_setting_of_a_project_has_its_row() -> None:
    breakers = {f"breakers.{name}" for name in Breakers._fields}
    assert set(BOUNDS) == {*ProjectSettings.model_fields, *breakers} - {"breakers"}


def test_what_is_usual_here_is_what_the_options_say() -> None:
    options = {option.name: option for option in cli.params}
    for name, bound in BOUNDS.items():
        if bound and not name.startswith("breakers."):
            option = options[name]
            default = option.type.convert(option.default, option, None)
            assert bound.usual == getattr(default, "value", default), name


@pytest.mark.parametrize(
    ("name", "user", "tighter", "looser"),
    [
        ("max_iterations", None, (99, 100), (101, 0)),
        ("max_iterations", 5, (1, 5), (6, 0)),
        ("max_iterations", 0, (1, 10**6, 0), ()),
        ("max_time", None, ("1m", "9000h", "0"), ()),
        ("max_time", "1h", ("59m", "60m"), ("61m", "0s")),
        ("max_cost", None, (0.1, 10**6, 0), ()),
        ("max_cost", 0.5, (0.4, 0.5), (0.6, 0)),
        ("max_tokens", 1000, (1, 1000), (1001, 0)),
        ("session_timeout", None, ("1h", "2h"), ("3h", "0")),
        ("retries", None, (0, 3), (4,)),
        ("retries", 0, (0,), (1,)),
        ("retry_wait", None, ("2s", "1m"), ("1s", "0")),
        ("outage", None, ("0", "6h"), ("7h",)),
        ("keep_events", None, (200, 500, 0), (199, 1)),
        ("keep_events", 0, (0,), (1,)),
    ],
)
def test_the_tighter_direction(name: str, user: Any, tighter: tuple[Any, ...], looser: tuple[Any, ...]) -> None:
    mine = {} if user is None else {name: user}
    for value in tighter:
        found = tightened(mine, {name: value})
        assert (found.settings, found.ignored, set(found.by_project)) == ({name: value}, {}, {name})
    for value in looser:
        found = tightened(mine, {name: value})
        assert (found.settings, set(found.ignored), found.by_project) == (mine, {name}, frozenset())


@pytest.mark.parametrize("name", [name for name in Breakers._fields])
def test_a_breaker_may_be_tightened_and_never_switched_off(name: str) -> None:
    usual = getattr(Breakers(), name)
    for mine, value, counts in [
        ([], usual - 1, True),
        ([], usual + 1, False),
        ([], 0, False),
        ([f"{name}=2"], 1, True),
        ([f"{name}=2"], 3, False),
        ([f"{name}=0"], 99, True),
    ]:
        found = tightened({"breakers": mine}, {"breakers": [f"{name.replace('_', '-')}={value}"]})
        assert (len(found.settings["breakers"]) > len(mine)) is counts
        assert bool(found.ignored) is not counts


def test_the_users_own_breakers_stay_where_the_project_names_others() -> None:
    found = tightened({"breakers": ["no-progress=1"]}, {"breakers": ["same-error=1"]})
    assert found.settings["breakers"] == ["no-progress=1", "same-error=1"]


def test_what_is_a_matter_of_taste_is_the_projects_choice() -> None:
    said = {"agent": "claude", "mode": "stream", "workflow": "loop", "reflect_every": 3, "notify": False}
    assert tightened({"agent": "pi", "notify": True}, said) == (said, frozenset(), {})


def test_what_is_no_number_is_left_for_its_option_to_refuse() -> None:
    assert tightened({}, {"max_time": "soon"}).settings == {"max_time": "soon"}
    assert tightened({}, {"breakers": ["all=0"]}).settings == {"breakers": ["all=0"]}
