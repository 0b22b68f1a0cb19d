"""What status says of a task, from what its journal holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marathon.core.budgets import Usage
from marathon.core.courses.phases import Phases
from marathon.core.courses.where import Where
from marathon.core.gates import offers
from marathon.core.life import Life
from marathon.core.records import (
    Answer,
    Begun,
    Cancelled,
    Finished,
    Gate,
    Reason,
    Record,
    RunStarted,
    SessionEnded,
    SessionStarted,
    Undone,
    WaitStarted,
)
from marathon.core.steps import Now
from marathon.runner.status_query import Known, condition_of, gate_facts, status_of, waits_for
from marathon.show.program import as_typed
from marathon.show.status import Status, status_lines
from marathon.store.task import Task
from tests.core.making import RPI, begun, fold

BEGUN = Begun(workflow="w", path=[("w", 0)], phase="one")
STARTED = SessionStarted(iteration=1, phase="one", agent="pi")
ENDED = SessionEnded(ending="ended", seconds=65)
WAIT = WaitStarted(kind="agent", seconds=300, reason="CI", until=1300.0, boot="b", until_boot=400.0)
NOW = Now(wall=5000.0, boot="b", since_boot=220.0)


def gate(reason: Reason = "review", message: str = "") -> Gate:
    return Gate(reason=reason, token="t", phase="one", message=message)


def progress(*records: Record) -> Life:
    return fold([BEGUN, *records], {})


@pytest.mark.parametrize(
    ("records", "without_a_runner", "with_one"),
    [
        ([], "ready", "running"),
        ([STARTED], "interrupted", "running"),
        ([STARTED, ENDED], "ready", "running"),
        ([STARTED, ENDED, gate()], "gate", "gate"),
        ([STARTED, ENDED, gate(), Answer(choice="continue")], "ready", "running"),
        ([STARTED, ENDED, WAIT], "waiting", "waiting"),
        ([STARTED, ENDED, Finished()], "completed", "completed"),
        ([STARTED, ENDED, gate(), Cancelled()], "cancelled", "cancelled"),
    ],
)
def test_one_word_for_where_a_task_stands(records: list[Record], without_a_runner: str, with_one: str) -> None:
    assert condition_of(progress(*records), running=False) == without_a_runner
    assert condition_of(progress(*records), running=True) == with_one


def test_a_task_without_a_journal_is_new() -> None:
    assert condition_of(Life(), running=False) == "new"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (gate(), "your review of one"),
        (gate("question", "Which\n DB?\x1b[2J"), "your answer: Which DB?"),
        (gate("failed", "The agent failed."), "you: The agent failed."),
        (WAIT, "CI (3m 00s left)"),
        (STARTED, ""),
    ],
)
def test_what_it_waits_for(record: Record, words: str) -> None:
    assert waits_for(progress(record), NOW) == words


def test_only_what_was_undone_in_this_run_can_be_brought_back(tmp_path: Path) -> None:
    task, course = Task(tmp_path), Phases(RPI)

    def put_back(*records: Record) -> list[str]:
        known = Known(task, tmp_path, tmp_path, records, course, fold(records))
        return list(status_of(known, "x").put_back)

    undone: list[Record] = [begun("research"), Gate(reason="review", token="t", phase="research", put_back=["a"])]
    undone += [Undone(files=["b.py"], put_back=["b"]), Undone(files=["b.py"], put_back=["b"])]
    assert put_back(*undone) == ["a", "b"]
    assert put_back(*undone, RunStarted(run=2, path=[("rpi", 0)], phase="research")) == []


def test_an_open_gate_is_told_with_the_offers_that_a_terminal_shows() -> None:
    opened = gate("paused", "Why?")
    offered = offers(opened, Where(None, phases=("one", "two")))
    facts = gate_facts(opened, offered, "docs/tasks/one")
    assert (facts["reason"], facts["token"], facts["phase"], facts["message"]) == ("paused", "t", "one", "Why?")
    assert [(each["key"], each["choice"], each["phase"]) for each in facts["offers"]] == [
        ("enter", "continue", None),
        ("f", "continue", None),
        ("r", "redo", "one"),
        ("1", "redo", "one"),
        ("2", "redo", "two"),
        ("m", "oversight", None),
        ("x", "cancel", None),
        ("q", "quit", None),
    ]
    assert facts["offers"][4]["command"] == as_typed('pi-marathon redo docs/tasks/one --phase two -m "why"')


def test_everything_known_is_a_line_and_nothing_else_is() -> None:
    assert status_lines(Status("docs/tasks/one", "new")) == ["Task:      docs/tasks/one", "State:     new"]
    full = Status(
        task="docs/tasks/one",
        condition="gate",
        phase="plan",
        run=2,
        iteration=7,
        seconds=7500,
        usage=Usage(turns=31, toolCalls=44, input=3000, output=2100, cacheRead=235_000, cost=1.2, model="m"),
        waits_for="your review of plan",
        note="done",
        runner="pid 7 on here, for 3s",
        steering=2,
        sessions=[
            {"iteration": 7, "phase": "plan", "seconds": 65, "usage": None, "ending": "crashed", "cause": "exit code 1"}
        ],
        answer_with=["pi-marathon approve docs/tasks/one"],
        resume="pi-marathon --task docs/tasks/one",
    )
    assert status_lines(full) == [
        "Task:      docs/tasks/one",
        "State:     gate",
        "Phase:     plan",
        "Run:       2, iteration 7",
        "Worked:    2h 05m",
        "Used:      $1.20, 240.1k tokens (3.0k in, 2.1k out, 235.0k cached), 31 turns, 44 tool calls, m",
        "Waits for: your review of plan",
        "Note:      done",
        "Runner:    pid 7 on here, for 3s",
        "Steering:  2 messages for the next session",
        "Sessions:",
        "     7  plan           1m 05s  crashed  exit code 1",
        "Answer with one of:",
        "  pi-marathon approve docs/tasks/one",
        "Continue:  pi-marathon --task docs/tasks/one",
    ]


def test_no_line_carries_anything_a_terminal_acts_on() -> None:
    hostile = "x\x1b[2J\x1b]0;t\x07\x9b5n\r\x08"
    session = {"iteration": 1, "phase": hostile, "seconds": 1, "usage": None, "ending": hostile, "cause": hostile}
    status = Status(
        hostile, hostile, note=hostile, breadcrumb=hostile, waits_for=hostile, resume=hostile, sessions=[session]
    )
    assert all(line.isprintable() for line in status_lines(status))


def test_a_narrow_window_breaks_lines_at_words_and_no_command() -> None:
    said = "The findings are complete and the plan follows from them, step by step, as it was asked for."
    status = Status(
        task="docs/tasks/20260202-143000-a-task-with-a-name-that-takes-a-row",
        condition="gate",
        note=said,
        checks=[{"name": said, "met": None, "reason": "", "evidence": ""}],
        answer_with=[f'pi-marathon redo docs/tasks/one -m "{said}"'],
        resume=f"pi-marathon --task docs/tasks/one -- agent '{said}'",
    )
    whole, rows = status_lines(status), status_lines(status, 60)
    assert len(whole) < len(rows)
    assert " ".join(" ".join(rows).split()) == " ".join(" ".join(whole).split()), "no word is broken or lost"
    assert [row for row in rows if len(row) > 60] == [whole[0], *(row for row in whole if "pi-marathon" in row)]
    at = rows.index(next(row for row in rows if row.startswith("Note:")))
    assert re.match(r" {11}\S", rows[at + 1])
