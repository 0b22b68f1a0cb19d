"""Names of lanes and runs, what a name on the command line means, and what a goal says about its lane."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count

from marathon.core.lanes.model import Mode, Refused, Status
from marathon.core.text import one_line

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_NAMES = "A name has 1 to 64 letters, digits, dots, dashes or underscores, and begins with a letter or digit."
_LIST = "See all of them: pi-marathon loop ls"


@dataclass(frozen=True)
class Run:
    """One run of a lane, as the directories tell it."""

    lane: str
    tag: str
    status: Status

    @property
    def name(self) -> str:
        return f"{self.lane}/{self.tag}"


_UNFINISHED: tuple[Status, ...] = ("running", "paused")
_ENDED: tuple[Status, ...] = ("stopped", "completed")
# Which runs a verb may be about. A verb without a row is about a running one.
ELIGIBLE: dict[str, tuple[Status, ...]] = {
    "resume": _UNFINISHED + _ENDED,
    "run": _UNFINISHED + _ENDED,
    "pause": _UNFINISHED,
    "stop": _UNFINISHED + _ENDED,
    "archive": _UNFINISHED + _ENDED,
    "status": (*_UNFINISHED, *_ENDED, "archived"),
}
# Which runs a verb is about when no name is typed. Only resume has to be about one.
UNNAMED: dict[str, tuple[Status, ...]] = {
    "resume": _UNFINISHED,
    "pause": ("running",),
    "stop": ("running",),
    "archive": _ENDED,
    "status": _UNFINISHED + _ENDED,
    "try": ("running",),
}


def valid_name(name: str, what: str) -> str:
    if not NAME.fullmatch(name):
        raise Refused(f"{one_line(name, 70)!r} cannot be the name of a {what}.", _NAMES)
    return name


def split(target: str) -> tuple[str, str | None]:
    """A target as lane and run, of which the run may be left out."""
    lane, slash, tag = target.strip().partition("/")
    lane, tag = lane.strip(), tag.strip()
    return valid_name(lane, "loop"), valid_name(tag, "run") if slash else None


def pick(target: str, runs: Sequence[Run], verb: str) -> Run:
    """The one run that a target names. Two candidates are listed, never guessed."""
    lane, tag = split(target)
    fits = ELIGIBLE.get(verb, ("running",))
    named = [run for run in runs if run.lane == lane and tag in (None, run.tag)]
    eligible = [run for run in named if run.status in fits]
    if len(eligible) == 1:
        return eligible[0]
    if eligible:
        raise ambiguous(eligible, verb, f"{len(eligible)} runs of {lane} match.")
    if len(named) == 1:
        resume = f"To continue it: pi-marathon loop resume {named[0].name}"
        way = f'Start another run: pi-marathon loop start "GOAL" --lane {lane}'
        raise Refused(f"{named[0].name} is {named[0].status}.", way if named[0].status == "archived" else resume)
    if named:
        raise ambiguous(named, "resume", f"No run of {lane} is {' or '.join(fits)}.")
    there = ", ".join(run.name for run in runs[:8] if run.status != "archived")
    new = f"To start one for this goal: pi-marathon loop run {shlex.quote(one_line(target, 60))} --verify CMD"
    raise Refused(
        f"There is no loop {one_line(target, 140)}.",
        f"There are: {there}. {_LIST}" if there else new if verb == "run" else _LIST,
    )


def chosen(target: str, runs: Sequence[Run], verb: str) -> list[Run]:
    """The run that a target names, or those that the verb is about without one."""
    return [pick(target, runs, verb)] if target.strip() else [run for run in runs if run.status in UNNAMED[verb]]


def ambiguous(runs: Sequence[Run], verb: str, reason: str) -> Refused:
    listed = ", ".join(f"{run.name} ({run.status})" for run in runs)
    return Refused(f"{reason} They are: {listed}.", f"Name one exactly: pi-marathon loop {verb} {runs[0].name}")


def free(name: str, taken: Collection[str]) -> str:
    """This name, or the first of name-2, name-3 and so on that no one has."""
    if name not in taken:
        return name
    tries = (f"{name[: 63 - len(str(number))]}-{number}" for number in count(2))
    return next(each for each in tries if each not in taken)


# What a goal says

_KEY_WORDS: dict[Mode, str] = {
    "optimize": "optimize improve reduce increase faster slower latency throughput performance tune kernel speed "
    "efficiency minimize maximize",
    "punchlist": "punchlist checklist plan todo implement_all complete_all finish_all check_off",
    "research": "ablation study compare sweep experiment measure benchmark test_different try_each grid_search",
    "dev": "implement build create develop add_feature fix_bug refactor write code",
}
_SMALL_WORDS = "a an and are as at be by for from in into is it its of on or our that the this to until with"
_LONGEST_LANE = 24


def _pattern(key_word: str) -> re.Pattern[str]:
    """The whole word in its usual forms. "plan" is not in "planet"."""
    stem = re.escape(key_word.replace("_", " "))
    forms = f"{stem[:-1]}(?:e|es|ed|er|ing)" if stem.endswith("e") else f"{stem}(?:s|ed|ing)?"
    return re.compile(rf"\b{forms}\b")


_PATTERNS = {mode: [_pattern(word) for word in words.split()] for mode, words in _KEY_WORDS.items()}


def mode_of(goal: str) -> Mode:
    """The mode whose words occur most often. The first one of the table wins a tie."""
    text = goal.lower()
    hits = {mode: sum(bool(pattern.search(text)) for pattern in words) for mode, words in _PATTERNS.items()}
    hits["punchlist"] += "[ ]" in text
    return max(hits, key=lambda mode: hits[mode])


def lane_of(goal: str) -> str:
    """A short name from the first words of a goal that mean something."""
    words = re.findall(r"[a-z0-9]+", goal.lower())
    name = ""
    for word in [word for word in words if word not in _SMALL_WORDS.split()] or words:
        longer = f"{name}-{word}" if name else word[:_LONGEST_LANE]
        if len(longer) > _LONGEST_LANE:
            break
        name = longer
    return name or "loop"
