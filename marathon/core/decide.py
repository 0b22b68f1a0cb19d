"""The runner's judgement, pure: from what the journal says and what is allowed to the one next act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marathon.core.journal import CUT_SHORT, Progress
from marathon.core.limits import Limits, limit_reached, retry_delay
from marathon.core.names import DONE
from marathon.core.records import GateKind, GateOpened, SessionEnded, WaitStarted
from marathon.core.text import duration
from marathon.core.workflow import (
    Definitions,
    Phase,
    Position,
    WorkflowInvalid,
    advance,
    current,
    locate,
    loop,
    places,
)

IDLE_SESSIONS = 3
REFUSED_ENDS = 3
INVALID_STATES = 2
STALE_OUTPUTS = 2
TOLD_AGAIN = ("output", "invalid", "skipped")  # gates whose message the agent needs to hear too
CUT_OFF = "The session before this one was cut off. What it wrote is kept: go on from there."


@dataclass(frozen=True)
class RunSession:
    """Start the agent, with what the runner found wrong last time."""

    phase: Phase
    guidance: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """A human decides; `opened` once it stands in the journal."""

    kind: GateKind
    phase: str
    message: str = ""
    note: str | None = None
    onward: Literal["next", "again"] = "again"
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
class Finish:
    """The task is complete; `recorded` if that was so before."""

    recorded: bool = False


@dataclass(frozen=True)
class Halt:
    """Nothing can be done until a human restarts the task."""


Step = RunSession | Gate | Wait | Move | Finish | Halt


def next_step(progress: Progress, definitions: Definitions, limits: Limits) -> Step:
    """What the runner does next. Reads top to bottom: over, open, answered, waiting, judged, begun."""
    if progress.finished:
        return Finish(recorded=True)
    if progress.cancelled:
        return Halt()
    try:
        phase = current(definitions, progress.position)
        if phase.id != progress.phase:
            raise WorkflowInvalid(f"the phase at this place was '{progress.phase}' and is '{phase.id}' now")
    except WorkflowInvalid as changed:
        return _changed_definition(progress, definitions, str(changed))
    if progress.gate and not _dissolved(progress, limits):
        gate = progress.gate
        return Gate(gate.kind, gate.phase, gate.message, gate.note, gate.onward, opened=gate)
    if progress.verdict:
        step = _after_verdict(progress, definitions, phase)
    elif progress.wait:
        wait = progress.wait
        return Wait(wait.kind, wait.seconds, wait.reason, started=wait)
    elif progress.ended:
        step = _judge(progress, progress.ended, definitions, phase, limits)
    else:
        step = RunSession(phase, _carried(progress))
    return _within_limits(step, progress, limits)


def auto_approved(gate: Gate) -> bool:
    """Whether --auto-approve passes it: a review, or a skipped phase that can simply be run in its order."""
    return gate.onward == "next" and gate.kind in ("review", "skipped")


def _dissolved(progress: Progress, limits: Limits) -> bool:
    """A limit gate is no gate any more once more is allowed."""
    assert progress.gate
    return progress.gate.kind == "limit" and not limit_reached(limits, progress.used_sessions, progress.used_seconds)


def _within_limits(step: Step, progress: Progress, limits: Limits) -> Step:
    if not isinstance(step, RunSession | Wait):
        return step
    reached = limit_reached(limits, progress.used_sessions, progress.used_seconds)
    return Gate("limit", progress.phase, reached) if reached else step


def _carried(progress: Progress) -> tuple[str, ...]:
    """Guidance still owed, and what was waited for."""
    waited = progress.waited
    if waited and waited.kind == "agent":
        return (
            *progress.guidance,
            f"You asked to wait {duration(waited.seconds)} for: {waited.reason}. That time is over.",
        )
    return progress.guidance


def _after_verdict(progress: Progress, definitions: Definitions, phase: Phase) -> Step:
    assert progress.verdict
    gate, answer = progress.verdict.gate, progress.verdict.answer
    if gate.phase != phase.id:
        return RunSession(phase, progress.guidance)
    try:
        if answer.choice == "loop":
            position = loop(definitions, progress.position)
            return Move(position, current(definitions, position).id)
        if answer.choice == "redo":
            return _redo(progress, definitions, answer.phase or phase.id)
    except WorkflowInvalid as refused:
        message = f"{gate.message} That cannot be done: {refused}.".strip()
        return Gate(gate.kind, gate.phase, message, gate.note, gate.onward)
    if answer.choice == "continue" and gate.onward == "next":
        return _onward(definitions, progress.position)
    return RunSession(phase, (*progress.guidance, gate.message) if gate.kind in TOLD_AGAIN else progress.guidance)


def _redo(progress: Progress, definitions: Definitions, phase: str) -> Step:
    target = locate(definitions, progress.workflow, phase, progress.position.path)
    if target is None:
        raise WorkflowInvalid(f"there is no phase '{phase}' in this workflow")
    return Move(Position(target, progress.position.steps + 1), phase)


def _onward(definitions: Definitions, position: Position) -> Step:
    following, over = advance(definitions, position)
    return Finish() if over else Move(following, current(definitions, following).id)


def _changed_definition(progress: Progress, definitions: Definitions, reason: str) -> Step:
    """The definition no longer fits the journal: the human names the phase to go on with."""
    verdict = progress.verdict
    if verdict and verdict.answer.choice == "redo" and verdict.answer.phase and progress.workflow in definitions:
        target = locate(definitions, progress.workflow, verdict.answer.phase, progress.position.path)
        if target:
            return Move(Position(target, progress.position.steps + 1), verdict.answer.phase)
    message = f"The workflow changed under this task: {reason}. Choose the phase to go on with."
    opened = progress.gate if progress.gate and progress.gate.kind == "workflow" else None
    return Gate("workflow", progress.phase, message, opened=opened)


def _judge(progress: Progress, ended: SessionEnded, definitions: Definitions, phase: Phase, limits: Limits) -> Step:
    """The table of the contract: what the agent left, and what the runner makes of it."""
    if ended.question is not None:
        return Gate("question", phase.id, ended.question, _note(ended))
    claim = _claim(ended, definitions, progress, phase)
    came_to_its_end = ended.ending not in CUT_SHORT or phase.output is None or ended.output == "fresh"
    if claim == "complete" and came_to_its_end:
        return _complete(progress, ended, definitions, phase)
    if ended.ending in ("crashed", "timeout"):
        return _failed(progress, ended, phase, limits)
    if ended.ending in CUT_SHORT:
        told = tuple(line for line in progress.guidance if line != CUT_OFF)
        return RunSession(phase, (*told, CUT_OFF))
    if ended.invalid:
        if progress.streaks.invalid >= INVALID_STATES:
            return Gate("invalid", phase.id, f"STATE.json could not be read, twice in a row: {ended.invalid}.")
        return RunSession(
            phase,
            (f"The STATE.json you left could not be read: {ended.invalid}. It was set aside and restored.",),
        )
    if claim == "skip":
        return _skipped(ended, phase)
    if ended.wait:
        return Wait("agent", ended.wait.seconds, ended.wait.reason)
    if ended.ending == "left":
        return Gate("left", phase.id, f"The agent was closed before the {phase.id} phase was over.", _note(ended))
    if claim == "pause":
        return Gate("paused", phase.id, f"The agent paused inside {phase.id}: the plan may be wrong.", _note(ended))
    if progress.streaks.idle >= IDLE_SESSIONS:
        return Gate("stuck", phase.id, f"Nothing changed in the last {progress.streaks.idle} sessions.", _note(ended))
    return RunSession(phase)


def _claim(
    ended: SessionEnded, definitions: Definitions, progress: Progress, phase: Phase
) -> Literal["working", "complete", "skip", "pause", "none"]:
    """What STATE.json amounts to, seen from the phase the session was in."""
    proposal = ended.proposal
    if proposal is None:
        return "none"
    following, over = advance(definitions, progress.position)
    next_id = DONE if over else current(definitions, following).id
    if proposal.state == "completed":
        return "complete" if over and proposal.phase in (phase.id, DONE) else "skip"
    if proposal.phase == phase.id:
        if proposal.state == "running":
            return "working"
        return "pause" if phase.repeats else "complete"
    return "complete" if proposal.phase == next_id and not over else "skip"


def _complete(progress: Progress, ended: SessionEnded, definitions: Definitions, phase: Phase) -> Step:
    if phase.output and ended.output != "fresh":
        return _without_output(progress, ended, phase)
    if phase.gate:
        return Gate("review", phase.id, note=_note(ended), onward="next")
    return _onward(definitions, progress.position)


def _without_output(progress: Progress, ended: SessionEnded, phase: Phase) -> Step:
    lack = "is not there or is empty" if ended.output == "missing" else "was not touched"
    message = f"The {phase.id} phase was called complete, but {phase.output} {lack}."
    if phase.repeats:
        if progress.streaks.without_output >= REFUSED_ENDS:
            return Gate("stuck", phase.id, f"{message} This happened {REFUSED_ENDS} times in a row.", _note(ended))
    elif progress.streaks.without_output >= STALE_OUTPUTS:
        return Gate("output", phase.id, message, _note(ended), onward="next" if ended.output == "stale" else "again")
    return RunSession(phase, (f"{message} Write it, then leave STATE.json as told.",))


def _failed(progress: Progress, ended: SessionEnded, phase: Phase, limits: Limits) -> Step:
    cause = ended.cause or ended.ending
    if ended.permanent:
        return Gate("failed", phase.id, f"The agent cannot go on: {cause}", _note(ended))
    if progress.streaks.failed > limits.retries:
        return Gate(
            "failed",
            phase.id,
            f"The agent failed {progress.streaks.failed} times in a row; last: {cause}",
            _note(ended),
        )
    return Wait("retry", max(ended.retry_after or 0.0, retry_delay(limits, progress.streaks.failed)), cause)


def _skipped(ended: SessionEnded, phase: Phase) -> Step:
    assert ended.proposal
    said = f"{ended.proposal.state}/{ended.proposal.phase}"
    message = f"The agent was in {phase.id} and left {said}. That was not accepted: no phase and no review is skipped."
    ready = phase.output is None or ended.output == "fresh"
    return Gate("skipped", phase.id, message, _note(ended), onward="next" if ready and not phase.repeats else "again")


def _note(ended: SessionEnded) -> str | None:
    return ended.proposal.note if ended.proposal else None


def phase_ids(definitions: Definitions, workflow: str) -> list[str]:
    """The phases a human may send the task to, in the workflow's order."""
    try:
        return list(dict.fromkeys(phase.id for _, phase in places(definitions, workflow)))
    except WorkflowInvalid:
        return []
