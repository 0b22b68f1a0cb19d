"""Everything an agent may do in a session and a human may do at a gate or in another shell, as data to draw from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from marathon.agents.base import Outcome
from marathon.core.courses.workflow import parse_workflow

FLAT = {
    "name": "Flat",
    "phases": [
        {"id": "research", "name": "Research", "brief": "-", "output": "research.md", "gate": True},
        {"id": "plan", "name": "Plan", "brief": "-", "output": "plan.md", "gate": True},
        {"id": "implement", "name": "Implement", "brief": "-", "output": "result.md", "repeats": True},
    ],
}
NESTED = {
    "name": "Nested",
    "phases": [
        {"id": "draft", "name": "Draft", "brief": "-", "output": "draft.md", "gate": True},
        {"workflow": "inner"},
        {"id": "ship", "name": "Ship", "brief": "-", "gate": True},
    ],
}
INNER = {
    "name": "Inner",
    "loopable": False,
    "phases": [
        {"id": "check", "name": "Check", "brief": "-"},
        {"id": "mend", "name": "Mend", "brief": "-", "output": "mend.md", "gate": True},
    ],
}
DEFINITIONS = {
    "flat": parse_workflow("flat", FLAT),
    "nested": parse_workflow("nested", NESTED),
    "inner": parse_workflow("inner", INNER),
}
ENDS = {
    "well": Outcome("ended", seconds=1.0),
    "crash": Outcome("crashed", "exit code 1"),
    "no key": Outcome("crashed", "no key", permanent=True),
    "timeout": Outcome("timeout"),
    "closed": Outcome("left"),
    "terminated": Outcome("interrupted", "SIGTERM"),
    "stopped": Outcome("stopped"),
}
GARBAGE = [
    b"",
    b"{",
    b"\0\0\0",
    b"\xff\xfe{}",
    b"null",
    b'{"state": "paused"}',
    b'{"state": "paused", "phase": "plan", "phase": "plan"}',
    b'```json\n{"state": "paused", "phase": "plan"}\n```',
]


@dataclass(frozen=True)
class Propose:
    """STATE.json as a state and a phase; None is the phase of the session, "next" the one after it."""

    state: Literal["running", "paused", "completed"]
    phase: str | None = None


@dataclass(frozen=True)
class Leave:
    """STATE.json as bytes, or as something that is no file."""

    what: bytes | Literal["nothing", "a link", "a folder"]


@dataclass(frozen=True)
class Edit:
    """human.md by hand, somewhere between its beginning (0) and its end (1)."""

    how: Literal["append", "insert", "cut", "truncate", "remove"]
    where: float = 0


@dataclass(frozen=True)
class Verdict:
    """An answer from another shell: to the gate that is open, or too late, to one that is not."""

    choice: Literal["continue", "redo", "loop", "answer", "cancel"]
    phase: str | None = None
    late: bool = False


@dataclass(frozen=True)
class Message:
    """pi-marathon tell."""


@dataclass(frozen=True)
class Stop:
    now: bool


@dataclass(frozen=True)
class Do:
    """output: writes the phase's file. work: any other. ask, wait: through the mailbox. hear: takes new steering."""

    what: Literal["output", "empty output", "lose", "work", "ask", "wait", "hear"]


@dataclass(frozen=True)
class Session:
    """What happens while the agent lives, how it ends, and after how many acts the runner is killed, if it is."""

    acts: tuple[Any, ...]
    end: str = "well"
    killed_after: int | None = None


@dataclass(frozen=True)
class Say:
    """At the gate, after something happened elsewhere."""

    choice: Literal["continue", "redo", "loop", "answer", "cancel", "quit"]
    phase: str | None = None
    words: bool = False
    meanwhile: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Course:
    """One start of the runner: what came before it, what happens in it, and where it is killed, if it is."""

    before: tuple[Any, ...] = ()
    seconds: int = 1
    reboot: bool = False
    sessions: tuple[Session, ...] = ()
    says: tuple[Say, ...] = ()
    feedback: bool = False
    auto_approve: bool = False
    max_iterations: int = 100
    at_a_wait: Literal["over", "killed", "terminated"] = "over"
    dies: int | str | None = None  # at this change, or before or after a record of this kind
    torn: float = 0  # how much of that record is on disk


_PHASES = ["research", "plan", "implement", "draft", "check", "mend", "ship", "done", "nowhere"]
_phases = st.none() | st.sampled_from(["next", *_PHASES])
_edits = st.builds(Edit, st.sampled_from(["append", "append", "insert", "cut", "truncate", "remove"]), st.floats(0, 1))
_verdicts = st.builds(
    Verdict,
    st.sampled_from(["continue", "continue", "redo", "loop", "answer", "cancel"]),
    _phases,
    st.sampled_from([False, False, False, True]),
)
_elsewhere = st.one_of(st.builds(Message), _edits, _verdicts)
_some_elsewhere = st.lists(_elsewhere, max_size=2).map(tuple)
proposals = st.builds(Propose, st.sampled_from(["running", "paused", "completed"]), _phases)
leavings = st.builds(Leave, st.sampled_from([*GARBAGE, "nothing", "a link", "a folder"]))
_acts = st.one_of(
    st.builds(Do, st.sampled_from(["output", "output", "empty output", "lose", "work", "ask", "wait", "hear"])),
    proposals,
    leavings,
    _elsewhere,
    st.builds(Stop, st.booleans()),
)
_usual = [
    *[Session((Do("output"), Propose("paused")))] * 3,
    Session((Do("output"), Propose("running", "next"))),
    Session((Do("output"), Propose("completed", "done"))),
    Session((Do("work"), Propose("running"))),
    Session((Do("output"), Propose("completed", "done")), killed_after=2),
    Session((Propose("paused"),)),
    Session((Leave(b"{"),)),
    Session((Do("ask"),)),
    Session((Do("wait"),)),
    Session((Do("work"),), "crash"),
    Session(()),
]
_sessions = st.sampled_from(_usual) | st.builds(
    Session,
    st.lists(_acts, max_size=4).map(tuple),
    st.sampled_from([*["well"] * 6, *ENDS]),
    st.sampled_from([None, None, None, 0, 1, 2, 4]),
)
_replies = st.builds(Say, st.just("continue"), words=st.booleans()) | st.builds(
    Say,
    st.sampled_from(["continue", "redo", "redo", "loop", "answer", "cancel", "quit"]),
    _phases,
    st.booleans(),
    _some_elsewhere,
)
# Where a promise hangs by a thread.
_MOMENTS = [
    *["before session_started", "before session_ended", "after session_ended"],
    *["before gate_opened", "after gate_opened", "before gate_answered", "after gate_answered"],
    *["before feedback_written", "before moved", "after moved", "after steer_taken", "after wait_started"],
    *["before restart_begun", "after restart_begun", "before run_started", "after run_started", "before finished"],
]
courses = st.builds(
    Course,
    before=_some_elsewhere,
    seconds=st.sampled_from([0, 1, 86400, -3600]),
    reboot=st.booleans(),
    sessions=st.lists(_sessions, min_size=1, max_size=6).map(tuple),
    says=st.lists(_replies, min_size=1, max_size=4).map(tuple),
    feedback=st.sampled_from([False, False, False, True]),
    auto_approve=st.sampled_from([False, False, True]),
    max_iterations=st.sampled_from([100, 100, 2]),
    at_a_wait=st.sampled_from(["over", "over", "killed", "terminated"]),
    dies=st.none() | st.sampled_from(_MOMENTS) | st.integers(1, 60),
    torn=st.sampled_from([0, 0.2, 0.5, 0.8, 1]),
)
