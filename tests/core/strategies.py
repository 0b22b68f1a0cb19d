"""Hypothesis strategies: definitions sound and unsound, ends of sessions, and whole journals."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from marathon.core.courses.workflow import Definitions, Workflow, places
from marathon.core.records import (
    Answer,
    Cancelled,
    FeedbackWritten,
    FilesMissing,
    Finished,
    Gate,
    HumanMark,
    Moved,
    Proposal,
    Record,
    Remark,
    RestartBegun,
    RunStarted,
    SessionEnded,
    SessionStarted,
    SteerTaken,
    Torn,
    WaitAsked,
    WaitEnded,
    WaitStarted,
)
from tests.core.making import workflow

KEYS = ("one", "two", "three", "four", "five")
IDS = ("a", "b", "c", "d")


_PHASES: list[dict[str, Any]] = [
    {"id": one, "gate": gate, "repeats": repeats, **output}
    for one in IDS
    for gate in (False, True)
    for repeats in (False, True)
    for output in ({}, {"output": f"{one}.md"})
]


@st.composite
def workflows(draw: st.DrawFn, key: str, referable: tuple[str, ...]) -> Workflow:
    """A workflow by itself, which may refer to any of these keys; no phase id twice."""
    references = [f"@{other}" for other in referable]
    possible: list[str | dict[str, Any]] = [*_PHASES, *references * 4]
    entries: list[str | dict[str, Any]] = []
    for entry in draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4)):
        if isinstance(entry, str) or entry["id"] not in [one["id"] for one in entries if isinstance(one, dict)]:
            entries.append(entry)
    return workflow(key, *entries, loopable=draw(st.booleans()))


@st.composite
def any_definitions(draw: st.DrawFn) -> dict[str, Workflow]:
    """Definitions as they may lie on a disk: with cycles, with references to nothing."""
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=len(KEYS)))
    return {key: draw(workflows(key, (*KEYS, "nowhere"))) for key in keys}


@st.composite
def sound_definitions(draw: st.DrawFn) -> dict[str, Workflow]:
    """Definitions that refer only to later ones; the first key is the one to enter."""
    number = draw(st.integers(1, 4))
    return {KEYS[place]: draw(workflows(KEYS[place], KEYS[place + 1 : number])) for place in range(number)}


_WORDS = st.text(max_size=20)
_SECONDS = st.floats(0, 5000)


def endings(ids: tuple[str, ...]) -> st.SearchStrategy[SessionEnded]:
    """Everything a session can leave behind, the absurd included."""
    proposal = st.builds(
        Proposal,
        state=st.sampled_from(["running", "paused", "completed"]),
        phase=st.sampled_from([*ids, "done"]),
        note=st.none() | _WORDS,
    )
    read = st.tuples(proposal, st.none()) | st.tuples(st.none(), st.just("it is empty"))
    return st.builds(
        lambda read, **more: SessionEnded(proposal=read[0], invalid=read[1], **more),
        read=read,
        ending=st.sampled_from(["ended"] * 3 + ["crashed", "timeout", "left", "interrupted", "stopped", "lost"]),
        cause=_WORDS,
        seconds=_SECONDS,
        output=st.sampled_from(["fresh", "stale", "missing"]),
        changed=st.booleans(),
        wait=st.none() | st.none() | st.builds(WaitAsked, seconds=st.floats(60, 3600), reason=_WORDS),
        question=st.none() | st.none() | _WORDS,
        permanent=st.sampled_from([False, False, True]),
        outage=st.sampled_from([False, False, True]),
        retry_after=st.none() | st.none() | _SECONDS,
        steered=st.lists(st.sampled_from(["1", "2", "3"]), max_size=1),
    )


def verdicts(ids: tuple[str, ...], choices: tuple[str, ...] = ("continue", "redo", "loop", "answer", "accept")) -> Any:
    return st.builds(
        Answer,
        choice=st.sampled_from(choices),
        phase=st.none() | st.sampled_from(ids),
        text=_WORDS,
        heading=_WORDS,
        by=st.sampled_from(["terminal", "command", "auto"]),
    )


def any_record(definitions: Definitions, key: str) -> st.SearchStrategy[Record]:
    """Any record but the first, in any order, whether or not a runner would write it there."""
    ids = tuple(phase.id for _, phase in places(definitions, key))
    phase = st.sampled_from(ids)
    kinds = st.sampled_from(
        [
            *["review", "output", "skipped", "back", "paused", "question", "failed", "left", "stuck", "invalid"],
            *["limit", "rounds", "missing"],
        ]
    )
    marks = st.builds(HumanMark, size=st.integers(0, 1000), digest=_WORDS)
    moves = st.builds(
        lambda place, steps: Moved(path=list(place[0]), steps=steps, phase=place[1].id),
        place=st.sampled_from(places(definitions, key)),
        steps=st.integers(0, 50),
    )
    restarts = st.builds(
        lambda place, run: RunStarted(run=run, path=list(place[0]), phase=place[1].id),
        place=st.just(places(definitions, key)[0]),
        run=st.integers(2, 5),
    )
    sessions = st.builds(
        SessionStarted,
        iteration=st.integers(1, 200),
        phase=phase,
        agent=st.just("rehearsal"),
        output_mark=st.none() | _WORDS,
        human=marks,
        steer=st.lists(st.sampled_from(["1", "2", "3"]), max_size=3),
        guidance=st.lists(_WORDS, max_size=2),
    )
    return st.one_of(
        sessions,
        endings(ids),
        st.builds(
            Gate,
            reason=kinds,
            token=st.just("t"),
            phase=phase,
            message=_WORDS,
            note=st.none() | _WORDS,
            onward=st.sampled_from(["next", "again"]),
            about=st.lists(st.sampled_from(["plan.md", "tests"]), max_size=1),
        ),
        verdicts(ids),
        moves,
        restarts,
        st.builds(
            WaitStarted,
            kind=st.sampled_from(["agent", "retry", "outage"]),
            seconds=_SECONDS,
            reason=_WORDS,
            until=_SECONDS,
            boot=_WORDS,
            until_boot=_SECONDS,
        ),
        st.builds(WaitEnded, early=st.booleans()),
        st.builds(SteerTaken, id=st.sampled_from(["1", "2", "3"]), text=_WORDS),
        st.builds(
            RestartBegun,
            files=st.lists(st.tuples(_WORDS, _WORDS), max_size=2),
            heading=_WORDS,
            text=_WORDS,
        ),
        st.builds(FilesMissing, names=st.lists(st.sampled_from(["plan.md", "instructions.md"]), max_size=2)),
        st.builds(Torn, bytes=st.integers(1, 1000)),
        st.builds(Remark, text=_WORDS),
        st.just(FeedbackWritten()),
        st.just(Finished()),
        st.just(Cancelled()),
    )
