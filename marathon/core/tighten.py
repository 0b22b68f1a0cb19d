"""What a project's file may change of the settings of the user who works in it: it may only tighten them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from marathon.core.budgets import Breakers, Limits, parse_breakers
from marathon.core.text import duration, seconds_in

_USUAL = Limits()


class Bound(NamedTuple):
    """A setting that holds something back."""

    usual: float  # where the user says nothing
    tighter: Literal["less", "more"]
    endless: bool = False  # 0 is no limit, and not the smallest number

    def loosens(self, project: float, user: float) -> bool:
        theirs, ours = (float("inf") if self.endless and not value else value for value in (project, user))
        return theirs > ours if self.tighter == "less" else theirs < ours


# Every setting of a project's file. None: no value of it is tighter than another, so the project may choose.
BOUNDS: dict[str, Bound | None] = {
    "max_iterations": Bound(_USUAL.max_iterations, "less", endless=True),
    "max_time": Bound(_USUAL.max_seconds, "less", endless=True),
    "max_cost": Bound(_USUAL.max_cost, "less", endless=True),
    "max_tokens": Bound(_USUAL.max_tokens, "less", endless=True),
    "session_timeout": Bound(_USUAL.session_timeout, "less", endless=True),
    "retries": Bound(_USUAL.retries, "less"),
    "retry_wait": Bound(_USUAL.retry_wait, "more"),
    "outage": Bound(_USUAL.outage, "less"),
    "keep_events": Bound(200, "more", endless=True),  # what a session did has to be there to be read
    **{f"breakers.{name}": Bound(usual, "less", endless=True) for name, usual in Breakers()._asdict().items()},
    "agent": None,
    "mode": None,
    "workflow": None,
    "reflect_every": None,
    "notify": None,
}


class Tightened(NamedTuple):
    settings: dict[str, Any]  # that count
    by_project: frozenset[str]  # the bounds of them that the project set
    ignored: dict[str, str]  # by setting: what the project said and the user has to say himself


def tightened(user: Mapping[str, Any], project: Mapping[str, Any], own: str = "") -> Tightened:
    """The user's settings, from the file `own`, with those of the project that loosen nothing.

    What cannot be read as a number stays as it is, so that the option refuses it by name.
    """
    settings, by_project, ignored = dict(user), set(), {}
    for name, value in project.items():
        if name == "breakers":
            settings[name], refused = _breakers(user.get(name, []), value)
            if refused:
                mine = user.get(name) or [f"{each}={usual}" for each, usual in Breakers()._asdict().items()]
                wanted = f"{own}: {_line(name, [*user.get(name, []), *refused])}"
                ignored[name] = _said(_line(name, refused), _line(name, mine), wanted, by_user=name in user)
            continue
        bound, theirs = BOUNDS[name], _number(value)
        if bound and theirs is not None:
            ours = _number(user[name]) if name in user else bound.usual
            if ours is not None and bound.loosens(theirs, ours):
                usual = duration(bound.usual) if isinstance(value, str) else bound.usual
                mine, said = _line(name, user.get(name, usual)), _line(name, value)
                ignored[name] = _said(said, mine, f"{own}: {said}", by_user=name in user)
                continue
            by_project.add(name)
        settings[name] = value
    return Tightened(settings, frozenset(by_project), ignored)


def _breakers(user: list[str], project: list[str]) -> tuple[list[str], list[str]]:
    """The words that count, and those that would let more happen before a human is asked."""
    counts, refused = list(user), list[str]()
    for word in project:
        try:
            ours, theirs = parse_breakers(user), parse_breakers([word])
        except ValueError:
            counts.append(word)
            continue
        name = word.partition("=")[0].strip().replace("-", "_")
        bound = BOUNDS[f"breakers.{name}"]
        assert bound
        loosens = bound.loosens(getattr(theirs, name), getattr(ours, name))
        (refused if loosens else counts).append(word)
    return counts, refused


def _said(theirs: str, ours: str, wanted: str, *, by_user: bool) -> str:
    whose = "your" if by_user else "the usual"
    told = f"The project's .marathon/config.toml says {theirs}, which is looser than {whose} {ours}, so it is ignored."
    return f"{told} A project may only tighten. If you want it, put into {wanted}"


def _line(name: str, value: Any) -> str:
    return f"{name} = {value:.15g}" if isinstance(value, int | float) else f"{name} = {json.dumps(value)}"


def _number(value: Any) -> float | None:
    return seconds_in(value) if isinstance(value, str) else float(value)
