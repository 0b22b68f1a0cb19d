"""Counts what a session uses while it runs, and warns when a budget is nearly used up."""

from __future__ import annotations

from collections.abc import Callable

from marathon.core.budgets import Allowance, Reached, Usage
from marathon.core.events import Event, Notice, ToolCalled, Used, usage_of


class Meter:
    """Every event of an agent goes through `emit`. `at` says how long the session has worked."""

    def __init__(self, sink: Callable[[Event], None] = lambda event: None, allowance: Allowance | None = None) -> None:
        self.usage = Usage()
        self.seconds = 0.0
        self.warned: list[str] = []  # in this session
        self.quiet = False  # while a program has the terminal, the warnings wait
        self.stopped_for: Reached | None = None  # the budget for which the session was ended from here
        self._sink = sink
        self._allowance = allowance or Allowance()

    @property
    def reported(self) -> Usage | None:
        """What was used, or None if the agent said nothing of it."""
        return self.usage if self.usage != Usage() else None

    def emit(self, event: Event) -> None:
        self._sink(event)
        if isinstance(event, Used | ToolCalled):
            self.usage = self.usage.plus(usage_of([event]))
            self.warn()

    def at(self, seconds: float) -> None:
        self.seconds = seconds
        self.warn()

    def must_stop(self, *, late: float | None = None) -> bool:
        """Whether a budget is used up. With `late`, only whether the time is, by so many seconds."""
        if late is None:
            reached = self._allowance.reached(self.usage, self.seconds)
        else:
            reached = self._allowance.reached(Usage(), self.seconds - late)
        self.stopped_for = self.stopped_for or reached
        return reached is not None

    def left(self, counter: str) -> float | None:
        """What the session may still use of one budget. None if it is not limited."""
        budget = self._allowance.facts().get(counter)
        return None if budget is None else max(0.0, budget["limit"] - budget["used"])

    def warn(self) -> None:
        """Tell the human once of each budget that is nearly used up."""
        for budget, text in self._allowance.nearly_reached(self.usage, self.seconds).items():
            if budget not in self.warned and not self.quiet:
                self.warned.append(budget)
                self._sink(Notice(text, "warning"))
