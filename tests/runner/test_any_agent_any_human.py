"""Any agent, any human, and a runner that may be killed at any change to a file: the promises hold after every step."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from marathon.core.events import Event, Waiting
from marathon.core.journal import fold
from marathon.core.limits import Limits
from marathon.core.names import utc
from marathon.core.records import (
    GateAnswered,
    GateOpened,
    Moved,
    Record,
    Remark,
    RestartBegun,
    RunStarted,
    SessionStarted,
    SteerTaken,
)
from marathon.core.state import parse_state
from marathon.core.text import clean
from marathon.disk.journal import read_journal
from marathon.errors import TaskInvalid
from tests.support.anyone import (
    DEFINITIONS,
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
from tests.support.promises import Told, Way, sessions_of
from tests.support.witness import Witness, all_spoken, spoken

FULL = bool(os.environ.get("MARATHON_FULL_SWEEP"))
ARCHIVED = re.compile(r".+\.\d{8}-\d{6}\.md|STATE\.json\.invalid-.+")


class AnyAgentAnyHuman(RuleBasedStateMachine):
    """One task; every step is one more start of its runner."""

    @initialize(
        workflow=st.sampled_from(["flat", "flat", "nested"]),
        found=st.none() | proposals | leavings,
        files=st.sets(st.sampled_from(["research.md", "plan.md", "result.md", "draft.md"])),
    )
    def a_task(self, workflow: str, found: Propose | Leave | None, files: set[str]) -> None:
        self.witness = Witness(workflow)
        self.task = self.witness.task
        self.journal = b""
        self.records: list[Record] = []
        self.kept: dict[str, object] = {}
        self.to_archive: dict[str, set[bytes]] = {}
        self.auto_approved = False
        self.killed = False
        for name in files:
            self.witness.write(name)
        if found is not None:
            self.witness.leave_state(found, "research" if workflow == "flat" else "draft")

    def teardown(self) -> None:
        if hasattr(self, "witness"):
            self.witness.close()

    # What happens

    @rule(course=courses)
    def the_runner_starts(self, course: Course) -> None:
        witness = self.witness
        self._before(course)
        said, words = len(witness.typed), witness.words() if course.feedback else ""
        if words:
            self.to_archive[words] = self._outputs()
        litter = self._temporary_files()
        try:
            ran = run(witness.place, self._start(course, words))
        except TaskInvalid as refused:
            self._mend(refused)
            return
        self._read()
        self.killed = ran.code is None
        if self.killed:
            self._tear(ran, course.torn)
            return
        assert ran.progress == fold(self.records)
        assert self._temporary_files() == litter
        self._state_is_whole()
        for text in [words, *(reply.text for _, reply in witness.typed[said:])]:
            assert spoken(text) <= self._known_words()

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
        self.auto_approved = self.auto_approved or course.auto_approve
        return Start(
            agent=self.witness.agent(list(course.sessions), life),
            desk=self.witness.ask(list(course.says)),
            life=life,
            emit=emit,
            feedback=words or None,
            auto_approve=course.auto_approve,
            limits=Limits(max_iterations=course.max_iterations, retries=1, retry_wait=0),
        )

    # What follows from it

    def _read(self) -> None:
        self.records = list(read_journal(self.task.journal_path))

    def _tear(self, ran: Ran, torn: float) -> None:
        """A runner killed at a record may leave any part of its line, all of it but the last byte too."""
        if ran.owed is not None and self.task.journal_path.exists():
            number = max((record.n for record in self.records), default=0) + 1
            stamped = replace(ran.owed, n=number, at=utc(self.witness.time))
            line = stamped.to_json().encode()
            with self.task.journal_path.open("ab") as file:
                file.write(line[: round(len(line) * torn)])

    def _mend(self, refused: TaskInvalid) -> None:
        """A STATE.json that no journal explains, or a link, is named; the human takes it away."""
        path = self.task.folder / "STATE.json"
        assert str(path) in str(refused)
        assert path.is_symlink() or not self.records
        self.witness.leave_state(Leave("nothing"), "")

    def _state_is_whole(self) -> None:
        state, progress = parse_state((self.task.folder / "STATE.json").read_bytes()), fold(self.records)
        if progress.finished:
            assert state.state == "completed" or state.phase == "done"
        elif progress.gate:
            assert (state.state, state.phase) == ("paused", progress.gate.phase)

    def _temporary_files(self) -> set[str]:
        return {str(path) for path in self.witness.folder.rglob(".*.tmp")}

    def _outputs(self) -> set[bytes]:
        """Everything a restart has to archive."""
        paths = [self.task.folder / phase.output for phase in self.witness.phases() if phase.output]
        return {path.read_bytes() for path in paths if path.exists()}

    def _known_words(self) -> set[str]:
        texts = [record.text for record in self._of(GateAnswered, RestartBegun, SteerTaken, Remark)]
        return {mark for text in texts for mark in spoken(text)}

    def _of(self, *kinds: type[Record]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kinds)]

    # The promises

    @invariant()
    def the_promises_hold(self) -> None:
        self.the_journal_only_grows()
        self.no_gate_is_skipped_and_no_finished_phase_runs_again()
        self.every_question_reaches_the_human()
        self.no_word_of_the_human_is_lost()
        self.human_md_holds_every_block_once_and_is_only_added_to()
        self.words_come_as_new_to_one_session_that_ends_well()
        self.every_invalid_state_is_kept()
        self.nothing_kept_is_ever_changed()

    def the_journal_only_grows(self) -> None:
        path = self.task.journal_path
        data = path.read_bytes() if path.exists() else b""
        assert data.startswith(self.journal)
        self.journal = data
        self._read()

    def no_gate_is_skipped_and_no_finished_phase_runs_again(self) -> None:
        way = Way(DEFINITIONS).follow(self.records)
        for gate, answer in way.answered:
            match answer.by:
                case "auto":
                    assert self.auto_approved
                    assert gate.onward == "next"
                    assert gate.kind in ("review", "skipped")
                case "terminal":
                    said = [(r.choice, r.phase, r.text) for token, r in self.witness.typed if token == gate.token]
                    assert (answer.choice, answer.phase, answer.text) in said
                case "command":
                    assert (gate.token, answer.text) in self.witness.sent.values()

    def every_question_reaches_the_human(self) -> None:
        for told in sessions_of(self.records):
            seen = self.witness.seen.get(told.number)
            if told.ended is not None and seen is not None and seen.asked is not None:
                assert told.ended.question == clean(seen.asked)
                after = [
                    record
                    for record in self._of(GateOpened, SessionStarted, Moved, RunStarted)
                    if record.n > told.ended.n
                ]
                assert not after or isinstance(after[0], RunStarted) or getattr(after[0], "kind", "") == "question"

    def no_word_of_the_human_is_lost(self) -> None:
        waiting = {message.id for message in self.task.inbox.messages()}
        known = self._known_words()
        for name, (_, words) in self.witness.sent.items():
            assert name in waiting or spoken(words) <= known
        taken = Counter(record.id for record in self._of(SteerTaken))
        for name in self.witness.steered:
            assert taken[name] == 1 or (name in waiting and not taken[name])

    def human_md_holds_every_block_once_and_is_only_added_to(self) -> None:
        text = self.task.human_text()
        assert text.startswith(self.witness.human)
        self.witness.human = text
        assert max(Counter(all_spoken(text)).values(), default=0) <= 1
        owed = fold(self.records).unwritten
        for record in self._of(GateAnswered, RestartBegun):
            finished = record is not owed and record is not fold(self.records).restart
            if finished and getattr(record, "choice", "") != "answer":
                assert spoken(record.text) <= spoken(text) | self.witness.erased

    def words_come_as_new_to_one_session_that_ends_well(self) -> None:
        told = [each for each in sessions_of(self.records) if each.heard]
        new: Counter[str] = Counter()
        steered: Counter[str] = Counter()
        for each in told:
            seen = self.witness.seen[each.number]
            new.update(spoken(_section(seen.prompt, "New from the human")))
            steered.update(spoken(_section(seen.prompt, "Steering")))
            steered.update(mark for steer in seen.steered for mark in spoken(steer.text))
            assert spoken(seen.human) <= new.keys()
            self._written_before(each, seen.human)
            taken = [record.text for record in self._of(SteerTaken) if record.n < each.started.n]
            assert {mark for text in taken for mark in spoken(text)} <= steered.keys()
            self._answered(each, seen.prompt)
        assert all(count <= 1 + self.witness.again[mark] for mark, count in new.items())
        assert all(count == 1 for count in steered.values())

    def _written_before(self, told: Told, human: bytes) -> None:
        """What the journal knew when a session began stood in human.md."""
        for record in self._of(GateAnswered, RestartBegun):
            if record.n < told.started.n and getattr(record, "choice", "") != "answer":
                assert spoken(record.text) <= spoken(human) | self.witness.erased

    def _answered(self, told: Told, prompt: str) -> None:
        """The last answer since a session ended well, or since the run began, comes with this one."""
        heard = {each.ended.n for each in sessions_of(self.records) if each.ended and each.heard}
        for record in reversed(self.records):
            if record.n >= told.started.n:
                continue
            if record.n in heard or isinstance(record, RunStarted):
                return
            if isinstance(record, GateAnswered) and record.choice == "answer":
                assert spoken(record.text) <= spoken(_section(prompt, "Your question, answered"))
                return

    def every_invalid_state_is_kept(self) -> None:
        left = [
            self.witness.seen[each.number].left
            for each in sessions_of(self.records)
            if each.ended and each.ended.invalid
        ]
        kept = Counter(_content(path) for path in self.task.folder.glob("STATE.json.invalid-*"))
        assert Counter(data for data in left if data is not None) <= kept

    def nothing_kept_is_ever_changed(self) -> None:
        found = {path.name: _content(path) for path in self.task.folder.iterdir() if ARCHIVED.fullmatch(path.name)}
        assert found.items() >= self.kept.items()
        self.kept = found
        if fold(self.records).restart is None:
            for record in self._of(RestartBegun):
                assert self.to_archive[record.text] <= set(found.values())


def _section(prompt: str, title: str) -> str:
    """What the prompt says below a heading of its own."""
    _, _, rest = prompt.partition(f"\n## {title}\n")
    return rest.split("\n## ")[0]


def _content(path: Path) -> object:
    if path.is_symlink():
        return path.readlink()
    return path.read_bytes() if path.is_file() else None


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


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("course", EVENTFUL.values(), ids=EVENTFUL)
def test_killed_at_any_change_of_an_eventful_run(course: Course, first: int) -> None:
    for dies in itertools.count(first, 3):
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
    assert [gate.kind for gate in journal_of(witness, GateOpened)] == ["question"]


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
