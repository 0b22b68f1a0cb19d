"""Whether it is over: criteria that are met or not, and signs that a marathon goes nowhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from marathon.core.breakers import WARN_FROM_ROUND, going_in_circles
from marathon.core.budgets import Limits
from marathon.core.courses.workflow import Definitions, Phase, advance
from marathon.core.life import Progress
from marathon.core.records import Checked, CheckResult, CriteriaFound, SessionEnded
from marathon.core.steps import Gate, RunSession, Step
from marathon.core.text import clean, one_line

_LONGEST_EVIDENCE = 2000


def all_met(criteria: CriteriaFound, checked: Checked) -> bool:
    """Every criterion has a verdict, and it is yes; one without a verdict is not met."""
    met = {result.name for result in checked.results if result.met is True}
    return not criteria.problem and all(each.name in met for each in criteria.criteria)


def failures_for_agent(checked: Checked | None) -> tuple[str, ...]:
    """What the agent is told of every criterion that is not met."""
    return tuple(_told(result) for result in checked.results if not result.met) if checked else ()


def _told(result: CheckResult) -> str:
    how = f" (`{result.command}`)" if result.command else ""
    tail = f"\nThe end of its output:\n\n{result.tail}" if result.tail.strip() else ""
    return f"Not met: {result.name}{how}: {result.reason}.{tail}"


def unmet(progress: Progress, checked: Checked, again: RunSession, limits: Limits) -> Step:
    phase, note = again.phase.id, note_of(progress.ended)
    failing = [result for result in checked.results if not result.met]
    if help_wanted := _not_the_agents(failing):
        return Gate("failed", phase, help_wanted, note)
    breakers, streaks = limits.breakers, progress.streaks
    names = ", ".join(one_line(result.name, 80) for result in failing[:5])
    failed = next((result for result in failing if result.command), None)  # else the last error is an older one's
    if failed and breakers.same_error and len(streaks.error_at) >= breakers.same_error:
        said = f"The same error came {len(streaks.error_at)} times (sessions {listed(streaks.error_at)})"
        error = f"check {failed.name}: {failed.reason} {failed.tail}"
        return Gate("stuck", phase, f"{said}: {one_line(error, 300)}", note)
    if breakers.same_unmet and streaks.unmet_times >= breakers.same_unmet:
        said = f"The same criteria were unmet {streaks.unmet_times} times in a row"
        return Gate("stuck", phase, f"{said}: {names}.", note)
    if stuck := stuck_reason(progress, limits):
        return Gate("stuck", phase, stuck, note)
    return again


def _not_the_agents(failing: Sequence[CheckResult]) -> str | None:
    """What only a human can mend: something missing at once, other trouble where there is nothing else to do."""
    for result in failing:
        if result.kind == "blocking":
            return f"A check cannot be run: {result.name}: {result.reason}."
    if not failing or any(result.kind == "logic" for result in failing):
        return None
    result = failing[0]
    tried = "failed twice, and it may not be the work's fault" if result.kind == "transient" else "ended strangely"
    return f"A check {tried}: {result.name}: {result.reason}."


def stuck_reason(progress: Progress, limits: Limits) -> str | None:
    """The breaker that trips now, with its evidence."""
    breakers, streaks = limits.breakers, progress.streaks
    if breakers.no_progress and streaks.idle >= breakers.no_progress:
        return f"Nothing changed in the last {streaks.idle} sessions ({_sessions(progress, streaks.idle)})."
    if files := going_in_circles(progress.contents, breakers.back_and_forth):
        named = ", ".join(one_line(name, 100) for name in files[:3])
        return f"Rewritten back and forth, again and again the same two contents: {named}."
    return None


def _sessions(progress: Progress, count: int) -> str:
    return listed(range(max(1, progress.iteration - count + 1), progress.iteration + 1))


def review(progress: Progress, ended: SessionEnded, phase: Phase, limits: Limits) -> Gate:
    """A phase that comes back to its review again and again is said to, and in the end counts as stuck."""
    last, number = limits.breakers.review_rounds, progress.round_of(phase.id) + 1
    if last and number >= last:
        message = f"This is round {number} of {phase.id}; so many did not settle it (see .marathon/runs for all)."
        return Gate("stuck", phase.id, message, note_of(ended), onward="next")
    warning = f"This is round {number} of {phase.id}; from {last} on it counts as stuck."
    return Gate("review", phase.id, warning if last and number >= WARN_FROM_ROUND else "", note_of(ended), "next")


def nudge(progress: Progress, definitions: Definitions) -> tuple[str, ...]:
    """Ticked boxes end nothing, but an agent that has ticked them all may be asked whether it is done."""
    ticked, boxes = progress.steps or (0, 0)
    if not boxes or ticked < boxes or not advance(definitions, progress.position)[1]:
        return ()
    return (f"All {boxes} steps of the plan are ticked. If everything is done and checked, say so in STATE.json.",)


def listed(sessions: Iterable[int]) -> str:
    return ", ".join(map(str, sessions))


def note_of(ended: SessionEnded | None) -> str | None:
    return ended.proposal.note if ended and ended.proposal else None


def judged(name: str, verdicts: Mapping[str, Any]) -> CheckResult:
    """What the agent says of a criterion that no command can check: a yes counts only with its evidence."""
    met, evidence = _entry(verdicts, "criteriaStatus", name), _entry(verdicts, "criteriaEvidence", name)
    if met is None:
        reason = "the agent gave no verdict (criteriaStatus in STATE.json)"
    elif met is not True:
        reason = "the agent says it is not met"
    elif not (isinstance(evidence, str) and evidence.strip()):
        reason = "the agent gave no evidence (criteriaEvidence in STATE.json)"
    else:
        return CheckResult(name=name, met=True, tail=clean(evidence)[:_LONGEST_EVIDENCE])
    return CheckResult(name=name, met=False, reason=reason)


def _entry(verdicts: Mapping[str, Any], table: str, name: str) -> Any:
    found = verdicts.get(table)
    return found.get(name) if isinstance(found, Mapping) else None
