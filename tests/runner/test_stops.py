"""Which messages end a runner, and when, and which steering is for the session that runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from marathon.core.life import Life
from marathon.core.records import Record, SteerTaken
from marathon.runner.session import take_steering
from marathon.runner.stops import Stops
from marathon.store.file_store import FileStore
from marathon.store.inbox import Kind
from marathon.store.task import Task


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "task").mkdir()
    return Task(tmp_path / "task")


@pytest.fixture
def store(task: Task) -> FileStore:
    return FileStore(task, lambda: datetime.now(UTC))


@pytest.mark.parametrize(
    ("kind", "fields", "after_session", "now", "cancels"),
    [
        ("stop", {"to": "m-1"}, True, False, False),
        ("stop", {"to": "m-1", "now": True}, True, True, False),
        ("stop", {"to": ""}, True, False, False),
        ("stop", {"to": "m-0"}, False, False, False),  # of a runner that is gone
        ("stop", {"to": "m-0", "now": True}, False, False, False),
        ("cancel", {"to": "2"}, True, True, True),
        ("cancel", {"to": "1"}, False, False, False),  # of the run before
        ("steer", {"text": "stop"}, False, False, False),
    ],
)
def test_a_runner_obeys_what_was_sent_to_it_and_to_its_run(
    task: Task, store: FileStore, kind: Kind, fields: dict[str, Any], after_session: bool, now: bool, cancels: bool
) -> None:
    store.put(kind, **fields)
    stops = Stops(task, store, "m-1", lambda: Life(run=2), lambda event: None)
    assert (stops.asked(), stops.now(), bool(stops.cancels)) == (after_session, now, cancels)
    kept = kind == "steer" or cancels  # a cancel goes once it is on record
    assert len(store.messages()) == (1 if kept else 0)


class Journal:
    def write_owed_words(self) -> None:
        """Into human.md, which this test leaves out."""


def test_words_for_the_next_session_are_not_taken_in_the_one_that_runs(store: FileStore) -> None:
    recorded: list[Record] = []
    marathon: Any = SimpleNamespace(store=store, life=Life(), record=recorded.append, journal=Journal())
    store.put("steer", text="at once")
    store.put("steer", text="next time", later=True)
    take_steering(marathon)
    assert [each.text for each in recorded if isinstance(each, SteerTaken)] == ["at once"]
    assert [each.text for each in store.messages()] == ["next time"]
    take_steering(marathon, between=True)
    assert [each.text for each in recorded if isinstance(each, SteerTaken)] == ["at once", "next time"]
    assert not store.messages()
