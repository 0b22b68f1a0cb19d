"""What the journal says about the rounds of each review."""

from __future__ import annotations

from marathon.core.budgets import Usage
from marathon.core.comments import Comment
from marathon.core.records import (
    Answer,
    Begun,
    Gate,
    HandEdit,
    HandEdited,
    Record,
    RunStarted,
    SessionEnded,
    SessionStarted,
)
from marathon.core.rounds import comments_on, rounds_of


def session(phase: str, number: int, cost: float = 0.25) -> list[Record]:
    started = SessionStarted(iteration=number, phase=phase, agent="x")
    return [started, SessionEnded(ending="ended", seconds=60, usage=Usage(cost=cost))]


def edit(gate: str, *names: str) -> HandEdited:
    edits = [HandEdit(name=name, kept=f"kept/{name}", digest="", diff="") for name in names]
    return HandEdited(gate=gate, edits=edits)


def test_versions_of_agent_and_human_with_what_came_of_them() -> None:
    records: list[Record] = [
        Begun(phase="plan"),
        *session("plan", 1),
        Gate(reason="question", token="q", phase="plan"),
        Answer(choice="answer", text="42"),
        *session("plan", 2),
        Gate(reason="review", token="a", phase="plan", at="t1"),
        edit("a", "plan.md"),
        edit("a", "plan.md", "research.md"),
        Answer(choice="redo", phase="plan", text="smaller"),
        *session("plan", 3, 0.5),
        Gate(reason="review", token="b", phase="plan", comments=2),
        Answer(choice="continue", by="auto"),
        *session("implement", 4),
        Gate(reason="limit", token="c", phase="implement"),
        edit("c", "plan.md"),
        Answer(choice="continue"),
        RunStarted(run=2, path=[], phase="plan"),
        *session("plan", 1),
        Gate(reason="review", token="d", phase="plan", comments=2),
    ]
    told = [(each.run, each.phase, each.label, each.file, each.sessions, each.cost) for each in rounds_of(records)]
    assert told == [
        (1, "plan", "1", "", 2, 0.5),
        (1, "plan", "1h", "plan.md", 0, 0),
        (1, "plan", "1h2", "research.md", 0, 0),
        (1, "plan", "2", "", 1, 0.5),
        (1, "implement", "1h", "plan.md", 0, 0),
        (2, "plan", "1", "", 1, 0.25),
    ]
    first, _, _, second, _, last = rounds_of(records)
    assert (first.feedback, first.verdict, first.seconds, first.looked_at) == ("smaller", "redo", 120, True)
    assert (second.verdict, second.looked_at) == ("continue", False)
    assert (last.verdict, last.looked_at) == ("", False)
    comments = [Comment(f"c{number}", "x") for number in (1, 2, 3)]
    found = comments_on(rounds_of(records), comments)
    assert [[one.id for one in found[each]] for each in (first, second, last)] == [["c1", "c2"], [], ["c3"]]
