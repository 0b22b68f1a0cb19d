"""The runner's decision, pure: from what the journal says and what is allowed to the one next step.

These are the rows that every task shares. What is special to phases, or to another course, stands in its course.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from marathon.core.breakers import CUT_SHORT, FAILED, circles, is_waited_out
from marathon.core.budgets import (
    Limits,
    limit_reached,
    nearly_reached,
    outage_delay,
    reflects,
    retry_delay,
    with_amounts,
)
from marathon.core.courses.base import Course
from marathon.core.criteria import in_full, in_lines
from marathon.core.gates import POLICIES
from marathon.core.life import Life
from marathon.core.records import AgentTakesOver, CriteriaFound, Gate, Reason, SessionEnded, Writes
from marathon.core.steps import Finish, Halt, Note, Prepare, RunSession, Step, Verify, Wait
from marathon.core.text import counted, duration

LONG_RESET = 600.0  # seconds; another agent does not wait that long
_LAST_LINES = 8  # of a setup that failed; its log has them all
FIRST_TRIES = 3  # before a run is under way: a wrong network shows at once
EVERY_SESSION = "You are asked after every session (--oversight tool: only at reviews)."
CUT_OFF = "The session before this one was cut off. What it wrote is kept. Continue from there."


def next_step(life: Life, course: Course, limits: Limits, closed_for: float = 0.0) -> Step:
    """Reads top to bottom: over, open, answered, waiting, judged, begun. The human's hours begin in `closed_for`."""
    held = tuple(life.gate.held.items()) if life.gate else ()  # what the project set, it cannot give back
    limits, course = with_amounts(limits, held, life.limits, life.added), course.pinned(life)
    if life.finished:
        return Finish(recorded=True)
    if life.cancelled:
        return Halt()
    if misfit := course.misfit(life):
        return misfit
    if life.gate and not _has_closed(life.gate, life, course, limits):
        return life.gate
    if life.answered:
        step = course.answered(life)
    elif life.wait and life.wait.kind != "hours":
        wait = life.wait
        return Wait(wait.kind, wait.seconds, wait.reason, started=wait)
    elif life.ended:
        step = _judge(life, life.ended, course, limits)
    else:
        step = course.session(life, _carried(life))
    step = _required_before(step, life, limits) or _prepared(step, life, limits)
    return _in_hours(step, life, limits, closed_for)


def _has_closed(gate: Gate, life: Life, course: Course, limits: Limits) -> bool:
    """Whether a gate that waits for something needs no answer any more: an option or a file has given it.

    A gate stands as long as its own cause does, whatever else is wrong. Else two would close each other in turn.
    """
    if not POLICIES[gate.reason].standing:
        return False
    causes = (_lacking(life), _not_agreed(life), _used_up(life, limits), course.lacking(life), _not_set_up(life))
    left = [(cause.reason, cause.message, cause.digest) for cause in causes if isinstance(cause, Gate)]
    return (gate.reason, gate.message, gate.digest) not in left


def _required_before(step: Step, life: Life, limits: Limits) -> Gate | Prepare | None:
    """What comes before this step, if anything does: mostly a gate."""
    starts, waits = isinstance(step, RunSession), isinstance(step, Wait)
    fixing = life.refused and starts
    ends = isinstance(step, Verify | Finish)
    if (starts or waits or (ends and life.ended)) and (gate := _lacking(life)):
        return gate
    if (starts or ends) and not fixing and (gate := _not_agreed(life)):
        return gate
    if (starts or waits) and (gate := _used_up(life, limits)):
        return gate
    if starts and not fixing and (first := _not_set_up(life)):
        return first
    if (starts or (isinstance(step, Wait) and step.kind == "agent")) and _is_to_be_looked_at(life):
        return Gate(reason="session", phase=life.phase, message=EVERY_SESSION, note=note_of(life.ended))
    return None


def _prepared(step: Step, life: Life, limits: Limits) -> Step:
    if not isinstance(step, RunSession):
        return step
    warnings = nearly_reached(limits, life.used, life.warned)
    return replace(step, reflect=reflects(limits, life.iteration + 1), warnings=tuple(warnings.items()))


def _in_hours(step: Step, life: Life, limits: Limits, closed_for: float) -> Step:
    """Sessions start only in the human's hours. Gates, checks and measurements come at any time."""
    if not (closed_for and isinstance(step, RunSession)):
        return step
    reason = f"your hours are {limits.hours}"
    known = life.wait and life.wait.kind == "hours" and life.wait.reason == reason
    return Wait("hours", closed_for, reason, started=life.wait if known else None)


def _lacking(life: Life) -> Gate | None:
    """A file that the work rests on is gone or blank, and no human said to continue without it."""
    names = [name for name in life.missing if name not in life.without]
    if not names:
        return None
    files, are, them = (names[0], "is", "it") if len(names) == 1 else (" and ".join(names), "are", "them")
    cure = f"Put {them} back and the marathon continues, or choose."
    message = f"{files} {are} missing or blank, and the work rests on {them}. {cure}"
    return Gate(reason="missing", phase=life.phase, message=message, about=names)


def _not_agreed(life: Life) -> Gate | None:
    """What a human has to agree to before an agent works, or before a command from a file runs."""
    criteria, definition = life.criteria, life.definition
    if definition and not definition.agreed and definition.digest != life.kept:
        reason: Reason = "redefined" if life.pinned else "definition"
        return Gate(reason=reason, phase=life.phase, message=definition.shown, digest=definition.digest)
    if criteria and criteria.problem:
        problem = f"The success criteria cannot be read: {criteria.problem}"
        return Gate(reason="checks", phase=life.phase, message=problem)
    if criteria and not criteria.agreed:
        return Gate(reason="checks", phase=life.phase, message=_to_agree(criteria), digest=criteria.digest)
    return None


def _to_agree(criteria: CriteriaFound) -> str:
    commands = [f"- {in_full(each)}" for each in criteria.criteria if each.command]
    lines = ["This command will prepare a new worktree:", f"- {in_lines(criteria.setup)}"] if criteria.setup else []
    lines += ["These commands will check the work:", *commands] if commands else []
    if criteria.lost:
        lines += ["These criteria were removed or changed:", *(f"- {name}" for name in criteria.lost)]
    return "\n".join(lines)


def _not_set_up(life: Life) -> Gate | Prepare | None:
    """A new worktree is prepared once, before an agent works there. A command that was typed wins over the file's."""
    typed = life.started_with.setup if life.started_with else None
    filed = life.criteria.setup if life.criteria and life.criteria.agreed else ""
    command, done = filed if typed is None else typed, life.set_up
    if not (life.worktree and command) or (done and done.met):
        return None
    if done is None or done.command != command:
        return Prepare(command)
    said = f"The worktree could not be set up: {done.reason}."
    end = ["Its last lines:", *done.tail.splitlines()[-_LAST_LINES:]] if done.tail else ["It said nothing."]
    message = "\n".join([said, f"- {in_lines(command)}", *end])
    return Gate(reason="setup", phase=life.phase, message=message)


def _used_up(life: Life, limits: Limits) -> Gate | None:
    reached = limit_reached(limits, life.used)
    if reached is None:
        return None
    typed = dict((*life.limits, *life.added))
    by_project = reached.field in limits.by_project and reached.field not in typed
    held = {reached.field: float(getattr(limits, reached.field))} if by_project else {}
    return Gate(reason="limit", phase=life.phase, message=reached.text, more=reached.more, held=held)


def _is_to_be_looked_at(life: Life) -> bool:
    ended = life.ended
    return life.oversight == "colleague" and not life.looked and ended is not None and ended.ending not in CUT_SHORT


def _carried(life: Life) -> tuple[str, ...]:
    """Guidance that is still owed, and what the agent waited for."""
    waited = life.waited
    if waited and waited.kind == "agent":
        over = f"You asked to wait {duration(waited.seconds)} for: {waited.reason}. "
        early = "The human ended the wait early, so that time is not over. Look whether it is ready."
        return (*life.guidance, over + (early if life.cut_short else "That time is over."))
    return life.guidance


def _judge(life: Life, ended: SessionEnded, course: Course, limits: Limits) -> Step:
    """The table of the contract: what the agent left, and what the runner makes of it."""
    if ended.writes and not life.looked and (gate := _wrote_elsewhere(life, ended, ended.writes, course)):
        return gate
    if ended.question is not None:
        return Gate(reason="question", phase=life.phase, message=ended.question, note=note_of(ended))
    if step := course.judge(life, ended, limits):
        return step
    if ended.ending in FAILED:
        return _failed(life, ended, limits)
    if ended.wait:
        return Wait("agent", ended.wait.seconds, ended.wait.reason)
    if ended.ending in CUT_SHORT:
        told = tuple(line for line in life.guidance if line != CUT_OFF)
        return course.session(life, (*told, CUT_OFF))
    if ended.ending == "left":
        message = f"The agent was closed before the {life.phase} phase was over."
        return Gate(reason="left", phase=life.phase, message=message, note=note_of(ended))
    if stuck := stuck_reason(life, limits):
        return Gate(reason="stuck", phase=life.phase, message=stuck, note=note_of(ended))
    return course.session(life, course.hint(life))


def _wrote_elsewhere(life: Life, ended: SessionEnded, writes: Writes, course: Course) -> Gate | None:
    if writes.left:
        message = "A session wrote where its phase may not write, and that was not undone."
        return Gate(reason="writes", phase=life.phase, message=message, note=note_of(ended))
    phase = course.where(life).phase
    if writes.by_agent and phase and not phase.gate:  # at a review the human sees it there
        message = "Tool calls of the agent wrote where this phase may not write, and no review follows."
        return Gate(reason="writes", phase=life.phase, message=message, note=note_of(ended))
    return None


def _failed(life: Life, ended: SessionEnded, limits: Limits) -> Step:
    cause, times = ended.cause or ended.ending, life.streaks.failed + life.streaks.outages
    failed = "the provider refused" if ended.ending == "refused" else "the agent failed"
    others = [name for name in limits.agents if name not in (*life.unable, life.agent)]
    away = life.streaks.away >= LONG_RESET or (ended.retry_after or 0) > LONG_RESET
    if others and life.agent in limits.agents and (ended.permanent or away):
        return Note(AgentTakesOver(agent=others[0], after=life.agent, cause=cause))
    if ended.permanent:
        message = f"The agent cannot continue: {cause}"
        return Gate(reason="failed", phase=life.phase, message=message, note=note_of(ended))
    if is_waited_out(ended) and limits.outage:
        return _away(life, ended, limits, bool(others))
    if times > limits.retries:
        often = f" {times} times in a row; last" if times > 1 else ""
        message = f"{failed.capitalize()}{often}: {cause}"
        return Gate(reason="failed", phase=life.phase, message=message, note=note_of(ended))
    # Failures in a row are for the retries. The same failure again and again between good sessions is not.
    came, allowed = life.streaks.error_at, limits.breakers.same_error
    if allowed and len(came) >= allowed and len(came) > times:
        message = f"{failed.capitalize()} in the same way {len(came)} times (sessions {_joined(came)}): {cause}"
        return Gate(reason="stuck", phase=life.phase, message=message, note=note_of(ended))
    return Wait("retry", max(ended.retry_after or 0.0, retry_delay(limits, times)), f"{failed} ({cause})")


def _away(life: Life, ended: SessionEnded, limits: Limits, others: bool) -> Step:
    """The network or the provider is away, or a limit resets later. Waiting it out is no failure of the work."""
    cause, tries, away = ended.cause or ended.ending, life.streaks.outages, life.streaks.away
    left, message = limits.outage - away, ""
    if left <= 0:
        did = "could not be reached" if ended.outage else "refused"
        message = f"The provider {did} for {duration(away)} (--outage): {cause}"
    elif ended.outage and not life.under_way and tries >= FIRST_TRIES:
        first = "No session of this run has worked yet, so it may be the network or a setting here"
        message = f"The provider could not be reached {tries} times in a row. {first}: {cause}"
    if message:
        return Gate(reason="failed", phase=life.phase, message=message, note=note_of(ended))
    seconds = max(ended.retry_after or 0.0, outage_delay(limits, tries))
    if not ended.outage:
        return Wait("retry", seconds, f"the provider refused ({cause})")
    most = min(left, LONG_RESET - away) if others else left
    return Wait("outage", min(seconds, most), f"the provider cannot be reached ({cause})")


def stuck_reason(life: Life, limits: Limits) -> str | None:
    """The breaker that trips now, with its evidence."""
    breakers, idle = limits.breakers, life.streaks.idle
    if breakers.no_progress and idle >= breakers.no_progress:
        sessions = _joined(range(max(1, life.iteration - idle + 1), life.iteration + 1))
        said = f" The agent's last words: {life.ended.cause}" if life.ended and life.ended.cause else ""
        return f"Nothing changed in the last {counted(idle, 'session')} ({sessions}).{said}"
    return circles(life.contents, breakers.back_and_forth)


def note_of(ended: SessionEnded | None) -> str | None:
    return ended.proposal.note if ended and ended.proposal else None


def _joined(sessions: Iterable[int]) -> str:
    return ", ".join(map(str, sessions))
