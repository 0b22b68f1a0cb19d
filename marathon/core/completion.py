"""Whether the criteria are met, what the agent is told about unmet ones, and which of them only a human can fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from marathon.core.breakers import Streaks
from marathon.core.budgets import Breakers
from marathon.core.records import Checked, CheckResult, CriteriaFound
from marathon.core.text import clean, counted, one_line

Known = Literal["ran", "agent", "accepted"]
_LONGEST_EVIDENCE = 2000


def all_met(criteria: CriteriaFound, checked: Checked) -> bool:
    """Whether every criterion was checked and is met."""
    return not criteria.problem and not unmet_names(criteria, checked)


def unmet_names(criteria: CriteriaFound | None, checked: Checked) -> list[str]:
    """Every criterion that has no yes, also one without a result."""
    met = {result.name for result in checked.results if result.met is True}
    return [each.name for each in (criteria.criteria if criteria else ()) if each.name not in met]


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


def account(results: Sequence[CheckResult], accepted: Collection[str] = ()) -> list[str]:
    """How many criteria ran, how many the agent judged, and how many a human accepted: never one sum over all."""
    counts = Counter(known_by(result, accepted) for result in results)
    said: dict[Known, str] = {
        "ran": "1 criterion ran" if counts["ran"] == 1 else f"{counts['ran']} criteria ran",
        "agent": f"{counts['agent']} on the agent's word",
        "accepted": f"{counts['accepted']} accepted by you",
    }
    return [words for how, words in said.items() if counts[how]]


def known_by(result: CheckResult, accepted: Collection[str] = ()) -> Known | None:
    """How it is known that a criterion is met; None if it is not."""
    if not result.met:
        return "accepted" if result.name in accepted else None
    return "ran" if result.command else "agent"


def result_facts(result: CheckResult, accepted: Collection[str] = ()) -> dict[str, Any]:
    """A criterion with its result, for people and for JSON. What a human accepted is still not met."""
    return {
        "name": result.name,
        "command": result.command,
        "met": result.met,
        "known_by": known_by(result, accepted),
        "reason": result.reason,
        "evidence": result.tail if result.met and not result.command else "",
    }


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
