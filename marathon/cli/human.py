"""Tells whether a human types a command, because what a human types at a terminal counts as agreed to."""

from __future__ import annotations

import os

from marathon.process.terminal import interactive
from marathon.process.tree import ancestors, values_in_environ, variable
from marathon.store.places import states_folder

_SESSION = "MARATHON_RUNNER_ID"


def typed_by_a_human() -> bool:
    """At a terminal, not below a session, and while no agent works that might have got away from its session."""
    return interactive() and not _below_a_session() and not agents_at_work()


def agents_at_work() -> bool:
    """Whether a process of any session of this user lives, also of one whose runner was killed."""
    runners = {path.stem for path in states_folder().glob("*.json")}
    return bool(runners & values_in_environ(_SESSION))


def _below_a_session() -> bool:
    return bool(os.environ.get(_SESSION)) or any(variable(pid, _SESSION) for pid in ancestors(os.getpid()))
