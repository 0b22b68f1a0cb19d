"""What a session used, what a human allows a marathon to use, and the waits before a failed session is retried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from marathon.core.text import amount, counted, duration, money, one_line

LONGEST_RETRY_WAIT = 300.0
LONGEST_OUTAGE_WAIT = 600.0
FIRST_OUTAGE_WAIT = 2.0  # where --retry-wait is 0: who is away is not asked without a pause
WARN_AT = 0.8


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a session used, as far as its agent reports it."""

    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    cost: float = 0
    turns: int = 0
    toolCalls: int = 0
    model: str = ""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cacheRead + self.cacheWrite

    def plus(self, other: Usage) -> Usage:
        """The sum of both, with the later model."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTED}
        return Usage(**sums, model=other.model or self.model)


_COUNTED = [each.name for each in fields(Usage) if each.name != "model"]


def usage_in(table: Mapping[str, Any]) -> Usage:
    """A usage from an untrusted table. A value that is not a number counts as 0."""
    numbers = {name: number_in(table.get(name)) for name in _COUNTED}
    counts: dict[str, Any] = {name: value if name == "cost" else int(value) for name, value in numbers.items()}
    return Usage(**counts, model=one_line(str(table.get("model") or ""), 100))


def number_in(value: Any) -> float:
    """A number that can be added up. Anything else, including infinity, is 0."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if fits else 0.0


class Breakers(NamedTuple):
    """How often each may happen in a row before a human is asked. 0 turns a breaker off."""

    same_error: int = 3
    no_progress: int = 3
    same_unmet: int = 5
    back_and_forth: int = 3
    review_rounds: int = 13


def parse_breakers(words: Iterable[str]) -> Breakers:
    """Breakers from words of the form NAME=N. A ValueError names a word that cannot be read."""
    changes: dict[str, int] = {}
    for word in words:
        name, _, number = word.partition("=")
        breaker = name.strip().replace("-", "_")
        if breaker not in Breakers._fields or not number.strip().isdecimal():
            known = ", ".join(each.replace("_", "-") for each in Breakers._fields)
            raise ValueError(f"{word!r} is not a breaker. Write NAME=N, where NAME is one of {known}; 0 turns it off")
        changes[breaker] = int(number)
    return Breakers()._replace(**changes)


@dataclass(frozen=True)
class Limits:
    """What a marathon may use. 0 means no limit."""

    max_iterations: int = 100
    max_seconds: float = 0
    max_cost: float = 0
    max_tokens: int = 0
    session_timeout: float = 7200
    retries: int = 3
    retry_wait: float = 2.0
    outage: float = 6 * 3600  # that the network or a provider may be away; 0: a failure like any other
    hours: str = ""  # in which sessions start, such as 20:00-07:00; empty: any
    reflect_every: int = 0
    breakers: Breakers = field(default_factory=Breakers)
    by_project: frozenset[str] = frozenset()  # the budgets that the project's file has lowered
    agents: tuple[str, ...] = ()  # that may take over from each other


class Used(NamedTuple):
    """What was used since a human last allowed the task to continue."""

    sessions: int = 0
    seconds: float = 0
    cost: float = 0
    tokens: int = 0

    def plus(self, usage: Usage, seconds: float) -> Used:
        """With what a session used. The journal's sum and the sum during a session are this same sum."""
        return self._replace(
            seconds=self.seconds + seconds, cost=self.cost + usage.cost, tokens=self.tokens + usage.tokens
        )


@dataclass(frozen=True)
class Budget:
    """One thing that can be used up."""

    field: str  # of Limits
    flag: str
    counter: str  # the field of Used
    says: Callable[[float], str]  # the amount, for a human
    short: Callable[[float], str]  # the same without its unit
    more: str  # a sensible amount to allow in addition

    def used(self, used: Used) -> float:
        return float(getattr(used, self.counter))

    def of(self, used: Used, limit: float) -> str:
        """Such as 4 of 5 sessions."""
        return f"{self.short(self.used(used))} of {self.says(limit)}"

    def can_be_kept(self, usage: Usage) -> bool:
        """Money and tokens are counted only if the agent reports them."""
        return self.counter not in ("cost", "tokens") or getattr(usage, self.counter) > 0


BUDGETS = (
    Budget(
        "max_iterations", "--max-iterations", "sessions", lambda n: counted(n, "session"), lambda n: f"{n:.0f}", "+10"
    ),
    Budget("max_seconds", "--max-time", "seconds", lambda n: f"{duration(n)} of working time", duration, "+1h"),
    Budget("max_cost", "--max-cost", "cost", money, money, "+10"),
    Budget(
        "max_tokens",
        "--max-tokens",
        "tokens",
        lambda n: f"{amount(int(n))} tokens",
        lambda n: amount(int(n)),
        "+1000000",
    ),
)
Amounts = tuple[tuple[str, float], ...]


def with_amounts(limits: Limits, *amounts: Amounts) -> Limits:
    """The limits with the amounts that were set for this task. Later amounts replace earlier ones."""
    known = {each.field for each in BUDGETS}
    changes: dict[str, Any] = {name: value for some in amounts for name, value in some if name in known}
    return replace(limits, **changes)


def with_amount(amounts: Amounts, name: str, value: float | None) -> Amounts:
    """The amounts with one of them set, or removed if the value is None."""
    kept = {key: amount for key, amount in amounts if key != name}
    return tuple((kept if value is None else {**kept, name: value}).items())


class Reached(NamedTuple):
    """The sentence for the gate, the option that allows more, the option that set the limit, and its field."""

    text: str
    more: str
    flag: str
    field: str


def limit_reached(limits: Limits, used: Used) -> Reached | None:
    for budget in BUDGETS:
        limit = getattr(limits, budget.field)
        if limit and budget.used(used) >= limit:
            allowed, spent = budget.says(limit), budget.says(budget.used(used))
            more = "" if spent == allowed else f" ({spent} used)"
            text = f"The limit of {allowed} ({budget.flag}) is reached{more}."
            return Reached(text, f"{budget.flag} {budget.more}", budget.flag, budget.field)
    return None


def nearly_reached(limits: Limits, used: Used, already_told: Iterable[str]) -> dict[str, str]:
    """The budgets that are used up to 80 % or more, by field, each with its sentence; without those already told."""
    return {
        budget.field: f"{budget.of(used, limit)} ({budget.flag}) are used."
        for budget in BUDGETS
        if (limit := getattr(limits, budget.field)) and WARN_AT * limit <= budget.used(used) < limit
        if budget.field not in already_told
    }


@dataclass(frozen=True)
class Allowance:
    """What one session may use: the limits, what was used before it, and the budgets that were warned of already."""

    limits: Limits = field(default_factory=Limits)
    used: Used = field(default_factory=Used)
    warned: tuple[str, ...] = ()

    @cached_property
    def _within(self) -> Limits | None:
        """What can be used up inside a session; None if nothing is limited. This is asked several times a second."""
        inside = any(getattr(self.limits, budget.field) for budget in BUDGETS if budget.counter != "sessions")
        return replace(self.limits, max_iterations=0) if inside else None

    def reached(self, usage: Usage, seconds: float) -> Reached | None:
        """The budget that is used up after so much of the session. That it was started counts as nothing here."""
        return limit_reached(self._within, self.used.plus(usage, seconds)) if self._within else None

    def nearly_reached(self, usage: Usage, seconds: float) -> dict[str, str]:
        return nearly_reached(self._within, self.used.plus(usage, seconds), self.warned) if self._within else {}

    def facts(self) -> dict[str, dict[str, Any]]:
        """For an agent that keeps to its budgets itself, by counter. Only what is limited is named."""
        return {
            budget.counter: {
                "field": budget.field,
                "flag": budget.flag,
                "limit": limit,
                "used": budget.used(self.used),
                "warnAt": WARN_AT * limit,
                "warned": budget.field in self.warned,
            }
            for budget in BUDGETS
            if budget.counter != "sessions" and (limit := getattr(self.limits, budget.field))
        }


def budget_lines(limits: Limits, used: Used, usage: Usage) -> list[str]:
    """What is used of each limit, for people. `usage` is all that was ever reported for the task."""
    limited = [(budget, limit) for budget in BUDGETS if (limit := getattr(limits, budget.field))]
    return [
        budget.of(used, limit) if budget.can_be_kept(usage) else f"{budget.says(limit)} allowed, none reported"
        for budget, limit in limited
    ]


def total(limits: Limits, used: Used, usage: Usage, seconds: float) -> str:
    """What a task has used in all, against what it may use: $1.20 of $10.00, 12.4k of 1.0M tokens."""
    told = budget_lines(limits, used, usage)
    if usage.cost and round(usage.cost, 2) != round(used.cost if limits.max_cost else 0, 2):
        told.append(f"{money(usage.cost)} in all" if limits.max_cost else money(usage.cost))
    if not usage.cost and usage.tokens and not limits.max_tokens:
        told.append(f"{amount(usage.tokens)} tokens")
    if not told:
        told.append(f"{duration(seconds)} of working time")
    return ", ".join(told)


def reflects(limits: Limits, iteration: int) -> bool:
    """Whether this session looks back first, as after every `reflect_every` sessions."""
    return limits.reflect_every > 0 and iteration > 1 and (iteration - 1) % limits.reflect_every == 0


def retry_delay(limits: Limits, attempt: int) -> float:
    """The seconds before a retry. They double with each attempt, starting with retry_wait."""
    return _doubled(limits.retry_wait, LONGEST_RETRY_WAIT, attempt)


def outage_delay(limits: Limits, attempt: int) -> float:
    """The seconds before the network or a provider that is away is tried again."""
    return _doubled(limits.retry_wait or FIRST_OUTAGE_WAIT, LONGEST_OUTAGE_WAIT, attempt)


def _doubled(first: float, longest: float, attempt: int) -> float:
    from tenacity import RetryCallState, Retrying, wait_exponential

    policy = wait_exponential(multiplier=first, max=longest)
    call = RetryCallState(Retrying(), None, (), {})
    call.attempt_number = attempt
    return float(policy(call))
