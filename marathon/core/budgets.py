"""What a human allows a marathon to use, and how long to wait before a failed session is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from marathon.core.breakers import Breakers
from marathon.core.text import amount, duration

LONGEST_RETRY_WAIT = 300.0
WARN_AT = 0.8


@dataclass(frozen=True)
class Limits:
    """0 means no limit, everywhere."""

    max_iterations: int = 100
    max_seconds: float = 0
    max_cost: float = 0
    max_tokens: int = 0
    session_timeout: float = 7200
    retries: int = 3
    retry_wait: float = 2.0
    reflect_every: int = 0
    breakers: Breakers = field(default_factory=Breakers)


class Used(NamedTuple):
    """What was used since a human last said go on."""

    sessions: int = 0
    seconds: float = 0
    cost: float = 0
    tokens: int = 0


@dataclass(frozen=True)
class Budget:
    """One thing that can be used up: its field of Limits, its flag, and how a human speaks of it."""

    field: str
    flag: str
    counter: str  # the field of Used
    says: Callable[[float], str]
    more: str  # a sensible amount to go on with

    def used(self, used: Used) -> float:
        return float(getattr(used, self.counter))


BUDGETS = (
    Budget("max_iterations", "--max-iterations", "sessions", lambda n: f"{n:.0f} sessions", "+10"),
    Budget("max_seconds", "--max-time", "seconds", lambda n: f"{duration(n)} of working time", "+1h"),
    Budget("max_cost", "--max-cost", "cost", lambda n: f"${n:.2f}", "+10"),
    Budget("max_tokens", "--max-tokens", "tokens", lambda n: f"{amount(int(n))} tokens", "+1000000"),
)
Amounts = tuple[tuple[str, float], ...]


@lru_cache(maxsize=8)
def with_amounts(limits: Limits, *amounts: Amounts) -> Limits:
    """The limits with what was allowed for this task in place of the general; the later amounts count."""
    changes = {name: value for some in amounts for name, value in some}
    known = {each.field for each in BUDGETS}
    return replace(limits, **{name: value for name, value in changes.items() if name in known})  # type: ignore[arg-type]


def with_amount(amounts: Amounts, name: str, value: float | None) -> Amounts:
    """One of them set, or with None taken away."""
    kept = {key: amount for key, amount in amounts if key != name}
    return tuple((kept if value is None else {**kept, name: value}).items())


class Reached(NamedTuple):
    """The sentence for the gate, and the option that allows more."""

    text: str
    more: str


def limit_reached(limits: Limits, used: Used) -> Reached | None:
    for budget in BUDGETS:
        limit = getattr(limits, budget.field)
        if limit and budget.used(used) >= limit:
            spent = "" if budget.says(budget.used(used)) == budget.says(limit) else f" ({_spent(budget, used)} used)"
            text = f"The limit of {budget.says(limit)} ({budget.flag}) is reached{spent}."
            return Reached(text, f"{budget.flag} {budget.more}")
    return None


def nearly_reached(limits: Limits, used: Used, already_told: Iterable[str]) -> dict[str, str]:
    """Budgets of which 80 % are used, by field, each with its sentence; those already told of are left out."""
    return {
        budget.field: f"{_spent(budget, used)} of {budget.says(limit)} ({budget.flag}) are used."
        for budget in BUDGETS
        if (limit := getattr(limits, budget.field)) and WARN_AT * limit <= budget.used(used) < limit
        if budget.field not in already_told
    }


def budget_lines(limits: Limits, used: Used) -> list[str]:
    """What is used of what is allowed, for people."""
    return [
        f"{_spent(budget, used)} of {budget.says(limit)}"
        for budget in BUDGETS
        if (limit := getattr(limits, budget.field))
    ]


def _spent(budget: Budget, used: Used) -> str:
    return budget.says(budget.used(used))


def reflects(limits: Limits, iteration: int) -> bool:
    """Whether this session looks back first: after every `reflect_every` sessions."""
    return limits.reflect_every > 0 and iteration > 1 and (iteration - 1) % limits.reflect_every == 0


def retry_delay(limits: Limits, attempt: int) -> float:
    """Seconds before the attempt-th retry: doubling from retry_wait."""
    from tenacity import RetryCallState, Retrying, wait_exponential

    policy = wait_exponential(multiplier=limits.retry_wait, max=LONGEST_RETRY_WAIT)
    call = RetryCallState(Retrying(), None, (), {})
    call.attempt_number = attempt
    return float(policy(call))
