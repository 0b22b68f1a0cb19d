"""The course of a workflow: phases in their order, each with its output file, some with a review at the end."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

from marathon.core.breakers import CUT_SHORT, WARN_FROM_ROUND
from marathon.core.budgets import Limits
from marathon.core.completion import all_met, failures_for_agent, human_needed_for, same_failures, unmet_names
from marathon.core.courses.base import Course
from marathon.core.courses.where import Review, Where
from marathon.core.courses.workflow import (
    DONE,
    Definitions,
    Path,
    Phase,
    Position,
    Segment,
    WorkflowInvalid,
    advance,
    breadcrumb,
    current,
    locate,
    loop,
    places,
)
from marathon.core.decide import note_of, stuck_reason
from marathon.core.gates import POLICIES
from marathon.core.life import Life
from marathon.core.records import Answer, Begun, Checked, Gate, Moved, Record, RunStarted, SessionEnded
from marathon.core.steps import Finish, Note, RunSession, Step, Verify

REFUSED_ENDS = 3
INVALID_STATES = 2
STALE_OUTPUTS = 2
REFUSED = "Put them back as they were, or change them as the human says (see above and human.md), and nothing else."


class Place(NamedTuple):
    """What only this course knows about a task."""

    workflow: str = ""
    position: Position = Position(())
    rounds: tuple[tuple[str, int], ...] = ()  # how often each phase has come to its review in this run
    gates: tuple[str, ...] = ()  # the phases that had a review when the task began
    loops: tuple[tuple[str, int], ...] = ()  # how often the agent of each phase started the workflow again in this run
    passed: tuple[tuple[str, str], ...] = ()  # the phases whose review stands, and who let each of them pass

    def round_of(self, phase: str) -> int:
        return dict(self.rounds).get(phase, 0)

    def loops_of(self, phase: str) -> int:
        return dict(self.loops).get(phase, 0)


class Phases(Course):
    name: ClassVar[str] = "phases"

    def __init__(self, definitions: Definitions, workflow: str = "rpi") -> None:
        self.definitions = definitions
        self.workflow = workflow  # for a new task

    def pinned(self, life: Life) -> Phases:
        return Phases(life.pinned.definitions, self.workflow) if life.pinned else self

    def workflow_of(self, life: Life) -> str:
        return _place(life).workflow

    # What the journal says

    def begin(self) -> Begun:
        path, phase = places(self.definitions, self.workflow)[0]
        return self.begin_at(path, phase.id)

    def begin_at(self, path: Path, phase: str) -> Begun:
        gates = sorted({each.id for _, each in places(self.definitions, self.workflow) if each.gate})
        return Begun(workflow=self.workflow, path=list(path), phase=phase, gates=gates)

    def apply(self, before: Life, now: Life, record: Record) -> Place:
        place = _place(before)
        match record:
            case Begun():
                return Place(record.workflow, Position(_path(record.path)), gates=tuple(record.gates))
            case RunStarted():
                return place._replace(position=Position(_path(record.path)), rounds=(), passed=(), loops=())
            case Moved():
                moved = place._replace(position=Position(_path(record.path), record.steps))
                if record.looped:
                    loops = {**dict(place.loops), before.phase: place.loops_of(before.phase) + 1}
                    moved = moved._replace(loops=tuple(loops.items()))
                return moved._replace(passed=self._still_passed(place, record.phase))
            case Answer() if before.gate and record.choice == "continue" and before.gate.onward == "next":
                return place._replace(passed=tuple({**dict(place.passed), before.gate.phase: record.by}.items()))
            case Gate() if POLICIES[record.reason].review_round:
                rounds = {**dict(place.rounds), record.phase: place.round_of(record.phase) + 1}
                return place._replace(rounds=tuple(rounds.items()))
        return place

    def _still_passed(self, place: Place, phase: str) -> tuple[tuple[str, str], ...]:
        """Without the phase that is to be worked on, and without those that follow it."""
        order = self.phase_ids(place.workflow)
        again = order[order.index(phase) :] if phase in order else [phase]
        return tuple((name, by) for name, by in place.passed if name not in again)

    def restart(self, life: Life) -> RunStarted:
        path, phase = places(self.definitions, _place(life).workflow)[0]
        return RunStarted(run=life.run + 1, path=list(path), phase=phase.id)

    def outputs(self, life: Life) -> list[str]:
        return [phase.output for _, phase in places(self.definitions, _place(life).workflow) if phase.output]

    # Where it stands

    def where(self, life: Life) -> Where:
        place = _place(life)
        known = tuple(self.phase_ids(place.workflow))
        try:
            phase = self._current(life)
            following, over = advance(self.definitions, place.position)
            steps = places(self.definitions, place.workflow)
            return Where(
                phase=phase,
                next_phase=DONE if over else current(self.definitions, following).id,
                breadcrumb=breadcrumb(self.definitions, place.position),
                phases=known,
                steps=tuple(each.id for _, each in steps),
                at=[path for path, _ in steps].index(place.position.path),
                round=place.round_of(phase.id) + 1,
                can_loop=place.position.path[-1].place > 0 and self._may_loop(place.position),
                reviews=self._reviews(place),
            )
        except WorkflowInvalid as changed:
            return Where(None, phases=known, reviews=self._reviews(place), problem=str(changed))

    def _reviews(self, place: Place) -> tuple[Review, ...]:
        outputs: dict[str, str | None] = {}
        with contextlib.suppress(WorkflowInvalid):
            outputs = {phase.id: phase.output for _, phase in places(self.definitions, place.workflow)}
        return tuple(Review(phase, by, outputs.get(phase)) for phase, by in place.passed)

    def _current(self, life: Life) -> Phase:
        phase = current(self.definitions, _place(life).position)
        if phase.id != life.phase:
            raise WorkflowInvalid(f"the phase at this place was '{life.phase}' and is '{phase.id}' now")
        # A definition that is not pinned in the journal may have lost a review since the task began.
        return replace(phase, gate=phase.gate or (not life.pinned and phase.id in _place(life).gates))

    def _may_loop(self, position: Position) -> bool:
        try:
            return bool(loop(self.definitions, position))
        except WorkflowInvalid:
            return False

    def phase_ids(self, workflow: str) -> list[str]:
        """The phases a human may send the task to, in the workflow's order."""
        try:
            return list(dict.fromkeys(phase.id for _, phase in places(self.definitions, workflow)))
        except WorkflowInvalid:
            return []

    def phases_of(self, workflow: str) -> list[Phase]:
        try:
            return [phase for _, phase in places(self.definitions, workflow)]
        except WorkflowInvalid:
            return []

    def misfit(self, life: Life) -> Step | None:
        """The definition changed under the task: the human names the phase to continue with."""
        problem = self.where(life).problem
        if not problem:
            return None
        answer = life.answered.answer if life.answered else None
        if answer and answer.choice == "redo" and answer.phase and _place(life).workflow in self.definitions:
            target = locate(self.definitions, _place(life).workflow, answer.phase, _place(life).position.path)
            if target:
                return _move(Position(target, _place(life).position.steps + 1), answer.phase)
        if life.gate and life.gate.reason == "workflow":
            return life.gate
        message = f"The workflow changed under this task: {problem}. Choose the phase to continue with."
        return Gate(reason="workflow", phase=life.phase, message=message)

    # What follows from an answer

    def answered(self, life: Life) -> Step:
        assert life.answered
        (gate, answer), phase = life.answered, self._current(life)
        if gate.phase != phase.id:
            return RunSession(phase, life.guidance)
        if POLICIES[gate.reason].agreement == "criteria" and answer.choice == "redo":
            refused = f"The human does not agree to the success criteria as they are now. {REFUSED}"
            return RunSession(phase, (*life.guidance, refused, gate.message))
        if answer.choice == "accept":
            return self._accepted(life, phase, gate, answer)
        try:
            if answer.choice == "loop":
                position = loop(self.definitions, _place(life).position)
                return _move(position, current(self.definitions, position).id)
            if answer.choice == "redo":
                return self._redo(life, answer.phase or phase.id)
        except WorkflowInvalid as refused:  # the definition changed after the gate had offered it
            message = f"{gate.message} That cannot be done: {refused}.".strip()
            return replace(gate, n=0, at="", token="", message=message)
        if answer.choice == "continue" and gate.onward == "next":
            return self._onward(life, phase)
        told = (gate.message,) if POLICIES[gate.reason].tells_agent else ()
        return RunSession(phase, (*life.guidance, *told, *failures_for_agent(life.checked)))

    def _redo(self, life: Life, phase: str) -> Step:
        place = _place(life)
        target = locate(self.definitions, place.workflow, phase, place.position.path)
        if target is None:
            raise WorkflowInvalid(f"there is no phase '{phase}' in this workflow")
        return _move(Position(target, place.position.steps + 1), phase)

    def judged_again(self, life: Life, phase: str, claimed: list[str]) -> Moved:
        """Back to this phase. Those claimed, from it on, are judged as their documents are now."""
        place = _place(life)
        target = next(path for path, each in places(self.definitions, place.workflow) if each.id == phase)
        return replace(_moved(Position(target, place.position.steps + 1), phase), claimed=claimed)

    def _accepted(self, life: Life, phase: Phase, gate: Gate, answer: Answer) -> Step:
        """A human takes the work as it is. That counts for exactly the criteria that the gate showed."""
        if answer.by == "auto" or not (gate.digest and gate.about):
            return RunSession(phase, life.guidance)
        if life.criteria is not None and gate.digest == life.criteria.digest:
            return Finish(accepted=tuple(gate.about))
        return self._onward(life, phase)

    def _onward(self, life: Life, phase: Phase) -> Step:
        """The next phase; after the last one, the criteria decide."""
        following, over = advance(self.definitions, _place(life).position)
        if not over:
            return _move(following, current(self.definitions, following).id)
        criteria, checked = life.criteria, life.checked
        if criteria is None or not (criteria.criteria or criteria.problem):
            return Finish()
        if checked is None or checked.digest != criteria.digest:
            return Verify(criteria)
        # No one's word makes an unmet criterion met. A human may only accept the work without it.
        if all_met(criteria, checked):
            return Finish()
        return RunSession(phase, (*life.guidance, *failures_for_agent(checked)))

    # What follows from a session's end

    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        phase = self._current(life)
        claim = self._claim(life, ended, phase)
        came_to_its_end = ended.ending not in CUT_SHORT or phase.output is None or ended.output == "fresh"
        proposes_loop = ended.loop and phase.may_loop and not phase.gate and claim in ("complete", "pause")
        if proposes_loop and came_to_its_end and (ended.output == "fresh" or not phase.output):
            return self._looped(life, ended, phase)
        if claim == "complete" and came_to_its_end:
            return self._complete(life, ended, phase, limits)
        if ended.ending in CUT_SHORT:
            return None
        if ended.invalid:
            return _invalid(life, ended.invalid, phase)
        if claim == "skip":
            return _skipped(ended, phase)
        if claim == "back":
            return _back(ended, phase)
        if claim == "pause" and not ended.wait and ended.ending != "left":
            message = f"The agent paused inside {phase.id}: the plan may be wrong."
            return Gate(reason="paused", phase=phase.id, message=message, note=note_of(ended))
        return None

    def _claim(
        self, life: Life, ended: SessionEnded, phase: Phase
    ) -> Literal["working", "complete", "skip", "back", "pause", "none"]:
        """What STATE.json amounts to, seen from the phase the session was in."""
        proposal = ended.proposal
        if proposal is None:
            return "none"
        following, over = advance(self.definitions, _place(life).position)
        next_id = DONE if over else current(self.definitions, following).id
        if proposal.state == "completed":
            return "complete" if over and proposal.phase in (phase.id, DONE) else "skip"
        if proposal.phase == phase.id:
            if proposal.state == "running":
                return "complete" if (over and ended.signal) or _all_ticked(phase, ended) else "working"
            return "pause" if phase.repeats else "complete"
        if proposal.phase == next_id and not over:
            return "complete"
        return "back" if self._is_earlier(life, proposal.phase) else "skip"

    def _is_earlier(self, life: Life, phase: str) -> bool:
        """Whether the phase comes before the one at hand."""
        workflow, here = _place(life).workflow, _place(life).position.path
        try:
            paths = [path for path, _ in places(self.definitions, workflow)]
            named = locate(self.definitions, workflow, phase, here)
        except WorkflowInvalid:
            return False
        return named is not None and here in paths and paths.index(named) < paths.index(here)

    def _complete(self, life: Life, ended: SessionEnded, phase: Phase, limits: Limits) -> Step:
        if phase.output and ended.output != "fresh":
            return _without_output(life, ended, phase)
        onward = self._onward(life, phase)
        if isinstance(onward, Verify):
            return onward
        if isinstance(onward, RunSession):
            assert life.checked
            return _unmet(life, life.checked, onward, limits)
        if phase.gate:
            return _review(life, ended, phase, limits)
        return onward

    def _looped(self, life: Life, ended: SessionEnded, phase: Phase) -> Step:
        """The agent wants to start the workflow again. It may so often; then a human is asked."""
        place, note = _place(life), note_of(ended) or "no reason was given"
        if place.loops_of(phase.id) < phase.may_loop and self._may_loop(place.position):
            position = loop(self.definitions, place.position)
            why = f"{phase.id} found that this workflow has to be gone through again: {note}"
            return _move(position, current(self.definitions, position).id, why)
        message = (
            f"The agent wants to start this workflow again, after {place.loops_of(phase.id)} of {phase.may_loop} times."
        )
        return Gate(reason="paused", phase=phase.id, message=message, note=note_of(ended), onward="next")

    def hint(self, life: Life) -> tuple[str, ...]:
        """Ticked boxes end nothing, but an agent that has ticked them all may be asked whether it is done."""
        ticked, boxes = life.steps or (0, 0)
        if not boxes or ticked < boxes or not advance(self.definitions, _place(life).position)[1]:
            return ()
        all_ticked = f"Every step of the plan is ticked ({ticked}/{boxes})."
        return (f"{all_ticked} If everything is done and checked, say so in STATE.json.",)


def _place(life: Life) -> Place:
    return life.own if isinstance(life.own, Place) else Place()


def _path(raw: list[tuple[str, int]]) -> Path:
    return tuple(Segment(*segment) for segment in raw)


def _move(position: Position, phase: str, looped: str = "") -> Note:
    return Note(_moved(position, phase, looped))


def _moved(position: Position, phase: str, looped: str = "") -> Moved:
    path = [(segment.workflow, segment.place) for segment in position.path]
    return Moved(path=path, steps=position.steps, phase=phase, looped=looped)


def _all_ticked(phase: Phase, ended: SessionEnded) -> bool:
    """Whether the checklist is done. The boxes of a session that was cut short may be those of an earlier one."""
    ticked, boxes = ended.steps or (0, 0)
    return phase.checklist is not None and ended.ending == "ended" and 0 < boxes == ticked


def _invalid(life: Life, reason: str, phase: Phase) -> Step:
    if life.streaks.invalid >= INVALID_STATES:
        message = f"STATE.json could not be read, twice in a row: {reason}."
        return Gate(reason="invalid", phase=phase.id, message=message)
    return RunSession(phase, (f"The STATE.json you left could not be read: {reason}. It was set aside and restored.",))


def _skipped(ended: SessionEnded, phase: Phase) -> Gate:
    assert ended.proposal
    said = f"{ended.proposal.state}/{ended.proposal.phase}"
    message = f"The agent was in {phase.id} and left {said}. That was not accepted: no phase and no review is skipped."
    ready = (phase.output is None or ended.output == "fresh") and not phase.repeats
    onward: Literal["next", "again"] = "next" if ready else "again"
    return Gate(reason="skipped", phase=phase.id, message=message, note=note_of(ended), onward=onward)


def _back(ended: SessionEnded, phase: Phase) -> Gate:
    assert ended.proposal
    earlier = ended.proposal.phase
    message = f"The agent proposes to go back from {phase.id} to {earlier}."
    return Gate(reason="back", phase=phase.id, message=message, note=note_of(ended), back_to=earlier)


def _without_output(life: Life, ended: SessionEnded, phase: Phase) -> Step:
    lack = "is missing or empty (headings do not count)" if ended.output == "missing" else "was not touched"
    message = f"The {phase.id} phase was called complete, but {phase.output} {lack}."
    times, note = life.streaks.without_output, note_of(ended)
    if phase.repeats:
        if times >= REFUSED_ENDS:
            message += f" This happened {REFUSED_ENDS} times in a row."
            return Gate(reason="stuck", phase=phase.id, message=message, note=note)
    elif times >= STALE_OUTPUTS:
        onward: Literal["next", "again"] = "next" if ended.output == "stale" else "again"
        return Gate(reason="output", phase=phase.id, message=message, note=note, onward=onward)
    return RunSession(phase, (f"{message} Write it, then leave STATE.json as told.",))


def _unmet(life: Life, checked: Checked, again: RunSession, limits: Limits) -> Step:
    unmet = Gate(
        reason="stuck",
        phase=again.phase.id,
        note=note_of(life.ended),
        digest=checked.digest,
        about=unmet_names(life.criteria, checked),
    )
    if needed := human_needed_for(checked):
        return replace(unmet, reason="blocked", message=needed)
    if stuck := same_failures(checked, life.streaks, limits.breakers) or stuck_reason(life, limits):
        return replace(unmet, message=stuck)
    return again


def _review(life: Life, ended: SessionEnded, phase: Phase, limits: Limits) -> Gate:
    """A phase that comes back to its review again and again is said to, and in the end counts as stuck."""
    last, number, note = limits.breakers.review_rounds, _place(life).round_of(phase.id) + 1, note_of(ended)
    if last and number >= last:
        message = f"This is round {number} of {phase.id}. That many rounds did not settle it (see .marathon/runs)."
        return Gate(reason="rounds", phase=phase.id, message=message, note=note, onward="next")
    warning = f"This is round {number} of {phase.id}. From round {last} on it counts as stuck."
    message = warning if last and number >= WARN_FROM_ROUND else ""
    return Gate(reason="review", phase=phase.id, message=message, note=note, onward="next")
