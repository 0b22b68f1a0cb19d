"""A course of one's own: written here, run by the real loop on real files, without a change to any other file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import Phase
from marathon.core.life import Life
from marathon.core.records import Begun, Gate, Record, SessionEnded, SessionStarted
from marathon.core.steps import Finish, Step
from marathon.store.journal import read_journal
from tests.support.anyone import Do, Propose, Say, Session
from tests.support.inside import Ran, Start, run
from tests.support.mortal import Life as RunnerLife
from tests.support.witness import Witness


class Thrice(Course):
    """Runs three sessions of the same work, then finishes. A crash does not count as one of them."""

    name = "thrice"
    work = Phase(id="work", name="Work", brief="Do a part of it.")

    def begin(self) -> Begun:
        return Begun(course=self.name, phase="work")

    def apply(self, before: Life, now: Life, record: Record) -> Any:
        done = before.own or 0
        return done + 1 if isinstance(record, SessionEnded) and record.ending == "ended" else done

    def where(self, life: Life) -> Where:
        return Where(self.work, phases=("work",), breadcrumb=f"Work [{life.own}/3]")

    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        return Finish() if life.own == 3 else None


PART = Session((Do("work"), Propose("running", "work")))


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness("flat")
    yield made
    made.close()


def started(witness: Witness, *plans: Session, says: tuple[Say, ...] = (), **limits: Any) -> Ran:
    life = RunnerLife(witness.folder, None)
    agent, surface = witness.agent(list(plans), life), witness.ask(list(says))
    start = Start(agent, surface, life, lambda event: None, limits=Limits(retry_wait=0, **limits))
    return run(witness.place, start, Thrice())


def sessions(witness: Witness) -> list[str]:
    return [record.phase for record in read_journal(witness.task.journal_path) if isinstance(record, SessionStarted)]


def test_three_sessions_and_it_is_finished(witness: Witness) -> None:
    ran = started(witness, PART, PART, PART, PART)
    assert ran.code == 0
    assert ran.life is not None
    assert (ran.life.finished, ran.life.own, sessions(witness)) == (True, 3, ["work"] * 3)
    assert '"completed"' in (witness.task.folder / "STATE.json").read_text()


def test_it_has_retries_limits_gates_and_recovery_like_any_other(witness: Witness) -> None:
    crash = Session((Do("work"),), "crash")
    assert started(witness, PART, crash, PART, max_iterations=3).code == 4, "the limit comes before the third part"
    killed = Session((Do("work"),), killed_after=1)
    assert started(witness, killed, says=(Say("continue"),), max_iterations=3).code is None
    assert started(witness, PART, says=(Say("continue"),)).code == 0
    gates = [record.reason for record in read_journal(witness.task.journal_path) if isinstance(record, Gate)]
    assert gates == ["limit"]
