"""The course of a measured loop: one change per session, measured by the runner, kept only if the number improved.

The rules for numbers, rows and the end of a loop stand in core/lanes. This module says what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from marathon.core.breakers import CUT_SHORT
from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import Phase
from marathon.core.decide import note_of
from marathon.core.lanes.blocks import Block, alike
from marathon.core.lanes.brief import brief
from marathon.core.lanes.model import LaneState, Row
from marathon.core.lanes.numbers import number
from marathon.core.lanes.rules import end_of, replayed, runners_own
from marathon.core.life import Life
from marathon.core.records import Answer, Begun, Gate, Record, RowAdded, SessionEnded, SessionStarted, Trying
from marathon.core.steps import AddRow, Finish, Measure, RunSession, Step
from marathon.core.text import one_line

ITERATE = "iterate"
MOST_REPEATS = 3  # sessions in a row that left nothing new
BOUNDS = ("max_iterations", "target_metric", "plateau")


@dataclass(frozen=True)
class Bench:
    """What only this course knows about a task: its rows, and what is under way."""

    rows: tuple[Row, ...] = ()
    trying: Trying | None = None
    repeats: int = 0
    touched: bool = False  # a session has worked in the tree since the last row
    looked: int = 0  # the iteration up to which a human has looked at what was kept

    @cached_property
    def state(self) -> LaneState | None:
        """The loop, once the runner has measured it."""
        return replayed(self._own)

    @cached_property
    def _own(self) -> tuple[Row, ...]:
        return runners_own(self.rows)

    @property
    def start(self) -> str:
        return self._own[0].commit or ""

    @property
    def commit(self) -> str:
        """The last keep, or the beginning."""
        return next(row.commit for row in reversed(self._own) if row.commit)

    @property
    def cut_off(self) -> bool:
        """A session has not come to its end, so what lies in the folder is its work."""
        return self.touched and self.trying is None

    @property
    def tried(self) -> dict[str, int]:
        """The trees that were measured, and in which iteration."""
        return {row.tree: row.iteration for row in self._own if row.tree and row.action != "skip"}

    @property
    def noiseless(self) -> bool:
        """Whether no two runs of one tree have ever differed."""
        return all(len(set(row.measurements or ())) == 1 for row in self._own[:1]) and all(
            alike(Block((one, two), (three, four))) for row in self._own for one, two, three, four in row.blocks or ()
        )

    @property
    def unconfirmed(self) -> bool:
        """Something was kept since the loop's gain in all was last measured."""
        last = [row.action for row in self._own if row.action in ("keep", "confirmed")]
        return last[-1:] == ["keep"]


class MeasuredLoop(Course):
    name: ClassVar[str] = "measured"

    def __init__(self, *_definitions: object) -> None:
        """A measured loop follows no workflow."""

    def begin(self) -> Begun:
        return Begun(course=self.name, phase=ITERATE)

    def apply(self, before: Life, now: Life, record: Record) -> Bench:
        bench = bench_of(before)
        match record:
            case RowAdded():
                row = Row.model_validate(record.row)
                if row.action in ("paused", "stopped", "resumed"):
                    return replace(bench, rows=(*bench.rows, row))
                repeats = bench.repeats + 1 if row.action == "skip" else 0
                return Bench((*bench.rows, row), None, repeats, False, bench.looked)
            case SessionStarted():
                return replace(bench, trying=None, touched=True)
            case Trying():
                return replace(bench, trying=record)
            case Answer():
                return replace(bench, repeats=0, looked=bench.state.iteration if bench.state else 0)
        return bench

    def where(self, life: Life) -> Where:
        bench = bench_of(life)
        state = bench.state
        if state is None:
            return Where(Phase(id=ITERATE, name="Iterate", brief="…"), breadcrumb=ITERATE)
        breadcrumb = f"{state.name} [{state.iteration + 1}]"
        return Where(_phase(bench, state), breadcrumb=breadcrumb, iteration=state.iteration + bench.touched)

    def session(self, life: Life, guidance: tuple[str, ...]) -> Step:
        bench = bench_of(life)
        state = bench.state
        if state is None:
            return Measure("baseline")
        if bench.trying:
            return Measure("try", bench.trying.hypothesis)
        last = bench.rows[-1]
        if state.status == "stopped" and last.escalation_type == "stop":
            return Gate(reason="stuck", phase=ITERATE, message=_used_up(state))
        if end_of(state, iterated=state.iteration > 0):
            return Measure("gained") if bench.unconfirmed else Finish()
        if bench.repeats >= MOST_REPEATS:
            message = f"The last {bench.repeats} sessions left nothing new to measure: {last.reason}."
            return Gate(reason="stuck", phase=ITERATE, message=message)
        if state.careful and last.doubtful and last.iteration > bench.looked:
            return Gate(reason="stuck", phase=ITERATE, message=_too_good(state, last))
        return RunSession(_phase(bench, state), guidance)

    def answered(self, life: Life) -> Step:
        """A loop that had used up its ladder gets a fresh one."""
        state = bench_of(life).state
        if state and state.status == "stopped":
            return AddRow(Row(iteration=state.iteration, action="resumed", setup=state.setup()).facts())
        return self.session(life, life.guidance)

    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        if ended.ending in (*CUT_SHORT, "left") or ended.wait:
            return None
        return Measure("try", one_line(note_of(ended) or "", 500))


def bench_of(life: Life) -> Bench:
    return life.own if isinstance(life.own, Bench) else Bench()


def _used_up(state: LaneState) -> str:
    best = "" if state.best_metric is None else f" Best: {number(state.best_metric)}."
    return (
        f"{state.consecutive_failures} iterations in a row were not kept, after {state.pivot_count} changes of the "
        f"strategy.{best} To continue gives the loop a fresh ladder."
    )


def _too_good(state: LaneState, row: Row) -> str:
    see = f"pi-marathon loop show {state.name} {row.iteration}"
    return f"Iteration {row.iteration} was kept, but its gain {row.doubtful} ({see}). To continue leaves it kept."


def _phase(bench: Bench, state: LaneState) -> Phase:
    return Phase(id=ITERATE, name="Iterate", emoji="📏", brief=brief(state, bench.rows))
