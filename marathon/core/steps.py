"""What the runner may do next: one value for each act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marathon.core.courses.workflow import Phase, Position
from marathon.core.records import CriteriaFound, GateKind, GateOpened, WaitStarted


@dataclass(frozen=True)
class RunSession:
    """Start the agent, with what the runner found wrong last time."""

    phase: Phase
    guidance: tuple[str, ...] = ()
    reflect: bool = False
    warnings: tuple[tuple[str, str], ...] = ()  # budgets nearly used up, each with its sentence


@dataclass(frozen=True)
class Gate:
    """A human decides; `opened` once it stands in the journal."""

    kind: GateKind
    phase: str
    message: str = ""
    note: str | None = None
    onward: Literal["next", "again"] = "again"
    more: str = ""  # at a limit: the option that allows more
    digest: str = ""  # of the criteria that are to be agreed to
    opened: GateOpened | None = None


@dataclass(frozen=True)
class Wait:
    """Let time pass before the next session; `started` once the deadline stands in the journal."""

    kind: Literal["agent", "retry"]
    seconds: float
    reason: str
    started: WaitStarted | None = None


@dataclass(frozen=True)
class Move:
    """Go to another phase, or into a new round of this one."""

    position: Position
    phase: str


@dataclass(frozen=True)
class Verify:
    """Completion was proposed: find out what is true of every criterion."""

    criteria: CriteriaFound


@dataclass(frozen=True)
class Finish:
    """The task is complete; `recorded` if that was so before."""

    recorded: bool = False


@dataclass(frozen=True)
class Halt:
    """Nothing can be done until a human restarts the task."""


Step = RunSession | Gate | Wait | Move | Verify | Finish | Halt


def open_gate(gate: GateOpened) -> Gate:
    """The gate that stands in the journal, as a step."""
    return Gate(gate.kind, gate.phase, gate.message, gate.note, gate.onward, gate.more, gate.digest, opened=gate)


def auto_approved(gate: Gate) -> bool:
    """Whether --auto-approve passes it: a look, or a skipped phase that can simply be run in its order."""
    return gate.kind == "session" or (gate.onward == "next" and gate.kind in ("review", "skipped"))
