"""Lanes for tests, and a walk through them by the verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marathon.core.lanes import verbs
from marathon.core.lanes.model import Check, LaneState, Row

NOW = "2026-02-02T14:30:00Z"


def lane(**more: Any) -> LaneState:
    return LaneState(lane="perf", run_tag="r1", goal="faster", started_at=NOW, **more)


def guard(passed: bool = True, command: str = "make test") -> Check:
    return Check(name="guard", passed=passed, command=command)


class Walk:
    """A lane with the rows that its verbs made."""

    def __init__(self, state: LaneState) -> None:
        self.state = state
        self.rows: list[Row] = []

    def iterate(self, **said: str) -> LaneState:
        self.state = verbs.iterate(self.state, NOW, **said)
        return self.state

    def measure(self, *values: float, checks: Sequence[Check] = ()) -> LaneState:
        self.state, row = verbs.measure(self.state, NOW, values, checks)
        self.rows += [row] if row else []
        return self.state

    def decide(self, action: str, *values: float) -> Row:
        self.state, row = verbs.decide(self.state, NOW, action, values)
        self.rows.append(row)
        return row

    def log(self, action: str = "log") -> Row:
        self.state, row = verbs.log(self.state, NOW, action)
        self.rows.append(row)
        return row

    def resume(self, **raised: Any) -> None:
        self.state, row = verbs.resume(self.state, NOW, **raised)
        self.rows += [row] if row else []

    def turn(self, *values: float, checks: Sequence[Check] = ()) -> Row:
        """A whole iteration with the action that its numbers lead to."""
        self.iterate()
        active = self.measure(*values, checks=checks).active_iteration
        assert active is not None
        return self.decide(str(active.recommended_action), *values)


def with_baseline(*values: float, **more: Any) -> Walk:
    walk = Walk(lane(**more))
    walk.measure(*(values or (100,)))
    return walk
