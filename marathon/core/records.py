"""The journal's records. Everything the runner knows about a task was once one of these lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, get_args

from marathon.core.budgets import Usage
from marathon.core.comments import Comment
from marathon.core.courses.workflow import Workflow
from marathon.core.criteria import Criterion
from marathon.core.error_kind import Kind

StateName = Literal["running", "paused", "completed"]
Reason = Literal[
    "review",  # a phase is complete, and its workflow asks for a review
    "rounds",  # a phase has come back to its review too often
    "output",  # the agent called a phase complete twice without its output file
    "skipped",  # the agent proposed a phase further on
    "back",  # the agent proposed an earlier phase
    "paused",  # the agent stopped inside a phase that works in chunks, so the plan may be wrong
    "question",  # the agent asks
    "failed",  # the agent kept failing
    "blocked",  # a check cannot be run, and only a human can fix that
    "left",  # the human closed the agent
    "stuck",  # nothing changes any more
    "invalid",  # STATE.json could not be read twice in a row
    "limit",  # what the human allowed is used up
    "workflow",  # the definition changed under the task
    "definition",  # the project's workflow, which no one has agreed to yet
    "redefined",  # the workflow's file was changed, and the task keeps the one it has until a human agrees
    "checks",  # commands that no one has agreed to yet, or criteria that were removed
    "setup",  # a new worktree could not be set up
    "missing",  # the instructions or a reviewed output are gone, or blank
    "writes",  # an agent wrote where its phase may not write, and no review follows, or it could not be undone
    "session",  # the human asked to look after every session
    "baseline",  # a measured loop cannot be measured before anything was changed
    "clarify",  # only in journals of an older version: the instructions said too little
]
Oversight = Literal["tool", "colleague"]  # asked at reviews only, or after every session
# refused: the provider answered with an error, such as a rate limit
WaitKind = Literal["agent", "retry", "outage", "hours"]  # the agent asked, before another try, for the human's hours
Ending = Literal["ended", "crashed", "refused", "timeout", "left", "interrupted", "stopped", "lost", "limit"]
# quit, cancel, oversight, undo and refresh (read the files again) are not stored as answers.
Choice = Literal["continue", "redo", "loop", "answer", "accept", "undo", "cancel", "quit", "oversight", "refresh"]
_ENCODER = json.JSONEncoder(default=vars, ensure_ascii=False)


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
    workflow: str = ""
    path: list[tuple[str, int]] = field(default_factory=list)
    phase: str
    iteration: int = 0
    review: bool = False
    adopted: bool = False
    over: bool = False
    note: str | None = None
    gates: list[str] = field(default_factory=list)  # phases with a review; no change of the definition takes one away
    course: str = "phases"
    id: str = ""  # no longer read
    claimed: list[str] = field(default_factory=list)  # phases that the folder says are done; each is judged once more
    comments: Literal["human.md", "records"] = "human.md"  # where they are kept; an older version says nothing


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
    comments: list[str] = field(default_factory=list)  # that it is asked to answer
    guidance: list[str] = field(default_factory=list)
    reflects: bool = False
    warned: list[str] = field(default_factory=list)  # budgets the human was told are nearly used up
    tree: str = ""  # the project before it, where the phase may not write everywhere,
    commit: str = ""  # the commit that was checked out, there and at the beginning of a run,
    head: str = ""  # and what .git/HEAD said


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What STATE.json said when the session was over."""

    state: StateName
    phase: str
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rating:
    """How the agent rates the instructions, 0 to 10 points, and what it misses."""

    points: int
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class WaitAsked:
    seconds: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Writes:
    """What changed while a session ran, where its phase may not write.

    In a worktree that was the agent, and it was undone. Elsewhere it may have been a human, so it was kept.
    """

    files: list[str] = field(default_factory=list)  # the first of them
    count: int = 0
    patch: str = ""  # where it is kept, below the task directory
    commit: str = ""  # that was checked out when the session was over, where it is not the one before
    left: str = ""  # why it was not undone
    unchecked: str = ""  # why no one knows
    tree: str = ""  # the project before it, where all was kept,
    was: str = ""  # and the commit that was checked out
    commits: int = 0  # how many came on top of that
    fixed: str = ""  # why the branch cannot be moved back there
    by_agent: list[str] = field(default_factory=list)  # those of the files that a tool call of the agent names
    undone: list[str] = field(default_factory=list)  # those of the files that a human undid


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
    outage: bool = False  # the network or the provider was away: that is waited out, and says nothing about the work
    steered: list[str] = field(default_factory=list)  # messages that reached the agent while it worked
    signal: bool = False  # its last message says that all is done
    steps: tuple[int, int] | None = None  # boxes of the plan: ticked, and all
    files: list[tuple[str, str]] = field(default_factory=list)  # what it changed, each with a digest of the contents
    rating: Rating | None = None  # of the instructions
    warned: list[str] = field(default_factory=list)  # budgets the human was told of while it worked
    sessionId: str = ""  # as the agent names its session
    denied: str = ""  # what it was not allowed to use, and how to allow it
    writes: Writes | None = None
    documents: dict[str, str] = field(default_factory=dict)  # digests of those that matter, as it left them
    loop: bool = False  # the agent proposes to start the workflow again


@dataclass(frozen=True, kw_only=True)
class Gate(_Record):
    """A human decides. The token is made when the gate opens, so no file written earlier can answer it."""

    type: Literal["gate_opened"] = "gate_opened"
    reason: Reason
    token: str = ""  # empty until the gate stands in the journal
    phase: str
    message: str = ""
    note: str | None = None
    onward: Literal["next", "again"] = "again"
    more: str = ""  # at a limit, the option that allows more
    digest: str = ""  # of the criteria that are to be agreed to, or that are not met
    agreement: str = ""  # the same for all tasks of a project that ask for exactly the same yes
    back_to: str = ""  # the earlier phase that the agent proposed
    about: list[str] = field(default_factory=list)  # the criteria that are not met, or the files that are missing
    answers: Literal["token", "code", "here"] = "token"  # what an answer needs; here: the runner's own terminal
    answered: dict[str, str] = field(default_factory=dict)  # comments that the agent answered since the last gate
    comments: int = 0  # how many there were when it opened
    output: str = ""  # digest of the version that is reviewed
    writes: list[str] = field(default_factory=list)  # what sessions of this round wrote where they may not
    put_back: list[str] = field(default_factory=list)  # shell commands, each brings back what one of them wrote
    undoable: bool = False  # some of it was kept, and the human may undo it
    unanswered: list[str] = field(default_factory=list)  # ids of the comments it must answer and has not
    limits: dict[str, float] = field(default_factory=dict)  # that hold although no one typed them for this task
    held: dict[str, float] = field(default_factory=dict)  # the limit reached, if a file of the project set it


@dataclass(frozen=True, kw_only=True)
class Answer(_Record):
    """What the human said to a gate. The words are safe here before they are added to human.md."""

    type: Literal["gate_answered"] = "gate_answered"
    choice: Choice
    phase: str | None = None
    text: str = ""
    heading: str = ""
    by: Literal["terminal", "command", "page", "auto"] = "terminal"
    message: str = ""  # the inbox file it came in
    documents: dict[str, str] = field(default_factory=dict)  # digests of what was there to be reviewed
    files: list[str] = field(default_factory=list)  # to undo,
    head: bool = False  # and whether the branch moves back too


@dataclass(frozen=True, kw_only=True)
class Undone(_Record):
    """At an open gate, a human undid some of what had changed while a session ran that may not write there."""

    type: Literal["undone"] = "undone"
    files: list[str] = field(default_factory=list)
    commit: str = ""  # that the branch was moved back from
    put_back: list[str] = field(default_factory=list)  # the shell command that brings it back
    writes: list[str] = field(default_factory=list)  # what the gate says of the rest


@dataclass(frozen=True, kw_only=True)
class HandEdit:
    """A document that the human changed by hand while a gate was open."""

    name: str  # in the task directory
    kept: str  # the copy of it as the human left it, below the task directory
    digest: str
    diff: str  # against what it was when the gate opened; a long one is cut


@dataclass(frozen=True, kw_only=True)
class HandEdited(_Record):
    """What the human changed at one gate, all of it. A later record about the same gate replaces an earlier one."""

    type: Literal["hand_edited"] = "hand_edited"
    gate: str  # its token
    edits: list[HandEdit]


@dataclass(frozen=True, kw_only=True)
class FeedbackTaken(_Record):
    """Feedback out of the inbox, which answers no gate. The words are safe here before they are added to human.md."""

    type: Literal["feedback_taken"] = "feedback_taken"
    id: str
    heading: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Commented(_Record):
    """The human made a comment or took one back. human.md only shows it."""

    type: Literal["commented"] = "commented"
    comments: list[Comment]
    shown: bool = False  # taken over from human.md, where an older version kept them


@dataclass(frozen=True, kw_only=True)
class FeedbackWritten(_Record):
    """The words of the last verdict, feedback or comment stand in human.md."""

    type: Literal["feedback_written"] = "feedback_written"


@dataclass(frozen=True, kw_only=True)
class Moved(_Record):
    """The runner moved the task to another phase (or the same one once more: a new round of it)."""

    type: Literal["moved"] = "moved"
    path: list[tuple[str, int]]
    steps: int
    phase: str
    looped: str = ""  # the agent's reason, where it started the workflow again
    claimed: list[str] = field(default_factory=list)  # as of Begun: the documents are not those that were reviewed


@dataclass(frozen=True, kw_only=True)
class WaitStarted(_Record):
    """A wait with its deadline, on the wall clock and on the clock of this boot."""

    type: Literal["wait_started"] = "wait_started"
    kind: WaitKind
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
    """What a human told the agent, out of the inbox. Its file may go once this is on disk and in human.md."""

    type: Literal["steer_taken"] = "steer_taken"
    id: str
    text: str
    heading: str = ""  # in human.md; an older version did not write it there


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
class OversightSet(_Record):
    """How often the human wants to be asked."""

    type: Literal["oversight_set"] = "oversight_set"
    oversight: Oversight


@dataclass(frozen=True, kw_only=True)
class StartedWith(_Record):
    """What the human chose for this task, under the names of the options. None: nothing was chosen.

    Budgets, oversight, the worktree and the workflow have records of their own.
    """

    type: Literal["started_with"] = "started_with"
    agent: str | None = None
    agent_args: tuple[str, ...] | None = None
    mode: Literal["tui", "stream"] | None = None
    settings: tuple[str, ...] | None = None
    setup: str | None = None
    hours: str | None = None
    sandbox: Literal["on", "offline", "off"] | None = None
    sandbox_write: tuple[str, ...] | None = None
    breakers: tuple[str, ...] | None = None
    reflect_every: int | None = None
    session_timeout: float | None = None
    retries: int | None = None
    retry_wait: float | None = None
    outage: float | None = None
    keep_events: int | None = None

    def chosen(self) -> dict[str, Any]:
        """What was chosen, by the names of the options."""
        ours = {each.name for each in fields(_Record)} | {"type"}
        return {name: value for name, value in vars(self).items() if name not in ours and value is not None}

    def as_typed(self) -> list[str]:
        """The same as words of a command line."""
        words: list[str] = []
        for name, value in self.chosen().items():
            flag = {"settings": "--set", "breakers": "--breaker"}.get(name, f"--{name.replace('_', '-')}")
            values = value if isinstance(value, tuple) else (f"{value:g}" if isinstance(value, float) else value,)
            words += [f"{flag}={each}" for each in values if name != "agent_args"]
        return [*words, *(("--", *self.agent_args) if self.agent_args else ())]


@dataclass(frozen=True, kw_only=True)
class WorktreeSet(_Record):
    """The agent works in a git worktree on this branch from now on. Empty: in the project itself."""

    type: Literal["worktree_set"] = "worktree_set"
    branch: str
    folder: str  # in the worktree, where the agent works
    copied: list[str] = field(default_factory=list)  # from the project, below the worktree's top; a folder ends with /


@dataclass(frozen=True, kw_only=True)
class SetUp(_Record):
    """The command that prepares a new worktree was run there."""

    type: Literal["set_up"] = "set_up"
    command: str
    met: bool
    reason: str = ""
    tail: str = ""


@dataclass(frozen=True, kw_only=True)
class DefinitionFound(_Record):
    """The workflow with all it refers to, as its files say now. The task keeps the last one that was agreed to."""

    type: Literal["definition_found"] = "definition_found"
    workflow: str
    definitions: dict[str, Workflow]
    sources: dict[str, str] = field(default_factory=dict)  # built-in, user or project, by key
    digest: str = ""
    agreed: bool = True
    shown: str = ""  # what there is to agree to


@dataclass(frozen=True, kw_only=True)
class CriteriaFound(_Record):
    """What has to be true in the end, as the task's files say now."""

    type: Literal["criteria_found"] = "criteria_found"
    digest: str = ""
    criteria: list[Criterion] = field(default_factory=list)
    agreed: bool = True
    setup: str = ""  # the command that prepares a new worktree
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
class FilesMissing(_Record):
    """Which files the task cannot do without are gone or blank now. None of them, once they are back."""

    type: Literal["files_missing"] = "files_missing"
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LimitSet(_Record):
    """A limit the human typed for this task; one that adds to what was used up counts only until the next go-ahead."""

    type: Literal["limit_set"] = "limit_set"
    name: str
    value: float
    added: bool = False


@dataclass(frozen=True, kw_only=True)
class Trying(_Record):
    """What was left in a measured loop's folder. Exactly this tree is measured, and its row follows."""

    type: Literal["trying"] = "trying"
    tree: str
    summary: str = ""  # such as "2 files, +10 -3"; empty where nothing was changed
    hypothesis: str = ""
    seed: int = 0  # of the order of its runs


@dataclass(frozen=True, kw_only=True)
class RowAdded(_Record):
    """A row of a measured loop (core/lanes/model.py). Its rows are all that is known of a loop."""

    type: Literal["row"] = "row"
    row: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Finished(_Record):
    type: Literal["finished"] = "finished"
    accepted: list[str] = field(default_factory=list)  # criteria that are not met, and that a human accepted


@dataclass(frozen=True, kw_only=True)
class Followed(_Record):
    """A human took what was said on the pull request of finished work, so its last phase goes on."""

    type: Literal["followed"] = "followed"
    taken: dict[str, str]  # such as review/123, and the comment that says it here


@dataclass(frozen=True, kw_only=True)
class Replied(_Record):
    """What the agent answered was posted where it had been said."""

    type: Literal["replied"] = "replied"
    to: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class Cancelled(_Record):
    type: Literal["cancelled"] = "cancelled"


@dataclass(frozen=True, kw_only=True)
class AgentTakesOver(_Record):
    """Another agent works from the next session on, because the one before cannot for a while."""

    type: Literal["agent_takes_over"] = "agent_takes_over"
    agent: str
    after: str  # the agent before
    cause: str = ""


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
    | Gate
    | Answer
    | Undone
    | HandEdited
    | FeedbackTaken
    | Commented
    | FeedbackWritten
    | Moved
    | WaitStarted
    | WaitEnded
    | SteerTaken
    | RestartBegun
    | RunStarted
    | OversightSet
    | StartedWith
    | WorktreeSet
    | SetUp
    | DefinitionFound
    | CriteriaFound
    | Checked
    | FilesMissing
    | LimitSet
    | AgentTakesOver
    | Trying
    | RowAdded
    | Finished
    | Followed
    | Replied
    | Cancelled
    | Remark
)

_KINDS: dict[str, Any] = {kind.type: kind for kind in get_args(Record)}


def parse_record(line: bytes) -> Record:
    """One line of the journal. A ValueError says why it is not a record."""
    try:
        raw = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(raw, dict):
        raise ValueError("it is not an object")
    today = _from_older_version(raw)
    name = today.get("type")
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"there is no record of type {name!r}")
    record: Record = _reader(name).validate_json(line if today is raw else json.dumps(today), strict=True)
    return record


@cache
def _reader(name: str) -> Any:
    """Made when a kind of record is first met: most journals hold less than half of them."""
    from pydantic import TypeAdapter

    return TypeAdapter(_KINDS[name])


def _from_older_version(raw: dict[str, Any]) -> dict[str, Any]:
    """A record as version 0.1 wrote it, in today's form."""
    match raw.get("type"):
        case "gate_opened" if "kind" in raw:
            fields = {name: value for name, value in raw.items() if name != "kind"}
            too_many_rounds = raw["kind"] == "stuck" and raw.get("onward") == "next"
            return {**fields, "reason": "rounds" if too_many_rounds else raw["kind"]}
        case "scored":  # the score chose how often the human was asked
            asked = "tool" if raw.get("shape") == "tool" or not raw.get("chosen") else "colleague"
            return {"type": "oversight_set", "n": raw.get("n", 0), "at": raw.get("at", ""), "oversight": asked}
    return raw
