"""Deciding what the plan's two chunks hold, from what research found and what was asked for."""

from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.checks import command_line
from marathon.agents.rehearsal.functions import Function
from marathon.agents.rehearsal.heed import Heeded
from marathon.agents.rehearsal.steps import (
    contents_step,
    docstrings_step,
    heed_step,
    readme_step,
    tests_step,
    tidy_step,
    unittest_step,
)
from marathon.agents.rehearsal.survey import Survey
from marathon.agents.rehearsal.testwriter import free_path

MOST_FUNCTIONS = 20
MOST_TIDIED = 10
CONTENTS = "CONTENTS.md"


class Wishes(NamedTuple):
    """What is known when planning: findings as (path, function, gap), what to spare, and the asks."""

    findings: list[tuple[str, str, str]]
    spared: set[str]
    heeded: list[Heeded]

    def found(self, gap: str) -> set[tuple[str, str]]:
        return {(path, name) for path, name, what in self.findings if gap in what}

    def spares(self, function: Function) -> bool:
        return bool(self.spared & {function.path, function.name})


class Draft(NamedTuple):
    """The steps of both chunks, and what was left out with the reason."""

    first: list[str]
    second: list[str]
    left_out: list[str]


def draft(project: Path, survey: Survey, wishes: Wishes) -> Draft:
    """Chunk one puts right what is there, chunk two adds what is missing; each ends with the tests."""
    asked = [each for each in wishes.heeded if each.ask.kind != "mend"]
    later = [each for each in asked if each.test or each.readme]
    work = _code(project, survey, wishes) if survey.has_code else _prose(project, survey, wishes)
    readmes = dict.fromkeys(each.readme for each in later if each.readme)
    run_tests = tests_step(command_line(project, survey))
    return Draft(
        [*(heed_step(each) for each in asked if each not in later), *work.first, run_tests],
        [*work.second, *map(readme_step, readmes), *map(heed_step, later), run_tests],
        work.left_out,
    )


def step_for_test(project: Path, survey: Survey, function: Function) -> str:
    return unittest_step(free_path(project, survey, function), function.name, function.path)


def _code(project: Path, survey: Survey, wishes: Wishes) -> Draft:
    documenting, undocumented = _docstrings(survey, wishes)
    testing, untested = _unittests(survey, wishes)
    return Draft(documenting, [step_for_test(project, survey, each) for each in testing], [*undocumented, *untested])


def _docstrings(survey: Survey, wishes: Wishes) -> tuple[list[str], list[str]]:
    """One step for each file with functions that still lack a docstring; and what is left out."""
    wanted = wishes.found("no docstring")
    missing = [each for each in survey.functions if not each.documented and (each.path, each.name) in wanted]
    kept = [each for each in missing if not wishes.spares(each)]
    now, later = kept[:MOST_FUNCTIONS], kept[MOST_FUNCTIONS:]
    steps = [
        docstrings_step(path, [each.name for each in now if each.path == path])
        for path in dict.fromkeys(each.path for each in now)
    ]
    spared = [f"`{each.name}` in `{each.path}`: to be left alone" for each in missing if each not in kept]
    return steps, [*spared, *(f"`{each.name}` in `{each.path}`: another run's work" for each in later)]


def _unittests(survey: Survey, wishes: Wishes) -> tuple[list[Function], list[str]]:
    """What was asked for, else the first untested function that is safe to call; and what is left out."""
    asked = list(dict.fromkeys(function for each in wishes.heeded for function in each.test))
    wanted = wishes.found("no test")
    untested = [each for each in survey.functions if (each.path, each.name) in wanted]
    untested = [each for each in untested if "no test" in survey.gaps(each) and not wishes.spares(each)]
    possible = [each for each in asked or untested if each.callable_in_a_test]
    impossible = [each for each in asked or untested if not each.callable_in_a_test]
    left_out = [f"a test for `{each.name}`: calling it may do more than compute" for each in impossible]
    return possible if asked else possible[:1], left_out


def _prose(project: Path, survey: Survey, wishes: Wishes) -> Draft:
    """A project without code: tidy its texts, and list them."""
    known = {path for path, _, _ in wishes.findings}
    untidy = [path for path in survey.untidy() if path in known and path not in wishes.spared]
    is_listed = not survey.files or (project / CONTENTS).exists()
    return Draft(
        [tidy_step(path) for path in untidy[:MOST_TIDIED]],
        [] if is_listed else [contents_step(CONTENTS)],
        [f"`{path}`: another run's work" for path in untidy[MOST_TIDIED:]],
    )
