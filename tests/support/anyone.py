"""Everything an agent may do in a session and a human may do at a gate or in another shell, as data to draw from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from marathon.agents.base import Outcome
from marathon.core.workflow import parse_workflow

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
    """pi-marathon steer."""


@dataclass(frozen=True)
class Stop:
    now: bool


@dataclass(frozen=True)
class Do:
    """output: writes the phase's file. work: any other. ask, wait: through the mailbox. hear: takes new steering."""

    what: Literal["output", "empty output", "work", "ask", "wait", "hear"]


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


_PHASES = ["research", "plan", "implement", "draft", "check", "mend", "ship", "done", "nowhere"]
_phases = st.none() | st.sampled_from(["next", *_PHASES])
_edits = st.builds(Edit, st.sampled_from(["append", "append", "insert", "cut", "truncate", "remove"]), st.floats(0, 1))
_verdicts = st.builds(
    Verdict,
    st.sampled_from(["continue", "redo", "loop", "answer", "cancel"]),
    _phases,
    st.sampled_from([False, False, True]),
)
elsewhere = st.one_of(st.builds(Message), _edits, _verdicts)
proposals = st.builds(Propose, st.sampled_from(["running", "paused", "completed"]), _phases)
leavings = st.builds(Leave, st.sampled_from([*GARBAGE, "nothing", "a link", "a folder"]))
_acts = st.one_of(
    st.builds(Do, st.sampled_from(["output", "output", "empty output", "work", "ask", "wait", "hear"])),
    proposals,
    leavings,
    elsewhere,
    st.builds(Stop, st.booleans()),
)
_good = [
    Session((Do("output"), Propose("paused"))),
    Session((Do("output"), Propose("running", "next"))),
    Session((Do("output"), Propose("completed", "done"))),
    Session((Do("work"), Propose("running"))),
]
sessions = st.sampled_from(_good) | st.builds(
    Session,
    st.lists(_acts, max_size=4).map(tuple),
    st.sampled_from([*["well"] * 6, *ENDS]),
    st.sampled_from([None, None, None, 0, 1, 2, 4]),
)
replies = st.builds(Say, st.just("continue"), words=st.booleans()) | st.builds(
    Say,
    st.sampled_from(["continue", "redo", "redo", "loop", "answer", "cancel", "quit"]),
    _phases,
    st.booleans(),
    st.lists(elsewhere, max_size=2).map(tuple),
)
# A number of changes, or the moment before or after a record is written: there every promise hangs by a thread.
_RECORDS = [
    "session_started",
    "session_ended",
    "gate_opened",
    "gate_answered",
    "feedback_written",
    "moved",
    "wait_started",
    "steer_taken",
    "restart_begun",
    "run_started",
    "remark",
    "cancelled",
    "finished",
]
_moments = st.sampled_from([f"{when} {kind}" for kind in _RECORDS for when in ("before", "after")])
deaths = st.one_of(st.none(), st.none(), _moments, _moments, st.integers(1, 60))
