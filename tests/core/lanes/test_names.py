"""Which loop a word on the command line means, and what a goal says about its lane."""

from __future__ import annotations

import pytest

from marathon.core.lanes.model import Refused
from marathon.core.lanes.names import Run, chosen, free, lane_of, mode_of, pick, split

RUNS = [
    Run("perf", "a", "running"),
    Run("perf", "b", "paused"),
    Run("quant", "c", "stopped"),
    Run("old", "d", "archived"),
]


@pytest.mark.parametrize(
    "name", ["", " ", "-x", ".x", "a b", "ä", "a/b/c", "/a", "a/", "x" * 65, "a\nb", "../x", "a/.."]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(Refused):
        split(name)


@pytest.mark.parametrize(
    ("target", "pair"), [("a", ("a", None)), (" a / b ", ("a", "b")), ("x" * 64, ("x" * 64, None))]
)
def test_targets(target: str, pair: tuple[str, str | None]) -> None:
    assert split(target) == pair


@pytest.mark.parametrize(
    ("target", "verb", "found"),
    [
        ("perf", "iterate", "perf/a"),
        ("perf/b", "resume", "perf/b"),
        ("quant", "resume", "quant/c"),
        ("old/d", "status", "old/d"),
    ],
)
def test_the_only_eligible_run_is_meant(target: str, verb: str, found: str) -> None:
    assert pick(target, RUNS, verb).name == found


@pytest.mark.parametrize(
    ("target", "verb", "said"),
    [
        ("perf", "stop", r"perf/a \(running\), perf/b \(paused\)"),
        ("perf/b", "measure", r"perf/b is paused\. .*loop resume perf/b"),
        ("quant", "pause", r"quant/c is stopped"),
        ("old", "resume", r"old/d is archived"),
        ("old/d", "archive", r"old/d is archived"),
        ("none", "status", r"There is no loop none\..*loop ls"),
    ],
)
def test_no_run_is_guessed(target: str, verb: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        pick(target, RUNS, verb)


def test_without_a_name_an_unfinished_loop_is_not_archived() -> None:
    about = {verb: [run.name for run in chosen("", RUNS, verb)] for verb in ("pause", "stop", "archive", "resume")}
    assert about == {"pause": ["perf/a"], "stop": ["perf/a"], "archive": ["quant/c"], "resume": ["perf/a", "perf/b"]}


def test_names_that_are_taken_get_a_number() -> None:
    assert free("run-1", {"run-2"}) == "run-1"
    assert free("run-1", {"run-1", "run-1-2"}) == "run-1-3"
    assert len(free("x" * 64, {"x" * 64})) == 64


@pytest.mark.parametrize(
    ("goal", "mode"),
    [
        ("Make parse() faster", "optimize"),
        ("finish all items of the checklist", "punchlist"),
        ("compare the optimizers in an ablation", "research"),
        ("implement the login", "dev"),
        ("explain the plane geometry", "optimize"),  # no word of any mode: "plan" is not in "plane"
        ("refactoring and building the planet service", "dev"),
        ("- [ ] docs", "punchlist"),
    ],
)
def test_the_mode_of_a_goal(goal: str, mode: str) -> None:
    assert mode_of(goal) == mode


@pytest.mark.parametrize(
    ("goal", "lane"),
    [
        ("Make the parser of the log files much faster", "make-parser-log-files"),
        ("???", "loop"),
        ("to be or", "to-be-or"),
        ("Donaudampfschifffahrtsgesellschaft", "donaudampfschifffahrtsge"),
    ],
)
def test_the_lane_of_a_goal(goal: str, lane: str) -> None:
    assert lane_of(goal) == lane
