"""Short ways to write down definitions, records and steps, so that a table of cases reads like the contract."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from typing import Any, Literal

from hypothesis import HealthCheck, settings

from marathon.core import life
from marathon.core.budgets import Limits
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import Definitions, Workflow, parse_workflow, places
from marathon.core.decide import next_step
from marathon.core.life import Life
from marathon.core.records import (
    Answer,
    Begun,
    Choice,
    Gate,
    HumanMark,
    Moved,
    Reason,
    Record,
    SessionEnded,
    SessionStarted,
    parse_record,
)
from marathon.core.steps import Finish, Halt, Note, RunSession, Step, Verify, Wait
from marathon.store.definitions import BUILT_IN

# Loaded machines are slow, not wrong.
thorough = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

Onward = Literal["next", "again"]


def workflow(key: str, *entries: str | dict[str, Any], **more: Any) -> Workflow:
    """Entries: "a" is a phase, "@b" a reference, a table stands for itself."""
    raw = [_entry(entry) for entry in entries]
    return parse_workflow(key, {"name": key.title(), **more, "phases": raw})


def _entry(entry: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(entry, dict):
        return {"name": str(entry["id"]).title(), "brief": "Do it.", **entry}
    if entry.startswith("@"):
        return {"workflow": entry[1:]}
    return {"id": entry, "name": entry.title(), "brief": "Do it."}


def library(*workflows: Workflow) -> dict[str, Workflow]:
    return {one.key: one for one in workflows}


RPI = library(parse_workflow("rpi", tomllib.loads((BUILT_IN / "rpi" / "workflow.toml").read_text())))


# Records


def read(fields: dict[str, Any]) -> Record:
    """A record as it comes back from its line."""
    return parse_record(json.dumps(fields, default=vars).encode())


def begun(phase: str, definitions: Definitions = RPI, key: str = "rpi", **more: Any) -> Begun:
    path = next(path for path, found in places(definitions, key) if found.id == phase)
    return Begun(workflow=key, path=list(path), phase=phase, **more)


def started(phase: str = "research", iteration: int = 1, **more: Any) -> SessionStarted:
    found = read({"type": "session_started", "iteration": iteration, "phase": phase, "agent": "rehearsal", **more})
    assert isinstance(found, SessionStarted)
    return found


def left(said: str | None = "running/research", **more: Any) -> SessionEnded:
    """How a session ended; `said` is what STATE.json proposed, as state/phase."""
    if said is not None:
        state, phase = said.split("/")
        more["proposal"] = {"state": state, "phase": phase, "note": "a note"}
    found = read({"type": "session_ended", "ending": "ended", "output": "fresh", **more})
    assert isinstance(found, SessionEnded)
    return found


def mark(size: int) -> HumanMark:
    return HumanMark(size=size, digest=f"digest of {size}")


def gate(reason: Reason = "review", phase: str = "research", onward: Onward = "next", **more: Any) -> Gate:
    return Gate(reason=reason, token="t", phase=phase, onward=onward, **more)


def verdict(choice: Choice = "continue", **more: Any) -> Answer:
    return Answer(choice=choice, **more)


def after(phase: str, *ended: SessionEnded, definitions: Definitions = RPI, key: str = "rpi") -> list[Record]:
    """The journal of a task in this phase whose sessions ended like that, one after the other."""
    records: list[Record] = [begun(phase, definitions, key)]
    for number, end in enumerate(ended, start=1):
        records += [started(phase, number), end]
    return records


# Steps


def decide(records: list[Record], definitions: Definitions = RPI, limits: Limits | None = None) -> Step:
    return next_step(fold(records, definitions), Phases(definitions), limits or Limits())


def fold(records: Iterable[Record], definitions: Definitions = RPI) -> Life:
    return life.fold(records, Phases(definitions))


def in_words(step: Step) -> str:
    """A step in a few words: what the tables compare with."""
    match step:
        case RunSession():
            return f"session {step.phase.id}"
        case Gate():
            return f"gate {step.reason} {step.phase}, then {step.onward}"
        case Wait():
            return f"wait {step.kind} {step.seconds:g}"
        case Note():
            return f"move {step.record.phase}" if isinstance(step.record, Moved) else "note"
        case Finish():
            return "finished before" if step.recorded else "finish"
        case Verify():
            return "verify"
        case Halt():
            return "halt"
        case _:
            return type(step).__name__.lower()


def told(step: Step) -> str:
    """What goes with the step: to the agent as guidance, to the human as the gate's message."""
    match step:
        case RunSession():
            return "\n".join(step.guidance)
        case Gate():
            return step.message
        case Wait():
            return step.reason
        case _:
            return ""


def open_things(life: Life) -> list[str]:
    """Which of the things that can be open are."""
    names = ("session", "ended", "gate", "answered", "wait")
    return [name for name in names if getattr(life, name) is not None]
