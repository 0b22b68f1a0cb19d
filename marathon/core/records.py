"""The journal's records: everything the runner knows of a task was once one of these lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from marathon.core.criteria import Criterion
from marathon.core.error_kind import Kind
from marathon.core.names import StateName
from marathon.core.shape import Unshaped, build
from marathon.core.usage import Usage

GateKind = Literal[
    "review",  # a phase is complete and its workflow wants a human to look
    "output",  # a phase was called complete twice without its output file
    "skipped",  # the agent proposed a phase further on, or back
    "paused",  # the agent stopped inside a phase that works in chunks: the plan is wrong
    "question",  # the agent asks
    "failed",  # the agent kept failing
    "left",  # the human closed the agent
    "stuck",  # nothing changes any more
    "invalid",  # STATE.json could not be read twice in a row
    "limit",  # what the human allowed is used up
    "workflow",  # the definition changed under the task
    "clarify",  # the instructions do not say enough
    "checks",  # commands that nobody has agreed to yet, or criteria that became less
    "session",  # the instructions leave so much open that a human looks after every session
]
_ENCODER = json.JSONEncoder(default=vars, ensure_ascii=False)
Shape = Literal["tool", "colleague", "clarify"]
Ending = Literal["ended", "crashed", "timeout", "left", "interrupted", "stopped", "lost"]
Choice = Literal["continue", "redo", "loop", "answer"]


@dataclass(frozen=True, kw_only=True)
class _Record:
    n: int = 0
    at: str = ""

    def to_json(self) -> str:
        """The record as its line in the journal."""
        return _ENCODER.encode(vars(self))


@dataclass(frozen=True, kw_only=True)
class Begun(_Record):
    """The first record: a new task, or one adopted as it stood."""

    type: Literal["begun"] = "begun"
    workflow: str
    path: list[tuple[str, int]]
    phase: str
    iteration: int = 0
    review: bool = False
    adopted: bool = False
    over: bool = False
    note: str | None = None
    gates: list[str] = field(default_factory=list)  # phases with a review; no change of the definition takes one away


@dataclass(frozen=True, kw_only=True)
class Torn(_Record):
    """The line before this one was cut off by a crash and does not count."""

    type: Literal["torn"] = "torn"
    bytes: int


@dataclass(frozen=True, kw_only=True)
class HumanMark:
    """How far human.md had been handed to an agent: the size, and a digest of what lies before it."""

    size: int = 0
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class SessionStarted(_Record):
    type: Literal["session_started"] = "session_started"
    iteration: int
    phase: str
    agent: str
    runner: str = ""
    output_mark: str | None = None
    human: HumanMark = field(default_factory=HumanMark)
    steer: list[str] = field(default_factory=list)
    guidance: list[str] = field(default_factory=list)
    reflects: bool = False
    warned: list[str] = field(default_factory=list)  # budgets the human was told are nearly used up


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What STATE.json said when the session was over."""

    state: StateName
    phase: str
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class WaitAsked:
    seconds: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class SessionEnded(_Record):
    type: Literal["session_ended"] = "session_ended"
    ending: Ending
    cause: str = ""
    seconds: float = 0
    proposal: Proposal | None = None
    invalid: str | None = None
    output: Literal["fresh", "stale", "missing"] = "missing"
    changed: bool = True
    wait: WaitAsked | None = None
    question: str | None = None
    usage: Usage | None = None
    stopReason: str = ""
    permanent: bool = False  # trying again cannot help
    retry_after: float | None = None  # the provider's word on when it can
    steered: list[str] = field(default_factory=list)  # messages that reached the agent while it worked
    signal: bool = False  # its last message says that all is done
    steps: tuple[int, int] | None = None  # boxes of the plan: ticked, and all
    files: list[tuple[str, str]] = field(default_factory=list)  # what it changed, each with a digest of the contents


@dataclass(frozen=True, kw_only=True)
class GateOpened(_Record):
    """A gate, with the token a verdict must name: no file written before it opened can answer it."""

    type: Literal["gate_opened"] = "gate_opened"
    kind: GateKind
    token: str
    phase: str
    message: str = ""
    note: str | None = None
    onward: Literal["next", "again"] = "again"
    more: str = ""  # at a limit: the option that allows more
    digest: str = ""  # of the criteria that are to be agreed to


@dataclass(frozen=True, kw_only=True)
class GateAnswered(_Record):
    """The verdict, with the human's words: they are safe here before they are added to human.md."""

    type: Literal["gate_answered"] = "gate_answered"
    choice: Choice
    phase: str | None = None
    text: str = ""
    heading: str = ""
    by: Literal["terminal", "command", "auto"] = "terminal"


@dataclass(frozen=True, kw_only=True)
class FeedbackWritten(_Record):
    """The words of the last verdict stand in human.md."""

    type: Literal["feedback_written"] = "feedback_written"


@dataclass(frozen=True, kw_only=True)
class Moved(_Record):
    """The runner moved the task to another phase (or the same one once more: a new round of it)."""

    type: Literal["moved"] = "moved"
    path: list[tuple[str, int]]
    steps: int
    phase: str


@dataclass(frozen=True, kw_only=True)
class WaitStarted(_Record):
    """A wait with its deadline, on the wall clock and on the clock of this boot."""

    type: Literal["wait_started"] = "wait_started"
    kind: Literal["agent", "retry"]
    seconds: float
    reason: str = ""
    until: float
    boot: str = ""
    until_boot: float = 0


@dataclass(frozen=True, kw_only=True)
class WaitEnded(_Record):
    type: Literal["wait_ended"] = "wait_ended"
    early: bool = False


@dataclass(frozen=True, kw_only=True)
class SteerTaken(_Record):
    """A message out of the inbox; its file may go once this is on disk."""

    type: Literal["steer_taken"] = "steer_taken"
    id: str
    text: str


@dataclass(frozen=True, kw_only=True)
class RestartBegun(_Record):
    """A restart with feedback: what is to be renamed to what, written before anything is touched."""

    type: Literal["restart_begun"] = "restart_begun"
    files: list[tuple[str, str]]
    heading: str
    text: str


@dataclass(frozen=True, kw_only=True)
class RunStarted(_Record):
    type: Literal["run_started"] = "run_started"
    run: int
    path: list[tuple[str, int]]
    phase: str


@dataclass(frozen=True, kw_only=True)
class Scored(_Record):
    """How much the instructions say, and so how closely a human looks; or what the human chose instead."""

    type: Literal["scored"] = "scored"
    shape: Shape
    points: int = 0
    missing: list[str] = field(default_factory=list)
    chosen: bool = False


@dataclass(frozen=True, kw_only=True)
class CriteriaFound(_Record):
    """What has to be true in the end, as the task's files say now."""

    type: Literal["criteria_found"] = "criteria_found"
    digest: str = ""
    criteria: list[Criterion] = field(default_factory=list)
    agreed: bool = True
    lost: list[str] = field(default_factory=list)  # criteria that are not there, or not the same, any more
    problem: str = ""  # why they cannot be read


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    name: str
    met: bool
    command: str = ""
    reason: str = ""
    tail: str = ""
    seconds: float = 0
    kind: Kind = "logic"  # of the error, where it is not met


@dataclass(frozen=True, kw_only=True)
class Checked(_Record):
    """What came of every criterion when completion was proposed."""

    type: Literal["checked"] = "checked"
    digest: str
    results: list[CheckResult]


@dataclass(frozen=True, kw_only=True)
class LimitSet(_Record):
    """A limit the human typed for this task; one that adds to what was used up counts only until the next go-ahead."""

    type: Literal["limit_set"] = "limit_set"
    name: str
    value: float
    added: bool = False


@dataclass(frozen=True, kw_only=True)
class Finished(_Record):
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, kw_only=True)
class Cancelled(_Record):
    type: Literal["cancelled"] = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Remark(_Record):
    """Something worth keeping that changes nothing."""

    type: Literal["remark"] = "remark"
    text: str


Record = (
    Begun
    | Torn
    | SessionStarted
    | SessionEnded
    | GateOpened
    | GateAnswered
    | FeedbackWritten
    | Moved
    | WaitStarted
    | WaitEnded
    | SteerTaken
    | RestartBegun
    | RunStarted
    | Scored
    | CriteriaFound
    | Checked
    | LimitSet
    | Finished
    | Cancelled
    | Remark
)

_KINDS: dict[Any, Any] = {kind.type: kind for kind in get_args(Record)}


def parse_record(line: bytes) -> Record:
    """One line of the journal; a ValueError if it is not a record."""
    try:
        raw = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    kind = _KINDS.get(raw.get("type")) if isinstance(raw, dict) and isinstance(raw.get("type"), str) else None
    if kind is None:
        raise Unshaped("there is no such record", "type")
    record: Record = build(kind, raw)
    return record
