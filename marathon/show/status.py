"""What is known of a task, as plain data and as the lines of `status` and `list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from marathon.core.budgets import Usage
from marathon.core.gates import POLICIES, Offer
from marathon.core.life import NOTHING_USED, Life
from marathon.core.records import Gate
from marathon.core.steps import Now, left
from marathon.core.text import amount, clean, duration, one_line


@dataclass(frozen=True)
class Status:
    """A task as a person would describe it."""

    task: str
    condition: str
    phase: str = ""
    breadcrumb: str = ""
    run: int = 0
    iteration: int = 0
    seconds: float = 0
    usage: Usage = NOTHING_USED
    oversight: str = ""
    budget: Sequence[str] = ()
    steps: str = ""
    checks: Sequence[dict[str, Any]] = ()
    waits_for: str = ""
    note: str = ""
    runner: str = ""
    steering: int = 0
    sessions: Sequence[dict[str, Any]] = field(default_factory=tuple)
    gate: dict[str, Any] | None = None
    answer_with: Sequence[str] = ()
    resume: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def condition_of(life: Life, running: bool) -> str:
    """One word: new, ready, running, waiting, gate, completed, cancelled, interrupted."""
    if not life.begun:
        return "new"
    if life.finished:
        return "completed"
    if life.cancelled:
        return "cancelled"
    if life.gate:
        return "gate"
    if life.wait:
        return "waiting"
    if life.session:
        return "running" if running else "interrupted"
    return "running" if running else "ready"


def waits_for(life: Life, now: Now) -> str:
    """What has to happen before the task goes on, in a few words."""
    if life.gate:
        policy = POLICIES[life.gate.reason]
        return policy.waits_for.format(phase=life.gate.phase, message=one_line(life.gate.message, 300))
    if life.wait:
        return f"{one_line(life.wait.reason, 200)} ({duration(left(life.wait, now))} left)"
    return ""


def gate_facts(gate: Gate, offers: Sequence[Offer], task: str) -> dict[str, Any]:
    """The open gate with everything it takes: the same offers that a terminal shows as keys."""
    return {
        "reason": gate.reason,
        "token": gate.token,
        "phase": gate.phase,
        "message": gate.message,
        "offers": [{**asdict(offer), "command": offer.command(task)} for offer in offers],
    }


def status_lines(status: Status) -> list[str]:
    rows = [
        ("Task", status.task),
        ("State", status.condition),
        ("Phase", status.breadcrumb or status.phase),
        ("Run", f"{status.run}, iteration {status.iteration}" if status.run else ""),
        ("Worked", duration(status.seconds) if status.run else ""),
        ("Used", _used(status.usage)),
        ("Budget", ", ".join(status.budget)),
        ("Plan", status.steps),
        ("Oversight", "you are asked after every session" if status.oversight == "colleague" else ""),
        ("Waits for", status.waits_for),
        ("Note", one_line(status.note, 300)),
        ("Runner", status.runner),
        ("Steering", f"{status.steering} message(s) for the next session" if status.steering else ""),
    ]
    lines = [f"{label + ':':11}{value}" for label, value in rows if value]
    if status.checks:
        lines += ["Criteria:", *(f"  {check_line(each)}" for each in status.checks)]
    if status.sessions:
        lines.append("Sessions:")
        lines += [session_line(facts) for facts in status.sessions]
    if status.answer_with:
        lines += ["Answer with one of:", *(f"  {command}" for command in status.answer_with)]
    if status.resume:
        lines.append(f"{'Continue:':11}{status.resume}")
    return [clean(line) for line in lines]


def check_line(facts: dict[str, Any]) -> str:
    """A criterion and what is known of it."""
    sign = {True: "✓", False: "✗"}.get(facts.get("met"), "·")  # type: ignore[arg-type]
    reason = f": {one_line(str(facts['reason']), 200)}" if facts.get("reason") else ""
    return f"{sign} {one_line(str(facts.get('name')), 120)}{reason}"


def criteria_facts(life: Life) -> list[dict[str, Any]]:
    """Every criterion as it was found when it was last looked at; met is null where no one has looked yet."""
    results = {result.name: result for result in life.checked.results} if life.checked else {}
    return [
        {
            "name": each.name,
            "command": each.command,
            "met": results[each.name].met if each.name in results else None,
            "reason": results[each.name].reason if each.name in results else "",
        }
        for each in (life.criteria.criteria if life.criteria else ())
    ]


def _used(usage: Usage) -> str:
    """$1.20, 240.1k tokens (3.0k in, 2.1k out, 235.0k cached), 31 turns, 44 tool calls, model"""
    if not usage.turns:
        return ""
    cached = usage.cacheRead + usage.cacheWrite
    tokens = (
        f"{amount(usage.tokens)} tokens ({amount(usage.input)} in, {amount(usage.output)} out, {amount(cached)} cached)"
    )
    return ", ".join(
        [f"${usage.cost:.2f}", tokens, f"{usage.turns} turns", f"{usage.toolCalls} tool calls", usage.model]
    )


def session_line(facts: dict[str, Any]) -> str:
    """A session by its facts."""
    seconds, used = facts.get("seconds"), facts.get("usage")
    took = duration(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else "?"
    cost = f"  ${used['cost']:.2f}" if isinstance(used, dict) and isinstance(used.get("cost"), int | float) else ""
    cause = f"  {one_line(str(facts.get('cause')), 100)}" if facts.get("cause") else ""
    number, phase, ending = (one_line(str(facts.get(name, "?")), 40) for name in ("iteration", "phase", "ending"))
    return f"  {number:>4}  {phase:12} {took:>8}{cost}  {ending}{cause}"
