"""What must hold of a task after every step, whoever its agent and its human are and wherever its runner was killed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from marathon.core.life import Life, fold
from marathon.core.records import (
    Answer,
    Gate,
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
from marathon.store.journal import read_journal
from tests.support.anyone import DEFINITIONS
from tests.support.way import Told, Way, sessions_of
from tests.support.witness import Witness, all_spoken, spoken

_ARCHIVED = re.compile(r".+\.\d{8}-\d{6}\.md|STATE\.json\.invalid-.+")


class Promises:
    """The task as the journal tells of it, held against what the witness knows."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.task = witness.task
        self.records: list[Record] = []
        self.life = Life()
        self._journal = b""
        self._kept: dict[str, object] = {}

    def read(self) -> None:
        """What the journal says now; it only ever grows."""
        path = self.task.journal_path
        data = path.read_bytes() if path.exists() else b""
        assert data.startswith(self._journal)
        self._journal = data
        self.records = read_journal(path)
        self.life = fold(self.records, self.witness.place.course)

    def hold(self) -> None:
        self.read()
        self.no_gate_is_skipped_and_no_finished_phase_runs_again()
        self.every_question_reaches_the_human()
        self.no_word_of_the_human_is_lost()
        self.human_md_holds_every_block_once_and_is_only_added_to()
        self.words_come_as_new_to_one_session_that_ends_well()
        self.every_invalid_state_is_kept()
        self.nothing_kept_is_ever_changed()

    def known_words(self) -> set[str]:
        """Everything the journal heard from the human."""
        texts = [record.text for record in self._of(Answer, RestartBegun, SteerTaken, Remark)]
        return {mark for text in texts for mark in spoken(text)}

    def state_is_whole(self) -> None:
        """STATE.json when the runner is at rest."""
        state, life = parse_state((self.task.folder / "STATE.json").read_bytes()), self.life
        if life.finished:
            assert state.state == "completed" or state.phase == "done"
        elif life.gate:
            assert (state.state, state.phase) == ("paused", life.gate.phase)

    def no_gate_is_skipped_and_no_finished_phase_runs_again(self) -> None:
        way = Way(DEFINITIONS).follow(self.records)
        assert way.sent_back <= 2
        for gate, answer in way.answered:
            match answer.by:
                case "auto" if gate.reason == "back":
                    assert (answer.choice, answer.phase) == ("redo", gate.back_to)
                    assert self.witness.auto_approved
                case "auto":
                    assert self.witness.auto_approved
                    assert gate.onward == "next"
                    assert gate.reason in ("review", "skipped")
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
                    record for record in self._of(Gate, SessionStarted, Moved, RunStarted) if record.n > told.ended.n
                ]
                assert not after or isinstance(after[0], RunStarted) or getattr(after[0], "reason", "") == "question"

    def no_word_of_the_human_is_lost(self) -> None:
        waiting = {message.id for message in self.task.inbox.messages()}
        known = self.known_words()
        for name, (_, words) in self.witness.sent.items():
            assert name in waiting or spoken(words) <= known
        taken = Counter(record.id for record in self._of(SteerTaken))
        for name in self.witness.steered:
            assert taken[name] == 1 or (name in waiting and not taken[name])

    def human_md_holds_every_block_once_and_is_only_added_to(self) -> None:
        text = self.task.human_text()
        assert text.startswith(self.witness.human)
        self.witness.human = text
        twice = {mark for mark, count in Counter(all_spoken(text)).items() if count > 1}
        assert twice <= self.witness.may_stand_twice
        owed = [(each.heading, each.text) for each in (self.life.unwritten, self.life.restart) if each]
        for record in self._of(Answer, RestartBegun):
            if not any(record.heading == heading and record.text in words for heading, words in owed):
                assert spoken(record.text) <= spoken(text) | self.witness.erased

    def words_come_as_new_to_one_session_that_ends_well(self) -> None:
        told = [each for each in sessions_of(self.records) if each.heard]
        new: Counter[str] = Counter()
        steered: Counter[str] = Counter()
        in_human_md = {mark for record in self._of(SteerTaken) for mark in spoken(record.text)}
        for each in told:
            seen = self.witness.seen[each.number]
            new.update(spoken(_section(seen.prompt, "New from the human")))
            new.update(spoken(_section(seen.prompt, "Your question, answered")))
            steered.update(spoken(_section(seen.prompt, "Told by the human")))
            steered.update(mark for steer in seen.steered for mark in spoken(steer.text))
            assert spoken(seen.human) - in_human_md <= new.keys()
            self._written_before(each, seen.human)
            taken = [record.text for record in self._of(SteerTaken) if record.n < each.started.n]
            assert {mark for text in taken for mark in spoken(text)} <= steered.keys()
            self._answered(each, seen.prompt)
        assert all(count <= 1 + self.witness.again[mark] for mark, count in new.items())
        assert all(count == 1 for count in steered.values())

    def _written_before(self, told: Told, human: bytes) -> None:
        """What the journal knew when a session began stood in human.md."""
        for record in self._of(Answer, RestartBegun):
            if record.n < told.started.n:
                assert spoken(record.text) <= spoken(human) | self.witness.erased

    def _answered(self, told: Told, prompt: str) -> None:
        """The last answer since a session ended well, or since the run began, comes with this one."""
        heard = {each.ended.n for each in sessions_of(self.records) if each.ended and each.heard}
        for record in reversed(self.records):
            if record.n >= told.started.n:
                continue
            if record.n in heard or isinstance(record, RunStarted):
                return
            if isinstance(record, Answer) and record.choice == "answer":
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
        found = {path.name: _content(path) for path in self.task.folder.iterdir() if _ARCHIVED.fullmatch(path.name)}
        assert found.items() >= self._kept.items()
        self._kept = found
        if self.life.restart is None:
            for record in self._of(RestartBegun):
                assert self.witness.to_archive[record.text] <= set(found.values())

    def _of(self, *kinds: type[Record]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kinds)]


def _section(prompt: str, title: str) -> str:
    """What the prompt says below a heading of its own."""
    _, _, rest = prompt.partition(f"\n## {title}\n")
    return rest.split("\n## ")[0]


def _content(path: Path) -> object:
    if path.is_symlink():
        return path.readlink()
    return path.read_bytes() if path.is_file() else None
