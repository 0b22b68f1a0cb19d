"""Any agent, any human, and a runner that may be killed at any change to a file: the promises hold after every step."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from marathon.core.budgets import Limits
from marathon.core.events import Event, Waiting
from marathon.core.records import Gate, Record, RunStarted, SessionStarted
from marathon.core.text import utc
from marathon.errors import TaskInvalid
from marathon.store.journal import read_journal
from tests.support.anyone import (
    Course,
    Do,
    Edit,
    Leave,
    Message,
    Propose,
    Say,
    Session,
    Verdict,
    courses,
    leavings,
    proposals,
)
from tests.support.inside import Ran, Start, run
from tests.support.mortal import Life
from tests.support.promises import Promises
from tests.support.witness import Witness, spoken

FULL = bool(os.environ.get("MARATHON_FULL_SWEEP"))


class AnyAgentAnyHuman(RuleBasedStateMachine):
    """One task; every step is one more start of its runner."""

    @initialize(
        workflow=st.sampled_from(["flat", "flat", "nested"]),
        found=st.none() | proposals | leavings,
        files=st.sets(st.sampled_from(["research.md", "plan.md", "result.md", "draft.md"])),
    )
    def a_task(self, workflow: str, found: Propose | Leave | None, files: set[str]) -> None:
        self.witness = Witness(workflow)
        self.promises = Promises(self.witness)
        self.killed = False
        for name in files:
            self.witness.write(name)
        if found is not None:
            self.witness.leave_state(found, "research" if workflow == "flat" else "draft")

    def teardown(self) -> None:
        if hasattr(self, "witness"):
            self.witness.close()

    @rule(course=courses)
    def the_runner_starts(self, course: Course) -> None:
        witness, promises = self.witness, self.promises
        self._before(course)
        said, words = len(witness.typed), witness.words() if course.feedback else ""
        if words:
            witness.to_archive[words] = witness.outputs()
        litter = self._temporary_files()
        try:
            ran = run(witness.place, self._start(course, words))
        except TaskInvalid as refused:
            self._mend(refused)
            return
        promises.read()
        self.killed = ran.code is None
        if self.killed:
            self._tear(ran, course.torn)
            return
        assert ran.life == promises.life
        assert self._temporary_files() <= litter
        assert not list(witness.task.folder.glob(".*.tmp"))
        promises.state_is_whole()
        for text in [words, *(reply.text for _, reply in witness.typed[said:])]:
            assert spoken(text) <= promises.known_words()

    @invariant()
    def the_promises_hold(self) -> None:
        self.promises.hold()

    def _before(self, course: Course) -> None:
        for act in course.before:
            self.witness.elsewhere(act)
        self.witness.time += timedelta(seconds=course.seconds)
        if course.reboot:
            self.witness.boot, self.witness.uptime = f"after {self.witness.uptime}", 10.0

    def _start(self, course: Course, words: str) -> Start:
        life = Life(self.witness.folder, course.dies)

        def emit(event: Event) -> None:
            if isinstance(event, Waiting):
                if course.at_a_wait == "killed":
                    life.end()
                os.kill(os.getpid(), signal.SIGTERM)

        self.witness.hurry = 3700 if course.at_a_wait == "over" else 0
        self.witness.auto_approved = self.witness.auto_approved or course.auto_approve
        return Start(
            agent=self.witness.agent(list(course.sessions), life),
            surface=self.witness.ask(list(course.says)),
            life=life,
            emit=emit,
            feedback=words or None,
            auto_approve=course.auto_approve,
            limits=Limits(max_iterations=course.max_iterations, retries=1, retry_wait=0),
        )

    def _tear(self, ran: Ran, torn: float) -> None:
        """A runner killed at a record may leave any part of its line, or all of it."""
        journal = self.witness.task.journal_path
        if ran.owed is not None and journal.exists():
            number = self.promises.life.last + 1
            line = replace(ran.owed, n=number, at=utc(self.witness.time)).to_json().encode() + b"\n"
            with journal.open("ab") as file:
                file.write(line[: min(len(line), round(len(line) * 2 * torn))])

    def _mend(self, refused: TaskInvalid) -> None:
        """A STATE.json that no journal explains, or a link, is named; the human takes it away."""
        path = self.witness.task.folder / "STATE.json"
        assert str(path) in str(refused)
        assert path.is_symlink() or not self.promises.records
        self.witness.leave_state(Leave("nothing"), "")

    def _temporary_files(self) -> set[str]:
        return {str(path) for path in self.witness.folder.rglob(".*.tmp")}


TestAnyAgentAnyHuman = AnyAgentAnyHuman.TestCase
TestAnyAgentAnyHuman.settings = settings(
    derandomize=not FULL,
    max_examples=2000 if FULL else 100,
    stateful_step_count=12 if FULL else 8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# The same promises, where the runner is killed at every change of a run in which everything happens.

DONE_WELL = Session((Do("output"), Propose("paused")))
ASKS = Session((Do("ask"), Do("wait"), Leave(b"{"), Message()))
TO_THE_FIRST_GATE = Course(sessions=(DONE_WELL,), says=(Say("quit"),))
ONWARD = Course(sessions=(DONE_WELL,) * 4, says=(Say("continue"),) * 4, auto_approve=True, seconds=0)
ONCE_MORE = Course(feedback=True, sessions=(DONE_WELL,), seconds=0)
EVENTFUL = {
    "words at gates": Course(
        before=(Message(), Edit("append")),
        sessions=(DONE_WELL, Session((Do("output"), Propose("completed", "done")))),
        says=(Say("redo", "research", True), Say("continue", None, True), Say("redo", "plan", True)),
    ),
    "verdicts from another shell": Course(
        before=(Verdict("continue", None, late=True), Message(), Verdict("redo", "research")),
        sessions=(DONE_WELL,),
        says=(Say("quit", None, True, (Verdict("continue"), Edit("insert", 0.1))), Say("quit")),
    ),
    "questions and bad states": Course(
        sessions=(ASKS, ASKS, Session((Leave("a folder"),)), Session((Leave(b"{"),), "crash"), DONE_WELL),
        says=(Say("continue"), Say("answer", None, True), Say("answer", None, True), Say("redo", None, True)),
    ),
    "a restart": Course(before=(Message(),), seconds=0, feedback=True, sessions=(DONE_WELL,), says=(Say("cancel"),)),
}


@pytest.mark.parametrize(
    ("first", "step"), [(1, 9), *(pytest.param(first, 3, marks=pytest.mark.slow) for first in (1, 2, 3))]
)
@pytest.mark.parametrize("course", EVENTFUL.values(), ids=EVENTFUL)
def test_killed_at_any_change_of_an_eventful_run(course: Course, first: int, step: int) -> None:
    for dies in itertools.count(first, step):
        machine = AnyAgentAnyHuman()
        machine.a_task("flat", None, set())
        try:
            eventful = replace(course, dies=dies, torn=dies % 2)
            killed = [_starts(machine, each) for each in (TO_THE_FIRST_GATE, eventful, ONWARD, ONCE_MORE)]
        finally:
            machine.teardown()
        if not any(killed):
            assert dies > 20  # it was an eventful run
            return


def _starts(machine: AnyAgentAnyHuman, course: Course) -> bool:
    """Whether it was killed; the promises hold."""
    machine.the_runner_starts(course)
    machine.the_promises_hold()
    return machine.killed


# Where a second kill is what it takes: the recovery from the first one is cut off at every change it makes.


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness("flat")
    yield made
    made.close()


def started(
    witness: Witness, *plans: Session, says: Sequence[Say] = (), dies_at: int | None = None, feedback: str | None = None
) -> Ran:
    life = Life(witness.folder, dies_at)
    desk = witness.ask(list(says))
    return run(witness.place, Start(witness.agent(list(plans), life), desk, life, lambda event: None, feedback))


def journal_of(witness: Witness, *kinds: type[Record]) -> list[Any]:
    return [record for record in read_journal(witness.task.journal_path) if isinstance(record, kinds)]


RECOVERY = range(1, 14)


@pytest.mark.parametrize("dies_at", RECOVERY)
def test_a_question_survives_the_death_of_two_runners(witness: Witness, dies_at: int) -> None:
    started(witness, Session((Do("ask"),), killed_after=1))
    started(witness, dies_at=dies_at)
    assert started(witness).code == 3
    assert [gate.reason for gate in journal_of(witness, Gate)] == ["question"]


@pytest.mark.parametrize("dies_at", RECOVERY)
def test_a_completed_task_that_is_adopted_stays_completed(witness: Witness, dies_at: int) -> None:
    witness.leave_state(Propose("completed", "done"), "research")
    started(witness, dies_at=dies_at)
    assert started(witness).code == 0
    assert journal_of(witness, SessionStarted) == []


@pytest.mark.parametrize("dies_at", range(1, 21))
def test_a_restart_that_was_cut_off_is_completed_by_the_same_command(witness: Witness, dies_at: int) -> None:
    done = [Do("output"), Propose("paused")]
    started(witness, Session((*done,)), says=[Say("quit")])
    before = (witness.task.folder / "research.md").read_text()
    started(witness, dies_at=dies_at, feedback="also w0001w")
    cut_off = not journal_of(witness, RunStarted)
    started(witness, feedback="also w0001w")
    archives = [path.read_text() for path in witness.task.folder.glob("research.2*.md")]
    assert archives == [before]
    assert not (witness.task.folder / "research.md").exists()
    if cut_off:
        assert [each.run for each in journal_of(witness, RunStarted)] == [2]
        assert (witness.task.folder / "human.md").read_text().count("also w0001w") == 1
