"""The records of a measured loop, in the words of pi-multiloop's files. Fields that we do not know are kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from marathon.core.validation import Invalid, first_mistake
from marathon.errors import WrongUsage

Mode = Literal["optimize", "punchlist", "research", "dev"]
Direction = Literal["lower", "higher"]
Acceptance = Literal["keep-revert", "log"]
Measurer = Literal["runner", "agent"]
Status = Literal["running", "paused", "completed", "stopped", "archived"]
Recommended = Literal["keep", "revert", "log"]
Escalation = Literal["refine", "pivot", "stop"]
Confidence = Literal["high", "medium", "low"]
RuleName = Literal["strict", "loose"]
# Rows that finish no iteration. Readers of the original's format count nothing for an action that they do not know.
MARKS = ("baseline", "resumed", "paused", "stopped", "confirmed")


class Refused(WrongUsage):
    """A verb was refused and nothing was written. The recovery says what to type instead."""

    def __init__(self, reason: str, recovery: str) -> None:
        super().__init__(f"{reason} {recovery}")
        self.reason = reason
        self.recovery = recovery


class _Record(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True, allow_inf_nan=False
    )

    def facts(self) -> dict[str, Any]:
        """The record as JSON has it, without what is not set."""
        return self.model_dump(by_alias=True, exclude_none=True)


class Check(_Record):
    """A verdict beside the number: a guard command, a prompt verifier, or anything else that was looked at."""

    name: str
    passed: bool
    kind: str | None = None
    command: str | None = None
    prompt: str | None = None
    evidence: str | None = None


class ActiveIteration(_Record):
    """The iteration that was started, and perhaps measured, but not decided."""

    iteration: int
    phase: Literal["started", "measured"] = "started"
    started_at: str = ""
    hypothesis: str | None = None
    changes: str | None = None
    measurements: list[float] | None = None
    metric: float | None = None
    checks: list[Check] | None = None
    acceptance_passed: bool | None = None
    acceptance_reason: str | None = None
    recommended_action: Recommended | None = None
    measured_at: str | None = None


class Row(_Record):
    """A line of results.jsonl: a finished iteration, or a mark."""

    iteration: int = Field(ge=0)
    timestamp: str = ""
    action: str
    metric: float | None = None
    baseline: float | None = None
    delta: float | None = None
    confidence: Confidence | None = None
    hypothesis: str | None = None
    changes: str | None = None
    reason: str | None = None
    should_escalate: bool | None = None
    escalation_type: Escalation | None = None
    error: str | None = None
    measurements: list[float] | None = None
    checks: list[Check] | None = None
    acceptance_passed: bool | None = None
    acceptance_reason: str | None = None
    setup: dict[str, Any] | None = None  # of a mark: what holds from here on
    # Of a row that the runner made
    commit: str | None = Field(default=None, pattern="^[0-9a-f]{7,64}$")  # what was kept; of a baseline, the beginning
    tried: str | None = Field(default=None, pattern="^[0-9a-f]{7,64}$")  # of a change that was taken back, its commit
    tree: str | None = None  # what was measured
    seed: int | None = None  # of the order in which the runs of a block were made
    blocks: list[list[float]] | None = None  # two numbers of the reference, then two of the candidate
    chance: float | None = None  # that a change without a gain looks so good
    ratio: list[float] | None = None  # the number by the reference's, and its interval
    doubtful: str | None = None  # why a human should look at what was kept
    reference_measurements: list[float] | None = None
    noise: float | None = None  # of the baseline, as a share of the number

    @property
    def is_mark(self) -> bool:
        return self.action in MARKS

    def to_line(self) -> bytes:
        return json.dumps(self.facts(), ensure_ascii=False, allow_nan=False).encode() + b"\n"


class LaneState(_Record):
    """state.json: the snapshot of one run of a lane."""

    lane: str
    run_tag: str
    mode: str = "optimize"
    iteration: int = Field(default=0, ge=0)
    baseline: float | None = None
    current_metric: float | None = None
    best_metric: float | None = None
    consecutive_failures: int = 0
    pivot_count: int = 0
    keeps: int = 0
    reverts: int = 0
    logs: int = 0
    crashes: int = 0
    blocked: int = 0
    last_action: str | None = None
    last_action_at: str | None = None
    status: Status = "running"
    verify_command: str | None = None
    guard_command: str | None = None
    prompt_verifier: str | None = None
    acceptance_policy: str | None = None
    metric_name: str | None = None
    metric_json: str | None = None
    metric_regex: str | None = None
    metric_direction: Direction = "lower"
    acceptance_mode: Acceptance | None = None
    scope: str | None = None
    goal: str | None = None
    measured_by: Measurer | None = None  # not set: whoever measures the baseline
    min_measurements: int | None = None
    timed: bool | None = None  # the number is how long verify takes
    setup_command: str | None = None  # run once in each tree, before anything is measured there
    only_paths: list[str] | None = None  # what may be changed; not set: everything but what measures
    rule: RuleName | None = None  # not set: strict
    min_gain: float | None = None  # as a share: 0.02 is 2 %
    ladder: Literal["seed"] | None = None  # not set: it advises and stops nothing
    careful: bool | None = None  # a gain that looks too good is asked about
    keep_home: bool | None = None  # commands see the user's own HOME
    timeout: float | None = None  # seconds for one run of verify or guard; 0 is none
    target_metric: float | None = None
    max_iterations: int | None = None
    plateau: int | None = None  # end after so many iterations in a row without a better number
    without_gain: int = 0  # how many there were
    also: list[str] | None = None  # secondary metrics, as core/lanes/also.py reads them
    protected_paths: list[str] | None = None
    frozen_paths: list[str] | None = None  # these, and the programs that verify and guard start
    in_place: bool | None = None
    active_iteration: ActiveIteration | None = None
    started_at: str = ""
    last_updated: str = ""
    finished_at: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    alone: bool = Field(default=True, exclude=True)  # whether the lane's name is enough to name this run

    @property
    def name(self) -> str:
        return f"{self.lane}/{self.run_tag}"

    @property
    def acceptance(self) -> Acceptance:
        """What the lane was given, else what its mode means."""
        return self.acceptance_mode or ("keep-revert" if self.mode == "optimize" else "log")

    @property
    def reference(self) -> float | None:
        """What a measurement is compared with."""
        return self.baseline if self.current_metric is None else self.current_metric

    def with_(self, **changes: Any) -> LaneState:
        return self.model_copy(update=changes)

    def setup(self) -> dict[str, Any]:
        """What a row keeps of the lane's settings, by the names in the file."""
        return self.model_dump(by_alias=True, exclude_none=True, include=SETUP)

    def facts(self) -> dict[str, Any]:
        """As in the file. The original writes these as null where they are not known."""
        known = {to_camel(name): None for name in ("baseline", "current_metric", "best_metric", "last_action")}
        return {**known, **super().facts()}

    def to_bytes(self) -> bytes:
        return (json.dumps(self.facts(), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


# The settings of a lane. They stand in row 0, so that an edit of state.json does not change what is compared.
PINNED = frozenset(
    {
        *("verify_command", "guard_command", "prompt_verifier", "metric_name", "metric_json", "metric_regex"),
        *("metric_direction", "acceptance_mode", "measured_by", "min_measurements", "timeout", "target_metric"),
        *("max_iterations", "plateau", "also", "protected_paths", "frozen_paths", "in_place"),
        *("timed", "setup_command", "only_paths", "rule", "min_gain", "ladder", "careful", "keep_home"),
    }
)
SETUP = set(PINNED | {"mode", "goal", "scope", "started_at"})


def parse_state(data: bytes) -> LaneState:
    """Read the bytes of a state.json. Invalid says why they cannot be used."""
    return _parsed(LaneState, data)


def parse_row(line: bytes) -> Row:
    return _parsed(Row, line)


def parse_check(data: bytes) -> Check:
    return _parsed(Check, data)


def state_of(facts: dict[str, Any]) -> LaneState:
    return _checked(LaneState, facts)


T = TypeVar("T", bound=_Record)


def _parsed(kind: type[T], data: bytes) -> T:
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise Invalid(f"it is not JSON ({error})") from None
    return _checked(kind, value)


def _checked(kind: type[T], value: object) -> T:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise Invalid(first_mistake(error)) from None


def finite(values: Sequence[float]) -> bool:
    return all(math.isfinite(value) for value in values)
