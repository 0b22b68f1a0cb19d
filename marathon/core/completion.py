"""Whether the criteria are met, what the agent is told about unmet ones, and which of them only a human can fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marathon.core.breakers import Streaks
from marathon.core.budgets import Breakers
from marathon.core.records import Checked, CheckResult, CriteriaFound
from marathon.core.text import clean, counted, one_line

_LONGEST_EVIDENCE = 2000


def all_met(criteria: CriteriaFound, checked: Checked) -> bool:
    """Whether every criterion was checked and is met."""
    met = {result.name for result in checked.results if result.met is True}
    return not criteria.problem and all(each.name in met for each in criteria.criteria)


def failures_for_agent(checked: Checked | None) -> tuple[str, ...]:
    """What the agent is told about every criterion that is not met."""
    return tuple(_failure(result) for result in checked.results if not result.met) if checked else ()


def _failure(result: CheckResult) -> str:
    how = f" (`{result.command}`)" if result.command else ""
    tail = f"\nThe end of its output:\n\n{result.tail}" if result.tail.strip() else ""
    return f"Not met: {result.name}{how}: {result.reason}.{tail}"


def human_needed_for(checked: Checked) -> str | None:
    """A sentence about a check that only a human can fix.

    A check that cannot be run stops the marathon at once. Other errors stop it if the agent has nothing else to fix.
    """
    failing = [result for result in checked.results if not result.met]
    for result in failing:
        if result.kind == "blocking":
            return f"A check cannot be run: {result.name}: {result.reason}."
    if not failing or any(result.kind == "logic" for result in failing):
        return None
    result = failing[0]
    how = "failed twice, perhaps not because of the work" if result.kind == "transient" else "did not end normally"
    return f"A check {how}: {result.name}: {result.reason}."


def same_failures(checked: Checked, streaks: Streaks, breakers: Breakers) -> str | None:
    """The sentence of the breaker for criteria that stay unmet in the same way."""
    failing = [result for result in checked.results if not result.met]
    failed = next((result for result in failing if result.command), None)  # else the last error is older
    if failed and breakers.same_error and len(streaks.error_at) >= breakers.same_error:
        times, one = len(streaks.error_at), len(streaks.error_at) == 1
        sessions = f"session{'' if one else 's'} {', '.join(map(str, streaks.error_at))}"
        error = one_line(f"check {failed.name}: {failed.reason} {failed.tail}", 300)
        return f"The same error occurred {counted(times, 'time')} ({sessions}): {error}"
    if breakers.same_unmet and streaks.unmet_times >= breakers.same_unmet:
        names = ", ".join(one_line(result.name, 80) for result in failing[:5])
        return f"The same criteria were unmet {counted(streaks.unmet_times, 'time')} in a row: {names}."
    return None


def judged(name: str, verdicts: Mapping[str, Any]) -> CheckResult:
    """The result for a criterion that the agent judges. A yes counts only with evidence."""
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
