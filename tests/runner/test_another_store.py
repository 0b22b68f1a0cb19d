"""A store of one's own: records and messages in memory, run by the real loop without a change to any other file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from marathon.core.budgets import Limits
from marathon.core.records import Finished, Gate, Record, SteerTaken
from marathon.errors import DiskFailed
from marathon.process.signals import Signals
from marathon.runner.loop import run
from marathon.runner.marathon import RunOptions
from marathon.runner.marathon import open as open_marathon
from marathon.store.base import Lease, Store
from marathon.store.inbox import Kind, Message
from tests.support.anyone import Do, Propose, Say, Session
from tests.support.mortal import Life
from tests.support.witness import Witness


@dataclass
class Held:
    fd: int = field(default_factory=lambda: os.open(os.devnull, os.O_RDONLY))
    previous_runner: str = ""

    def sign(self) -> None:
        """Others cannot see it."""

    def release(self) -> None:
        os.close(self.fd)


@dataclass
class MemoryStore:
    records: list[Record] = field(default_factory=list)
    waiting: dict[str, Message] = field(default_factory=dict)

    def lease(self, shown: Path, runner: str, resume: str, project: Path, boot: str = "") -> Lease:
        return Held()

    def replay(self) -> list[Record]:
        return list(self.records)

    def append(self, record: Record) -> Record:
        self.records.append(replace(record, n=len(self.records) + 1, at="2026-02-02T14:30:00Z"))
        return self.records[-1]

    def news(self) -> list[str]:
        return []

    def messages(self) -> list[Message]:
        return list(self.waiting.values())

    def put(self, kind: Kind, **fields: Any) -> str:
        name = f"{len(self.records)}-{len(self.waiting)}"
        self.waiting[name] = Message(id=name, kind=kind, **fields)
        return name

    def remove(self, message_id: str) -> None:
        self.waiting.pop(message_id, None)


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness("flat")
    yield made
    made.close()


def start(witness: Witness, store: Store, *plans: Session, says: tuple[Say, ...] = ()) -> int:
    life = Life(witness.folder, None)
    place = witness.place
    options = RunOptions(task=witness.task, shown=place.task, limits=Limits(retry_wait=0))
    parts = (options, place.project, witness.agent(list(plans), life), witness.ask(list(says)), store, place.course)
    with Signals() as signals:
        opened = open_marathon(
            *parts,
            signals=signals,
            show=lambda event: None,
            states=place.states,
            codes=place.task.parent / "codes",
            trusted=place.task.parent / "agreed",
            clock=place.clock,
            now=place.now,
        )
        with opened as marathon:
            return run(marathon)


def test_a_marathon_keeps_its_records_and_messages_wherever_its_store_does(witness: Witness) -> None:
    store = MemoryStore()
    store.put("steer", text="be quick")
    done = Session((Do("output"), Propose("paused")))
    assert start(witness, store, done) == 3
    assert [record.reason for record in store.records if isinstance(record, Gate)] == ["review"]
    assert [record.text for record in store.records if isinstance(record, SteerTaken)] == ["be quick"]
    assert not store.waiting
    finish = Session((Do("output"), Propose("completed", "done")))
    assert start(witness, store, done, finish, says=(Say("continue"), Say("continue"))) == 0
    assert isinstance(store.records[-1], Finished)
    assert not witness.task.journal_path.exists()


@dataclass
class FullStore(MemoryStore):
    """Takes no records of one kind, as a disk that is full by then."""

    refused: tuple[type, ...] = ()

    def append(self, record: Record) -> Record:
        if isinstance(record, self.refused):
            raise DiskFailed("No space is left.")
        return super().append(record)


def test_a_humans_message_waits_until_it_is_on_record(witness: Witness) -> None:
    store = FullStore(refused=(SteerTaken,))
    store.put("steer", text="be quick")
    with pytest.raises(DiskFailed):
        start(witness, store)
    assert [message.text for message in store.waiting.values()] == ["be quick"]
