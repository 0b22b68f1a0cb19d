"""The runner's judgement, pure: from what the journal says and what is allowed to the one next act."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from marathon.core.budgets import Limits, limit_reached, nearly_reached, reflects, retry_delay, with_amounts
from marathon.core.completion import all_met, failures_for_agent, listed, note_of, nudge, review, stuck_reason, unmet
from marathon.core.courses.workflow import (
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
from marathon.core.criteria import in_full
from marathon.core.life import Progress
from marathon.core.names import DONE
from marathon.core.records import CriteriaFound, GateOpened, SessionEnded
from marathon.core.steps import Finish, Gate, Halt, Move, RunSession, Step, Verify, Wait, open_gate
from marathon.core.streaks import CUT_SHORT
from marathon.core.text import duration

REFUSED_ENDS = 3
INVALID_STATES = 2
STALE_OUTPUTS = 2
TOLD_AGAIN = ("output", "invalid", "skipped")  # gates whose message the agent needs to hear too
SESSION_LOOK = "The instructions leave room, so you are asked after every session (--shape tool: only at reviews)."
REFUSED = "Put them back as they were, or change them as the human says (see above and human.md), and nothing else."
CUT_OFF = "The session before this one was cut off. What it wrote is kept: go on from there."


def next_step(progress: Progress, definitions: Definitions, limits: Limits) -> Step:
    """What the runner does next. Reads top to bottom: over, open, answered, waiting, judged, begun."""
    limits = with_amounts(limits, progress.limits, progress.added)
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
        return open_gate(progress.gate)
    if progress.verdict:
        step = _after_verdict(progress, definitions, phase)
    elif progress.wait:
        wait = progress.wait
        return Wait(wait.kind, wait.seconds, wait.reason, started=wait)
    elif progress.ended:
        step = _judge(progress, progress.ended, definitions, phase, limits)
    else:
        step = RunSession(phase, _carried(progress))
    return _allowed(step, progress, limits)


def _dissolved(progress: Progress, limits: Limits) -> bool:
    """Gates that are none any more once what they waited for was said elsewhere: by an option, or in a file."""
    assert progress.gate
    match progress.gate.kind:
        case "limit":
            return not limit_reached(limits, progress.used)
        case "checks":
            return progress.criteria is not None and _says_otherwise(progress, progress.gate)
        case "clarify":
            return progress.scored is not None and _says_otherwise(progress, progress.gate)
    return False


def _says_otherwise(progress: Progress, opened: GateOpened) -> bool:
    """Whether the gate would not be opened now, or with other words."""
    now = _not_ready(progress)
    return now is None or (now.kind, now.message, now.digest) != (opened.kind, opened.message, opened.digest)


def _allowed(step: Step, progress: Progress, limits: Limits) -> Step:
    """The step, or the gate that comes before it."""
    mending = progress.refused and isinstance(step, RunSession)
    if isinstance(step, RunSession | Verify) and not mending and (gate := _not_ready(progress)):
        return gate
    if not isinstance(step, RunSession | Wait):
        return step
    if reached := limit_reached(limits, progress.used):
        return Gate("limit", progress.phase, reached.text, more=reached.more)
    if _is_looked_after(step, progress):
        return Gate("session", progress.phase, SESSION_LOOK, note_of(progress.ended))
    if isinstance(step, RunSession):
        warnings = nearly_reached(limits, progress.used, progress.warned)
        return replace(step, reflect=reflects(limits, progress.iteration + 1), warnings=tuple(warnings.items()))
    return step


def _not_ready(progress: Progress) -> Gate | None:
    """What a human has to say before an agent works, or a command out of a file runs."""
    scored, criteria = progress.scored, progress.criteria
    if scored and scored.shape == "clarify":
        lacking = "\n".join(f"- {line}" for line in scored.missing)
        text = f"instructions.md says too little ({scored.points} of 10 points). What is missing:\n{lacking}"
        return Gate("clarify", progress.phase, text)
    if criteria and criteria.problem:
        return Gate("checks", progress.phase, f"The success criteria cannot be read: {criteria.problem}")
    if criteria and not criteria.agreed:
        return Gate("checks", progress.phase, _to_agree(criteria), digest=criteria.digest)
    return None


def _to_agree(criteria: CriteriaFound) -> str:
    commands = [f"- {in_full(each)}" for each in criteria.criteria if each.command]
    lines = ["To see whether the task is done, these commands of its files will be run:", *commands] if commands else []
    if criteria.lost:
        lines += ["These criteria are not there any more, or were changed:", *(f"- {name}" for name in criteria.lost)]
    return "\n".join(lines)


def _is_looked_after(step: Step, progress: Progress) -> bool:
    """Whether a human is to look at the session that ended before this goes on."""
    colleague = progress.scored is not None and progress.scored.shape == "colleague"
    goes_on = isinstance(step, RunSession) or (isinstance(step, Wait) and step.kind == "agent")
    ended = progress.ended
    return colleague and goes_on and ended is not None and ended.ending not in CUT_SHORT and not progress.looked


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
    if gate.kind == "checks" and answer.choice == "redo":
        refused = f"The human does not agree to the success criteria as they are now. {REFUSED}"
        return RunSession(phase, (*progress.guidance, refused, gate.message))
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
        return _onward(progress, definitions, phase)
    told = (*progress.guidance, gate.message) if gate.kind in TOLD_AGAIN else progress.guidance
    return RunSession(phase, (*told, *failures_for_agent(progress.checked)))


def _redo(progress: Progress, definitions: Definitions, phase: str) -> Step:
    target = locate(definitions, progress.workflow, phase, progress.position.path)
    if target is None:
        raise WorkflowInvalid(f"there is no phase '{phase}' in this workflow")
    return Move(Position(target, progress.position.steps + 1), phase)


def _onward(progress: Progress, definitions: Definitions, phase: Phase) -> Step:
    following, over = advance(definitions, progress.position)
    if not over:
        return Move(following, current(definitions, following).id)
    criteria, checked = progress.criteria, progress.checked
    if criteria is None or not (criteria.criteria or criteria.problem):
        return Finish()
    if checked is None or checked.digest != criteria.digest:
        return Verify(criteria)
    # Nobody's word makes an unmet criterion met: not the agent's, and at a gate not the human's.
    return (
        Finish()
        if all_met(criteria, checked)
        else RunSession(phase, (*progress.guidance, *failures_for_agent(checked)))
    )


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
        return Gate("question", phase.id, ended.question, note_of(ended))
    claim = _claim(ended, definitions, progress, phase)
    came_to_its_end = ended.ending not in CUT_SHORT or phase.output is None or ended.output == "fresh"
    if claim == "complete" and came_to_its_end:
        return _complete(progress, ended, definitions, phase, limits)
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
        return Gate("left", phase.id, f"The agent was closed before the {phase.id} phase was over.", note_of(ended))
    if claim == "pause":
        return Gate("paused", phase.id, f"The agent paused inside {phase.id}: the plan may be wrong.", note_of(ended))
    if stuck := stuck_reason(progress, limits):
        return Gate("stuck", phase.id, stuck, note_of(ended))
    return RunSession(phase, nudge(progress, definitions))


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
            return "complete" if over and ended.signal else "working"
        return "pause" if phase.repeats else "complete"
    return "complete" if proposal.phase == next_id and not over else "skip"


def _complete(progress: Progress, ended: SessionEnded, definitions: Definitions, phase: Phase, limits: Limits) -> Step:
    if phase.output and ended.output != "fresh":
        return _without_output(progress, ended, phase)
    onward = _onward(progress, definitions, phase)
    if isinstance(onward, Verify):
        return onward
    if isinstance(onward, RunSession):
        assert progress.checked
        return unmet(progress, progress.checked, onward, limits)
    if phase.gate or phase.id in progress.gates:
        return review(progress, ended, phase, limits)
    return onward


def _without_output(progress: Progress, ended: SessionEnded, phase: Phase) -> Step:
    lack = "is not there or is empty" if ended.output == "missing" else "was not touched"
    message = f"The {phase.id} phase was called complete, but {phase.output} {lack}."
    if phase.repeats:
        if progress.streaks.without_output >= REFUSED_ENDS:
            return Gate("stuck", phase.id, f"{message} This happened {REFUSED_ENDS} times in a row.", note_of(ended))
    elif progress.streaks.without_output >= STALE_OUTPUTS:
        return Gate("output", phase.id, message, note_of(ended), onward="next" if ended.output == "stale" else "again")
    return RunSession(phase, (f"{message} Write it, then leave STATE.json as told.",))


def _failed(progress: Progress, ended: SessionEnded, phase: Phase, limits: Limits) -> Step:
    cause = ended.cause or ended.ending
    if ended.permanent:
        return Gate("failed", phase.id, f"The agent cannot go on: {cause}", note_of(ended))
    if progress.streaks.failed > limits.retries:
        often = f" {progress.streaks.failed} times in a row; last" if progress.streaks.failed > 1 else ""
        return Gate("failed", phase.id, f"The agent failed{often}: {cause}", note_of(ended))
    # Failures in a row are the retries' business; the same one again and again between good sessions is not.
    came, allowed = progress.streaks.error_at, limits.breakers.same_error
    if allowed and len(came) >= allowed and len(came) > progress.streaks.failed:
        said = f"The agent failed in the same way {len(came)} times (sessions {listed(came)}): {cause}"
        return Gate("stuck", phase.id, said, note_of(ended))
    return Wait("retry", max(ended.retry_after or 0.0, retry_delay(limits, progress.streaks.failed)), cause)


def _skipped(ended: SessionEnded, phase: Phase) -> Step:
    assert ended.proposal
    said = f"{ended.proposal.state}/{ended.proposal.phase}"
    message = f"The agent was in {phase.id} and left {said}. That was not accepted: no phase and no review is skipped."
    ready = phase.output is None or ended.output == "fresh"
    return Gate("skipped", phase.id, message, note_of(ended), onward="next" if ready and not phase.repeats else "again")


def phase_ids(definitions: Definitions, workflow: str) -> list[str]:
    """The phases a human may send the task to, in the workflow's order."""
    try:
        return list(dict.fromkeys(phase.id for _, phase in places(definitions, workflow)))
    except WorkflowInvalid:
        return []
