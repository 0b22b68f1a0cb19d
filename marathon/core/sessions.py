"""What the journal says about each session, as plain values for its file, for `status` and for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from marathon.core.records import Begun, Record, RunStarted, SessionEnded, SessionStarted
from marathon.core.text import counted


def session_facts(run: int, started: SessionStarted, ended: SessionEnded) -> dict[str, Any]:
    """The facts of a session, ready for JSON."""
    return {
        "run": run,
        "iteration": started.iteration,
        "phase": started.phase,
        "agent": started.agent,
        "startedAt": started.at,
        "endedAt": ended.at,
        "reflects": started.reflects,
        **{name: _plain(value) for name, value in vars(ended).items() if name not in ("n", "at", "type")},
    }


def sessions_of(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Every session that ended, of every run, in order."""
    run = 0
    started: SessionStarted | None = None
    for record in records:
        match record:
            case Begun():
                run = 1
            case RunStarted():
                run = record.run
            case SessionStarted():
                started = record
            case SessionEnded() if started is not None:
                yield session_facts(run, started, record)
                started = None


def how_many(records: Iterable[Record]) -> str:
    """The sessions of all runs, with the one that still works or whose runner is gone."""
    began = ended = 0
    for record in records:
        began += isinstance(record, SessionStarted)
        ended += isinstance(record, SessionEnded)
    return counted(began, "session") + (", one not over" if began > ended else "")


def _plain(value: object) -> object:
    """The parts of a record are small dataclasses."""
    return vars(value) if hasattr(value, "__dict__") else value
