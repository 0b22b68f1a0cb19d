"""Every gate fits its window, whatever there is to say, and keeps what it must show."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from prompt_toolkit.utils import get_cwidth

from marathon.core.comments import Comment, Reply, Standing
from marathon.core.courses.where import Where
from marathon.core.gates import POLICIES, agrees, offers
from marathon.core.records import CheckResult, Gate, Rating, Reason
from marathon.surfaces.base import Commenting, GateView, Sight
from marathon.surfaces.menu import gate_pages, options_of, with_all_keys

ROWS = 24
TASK = Path("docs/tasks/20260202-143000-move-the-session-store")
LONG = "It was looked into, and more than one thing was found that has to be decided before this can go on. " * 6


def commenting() -> Commenting:
    return Commenting("plan.md", lambda: "", lambda *of_it: Comment("c1", "x"), lambda: [])


def comments(number: int) -> list[Standing]:
    answers = [Reply("Because the old one is kept until the new one has proved itself, which takes a week or two.")]
    return [
        Standing(Comment(f"c{nth}", LONG, "must" if nth % 2 else "note"), (1, 1), answers[0] if nth % 3 else None)
        for nth in range(1, number + 1)
    ]


def crowded(reason: Reason, **of_gate: Any) -> GateView:
    """A gate with as much to say as there ever is."""
    given: dict[str, Any] = {
        "phase": "plan",
        "message": LONG,
        "note": LONG,
        "onward": "next",
        "back_to": "research",
        "about": ["the tests of the whole project pass", "nothing is slower than before", "docs", "more"],
        "digest": "d",
        "more": "--max-cost +10",
        "writes": [LONG, LONG],
        "put_back": ["git checkout 1234567 -- some/file/of/the/project.py && git apply some.patch"] * 3,
        "undoable": True,
    }
    where = Where(
        None, next_phase="implement", phases=("research", "plan", "implement", "review", "ship"), can_loop=True
    )
    gate = Gate(reason=reason, **{**given, **of_gate})
    return GateView(
        gate=gate,
        offers=offers(gate, where),
        task=TASK,
        iteration=12,
        document=TASK / "plan.md",
        at_hand=TASK / "plan.md",
        sights=[
            Sight("v", "read", "document", str, "always"),
            Sight("d", "changes", "diff", str, "always"),
            *(Sight(key, label, "diff", str) for key, label in (("g", "code"), ("t", "log"), ("o", "9 comments"))),
        ],
        commenting=commenting(),
        total="$12.31 of $20.00, 3h 12m of 8h of working time, 12.4M of 20M tokens",
        summary="round 2 · 4m · $0.31 · +31 −12 since round 1 · 3 of 9 comments answered · 9 steps · code: 4 files",
        comments=comments(9),
        breadcrumb="Release > Review [2/3] > 🔍 Static Analysis [1/2]",
        resume=f"pi-marathon --task {TASK}",
        checks=[CheckResult(name=f"criterion number {n}", met=n % 2 > 0, reason="exit code 1") for n in range(9)],
        rating=Rating(points=6, missing=["where to work", "what not to touch", "how it is tested"]),
        log=TASK / ".marathon/runs/001/events/012.jsonl",
        denied=LONG,
        put_back=str,
        leave=lambda: None,
    )


def rows_of(shown: str, columns: int) -> int:
    return sum(max(1, -(-get_cwidth(line) // columns)) for line in shown.split("\n"))


@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("reason", POLICIES)
def test_every_gate_fits_24_rows_and_keeps_what_answers_it(reason: Reason, columns: int) -> None:
    view = crowded(reason)
    *earlier, shown = gate_pages(view, columns, ROWS)
    assert not earlier or POLICIES[reason].whole_message, "only what is agreed to or answered has pages"
    assert all(rows_of(page, columns) < ROWS for page in (*earlier, shown)), "the cursor has a row of its own"
    assert [line for line in shown.split("\n") if get_cwidth(line) > columns] == []
    words = " ".join("\n".join([*earlier, shown]).split())
    if agrees(view.gate):
        assert "? [y/n]" in words
        assert "MARATHON PAUSED" not in words
    else:
        assert "MARATHON PAUSED" in words
        assert "Phase: plan | Iteration: 12 | Total: $12.31 of $20.00" in words
        own = [each for each in view.offers if each.choice not in ("loop", "oversight", "cancel")]
        if "back" in POLICIES[reason].keys:
            own = [each for each in own if not each.key.isdigit()]
        hidden = [each.key for each in own if f"[{'Enter' if each.key == 'enter' else each.key}]" not in words]
        assert hidden == [], "its own offers are always in sight"
    assert str(view.document) in words
    for key in ("[v] read", "[d] changes", "[c] comment", "[e] edit", "[w] browser", "[?] more"):
        assert key in words
    assert "[x]" not in words, "that is behind ?"
    every = with_all_keys(view, columns, ROWS)
    missing = [key for key in options_of(view) if f"[{'Enter' if key == 'enter' else key}]" not in every]
    assert missing == []
    assert all(each.name in every for each in view.checks) or agrees(view.gate), "nothing that was shortened is lost"


def test_a_review_at_80_columns() -> None:
    gate = Gate(reason="review", phase="plan", note="Plan ready - 9 steps to review", onward="next")
    where = Where(None, next_phase="implement", phases=("research", "plan", "implement"))
    answered = Standing(Comment("c1", "Why a new table?"), (1, 1), Reply("The old one is read by the nightly job."))
    view = GateView(
        gate=gate,
        offers=offers(gate, where),
        task=TASK,
        iteration=3,
        document=TASK / "plan.md",
        at_hand=TASK / "plan.md",
        sights=[Sight("v", "read", "document", str, "always"), Sight("d", "changes", "diff", str, "never")],
        commenting=commenting(),
        total="$1.90 of $10.00",
        summary="round 2 · 4m · +31 −12 since round 1 · 1 of 1 comment answered · 9 steps",
        comments=[answered],
    )
    assert gate_pages(view, 80, ROWS) == [
        """
╔══════════════════════════════════════════════════════════════════╗
║  ⏸️  MARATHON PAUSED                                              ║
╚══════════════════════════════════════════════════════════════════╝

Phase: plan | Iteration: 3 | Total: $1.90 of $10.00
round 2 · 4m · +31 −12 since round 1 · 1 of 1 comment answered · 9 steps
Note: Plan ready - 9 steps to review
✓ c1: Why a new table? → The old one is read by the nightly job.
Review the output: docs/tasks/20260202-143000-move-the-session-store/plan.md

  [Enter]  Continue to next phase (implement)
  [f]      Add feedback first (writes to human.md)
  [r]      Send back: say why, plan is done again
  [q]      Quit marathon
  [v] read  [c] comment  [e] edit  [w] browser  [?] more"""
    ]


@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("reason", ["checks", "question"])
def test_what_is_agreed_to_or_answered_is_shown_whole_in_pages(reason: Reason, columns: int) -> None:
    commands = [f"- check {nth}: `make check-{nth} {'x' * (nth * 7 % 90)}`" for nth in range(60)]
    message = "\n".join(["These commands will check the work:", *commands, "z" * 5000])
    pages = gate_pages(crowded(reason, message=message), columns, ROWS)
    assert len(pages) > 2
    assert all(rows_of(page, columns) < ROWS for page in pages)
    words = " ".join("\n".join(pages).split())
    assert [nth for nth in range(60) if f"make check-{nth} " not in words] == []
    assert "".join(pages).count("z") >= 5000
    assert all("[y/n]" not in page and "Answer the question" not in page for page in pages[:-1])


def test_every_reason_is_in_the_table() -> None:
    assert set(POLICIES) == set(get_args(Reason))
