"""The journal on disk: every record whole, numbered and flushed; what a crash cut off is dropped once and for all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.core.records import Answer, Begun, Gate, Record, Remark, SteerTaken, Torn
from marathon.errors import DiskFailed, TaskInvalid
from marathon.store.file_store import FileStore
from marathon.store.files import append_durable
from marathon.store.journal import read_journal
from marathon.store.task import Task
from tests.store.tools import calls_of, full_after, mode_of, umask

WRITTEN: list[Record] = [
    Begun(workflow="rpi", path=[("rpi", 0)], phase="research"),
    Gate(reason="review", token="t", phase="research"),
    Answer(choice="continue", text="Zeile eins\nzwei 漢字 \u2028 🏃"),
]


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Where the journal of a new task will be."""
    task = Task(tmp_path)
    task.home.settle(tmp_path, adopt=False)
    return task.journal_path


@pytest.fixture
def path(empty: Path) -> Path:
    append(empty, *WRITTEN)
    return empty


def clock() -> datetime:
    return datetime(2026, 2, 2, 14, 30, tzinfo=UTC)


def store_of(path: Path) -> FileStore:
    folder = json.loads((path.parent / "home.json").read_text())["task"]
    return FileStore(Task(Path(folder)), clock)


def append(path: Path, *records: Record) -> list[Record]:
    """What a runner that starts now replays, with these records added."""
    store = store_of(path)
    return [*store.replay(), *(store.append(record) for record in records)]


def told(records: list[Record]) -> list[str]:
    return [record.text if isinstance(record, Remark) else record.type for record in records]


def test_records_come_back_numbered_stamped_and_as_they_were(path: Path) -> None:
    again = append(path)
    assert [record.n for record in again] == [1, 2, 3]
    assert {record.at for record in again} == {"2026-02-02T14:30:00Z"}
    assert [replace(record, n=0, at="") for record in again] == WRITTEN
    assert read_journal(path) == again
    assert append(path, Remark(text="more"))[-1].n == 4


def test_no_file_is_an_empty_journal_and_reading_makes_none(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none") == []
    assert os.listdir(tmp_path) == []


def test_a_record_is_on_disk_before_anything_follows(path: Path) -> None:
    store = store_of(path)
    store.replay()
    calls = calls_of(lambda: store.append(Remark(text="x")))
    assert [call for call in calls if call != "close"] == ["write", "fsync"]


def test_a_sync_that_fails_is_told(empty: Path) -> None:
    os.mkfifo(empty)  # can be written, but not synced
    with pytest.raises(DiskFailed, match=str(empty)):
        append_durable(empty, b"x", mode=0o600)


def test_a_new_journal_is_private_and_its_name_is_flushed(empty: Path) -> None:
    with umask(0):
        store = store_of(empty)
        store.replay()
        written = calls_of(lambda: store.append(Remark(text="x")))
    assert [call for call in written if call != "close"] == ["write", "fsync", "fsync"]
    assert mode_of(empty) == 0o600


def test_wherever_the_last_line_was_cut_it_never_counts(path: Path) -> None:
    """Also where only its newline is missing: it does not come back to life when the next line is written."""
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    before = whole[: -len(last)]
    for kept in (*range(1, len(last) - 2, 13), len(last) - 2, len(last) - 1):
        path.write_bytes(before + last[:kept])
        assert told(read_journal(path)) == ["begun", "gate_opened"]
        assert path.read_bytes() == before + last[:kept]
        records = append(path, Remark(text="next"))
        assert told(records) == ["begun", "gate_opened", "torn", "next"]
        assert isinstance(records[2], Torn)
        assert records[2].bytes == kept
        assert [record.n for record in records] == [1, 2, 3, 4]
        assert read_journal(path) == records
        assert append(path) == records


@pytest.mark.parametrize("missing", [1, 30], ids=["only the newline was missing", "half of it was missing"])
def test_a_runner_killed_while_it_closes_a_torn_line_loses_nothing_more(path: Path, missing: int) -> None:
    path.write_bytes(path.read_bytes()[:-missing])
    torn = path.read_bytes()
    append(path)
    closing = path.read_bytes()[len(torn) :]
    for kept in (*range(0, len(closing), 9), len(closing) - 1, len(closing)):
        path.write_bytes(torn + closing[:kept])
        seen = append(path, Remark(text="next"))
        assert told(seen)[:2] == ["begun", "gate_opened"]
        assert told(seen)[-1] == "next"
        assert append(path) == seen
        # The next runner writes on after the same history.
        assert told(append(path, Remark(text="after"))) == [*told(seen), "after"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\0" * 40, b'{"type":"nobody knows"}', b"[]", b"\xff\xfe"])
def test_a_damaged_line_in_the_middle_is_refused_by_file_and_line(path: Path, damage: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[1] = damage
    path.write_bytes(b"\n".join(lines))
    found = path.read_bytes()
    for read in (read_journal, append):
        with pytest.raises(TaskInvalid) as refused:
            read(path)
        assert f"{path} line 2 is damaged" in str(refused.value)
    assert path.read_bytes() == found


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (b'{"n":4,"at":"","type":"finish"}', "there is no record of type 'finish'"),
        (b'{"n":4,"at":"","type":"remark"}', "text: it is missing"),
        (b'{"n":"4","at":"","type":"finished"}', "n: it is not a whole number"),
        (b"[]", "it is not an object"),
        (b"17", "it is not an object"),
    ],
)
def test_a_last_line_that_is_whole_but_no_record_is_damage(path: Path, last: bytes, reason: str) -> None:
    """Also where no copy says so: a crash cuts a line off, it does not write another one."""
    path.write_bytes(path.read_bytes() + last + b"\n")
    found = path.read_bytes()
    for read in (read_journal, append):
        with pytest.raises(TaskInvalid) as refused:
            read(path)
        assert f"{path} line 4 is damaged: {reason}. " in str(refused.value)
        assert "pi-marathon repair TASK" in str(refused.value)
    assert path.read_bytes() == found


def test_an_old_torn_line_that_was_closed_stays_passed_over(path: Path) -> None:
    append(path, Remark(text="old"))
    with path.open("ab") as file:
        file.write(b'{"n":5,"type":"finis')
    append(path, Remark(text="new"))
    append(path, Remark(text="newer"))
    assert told(read_journal(path))[3:] == ["old", "torn", "new", "newer"]


def test_a_short_write_is_cut_back_and_the_next_one_starts_a_fresh_line(path: Path) -> None:
    before = path.read_bytes()
    store = store_of(path)
    store.replay()
    with full_after(len(before) + 20), pytest.raises(DiskFailed) as failed:
        store.append(SteerTaken(id="1", text="does not fit"))
    assert "journal.jsonl: File too large" in str(failed.value)
    assert path.read_bytes() == before
    assert store.append(SteerTaken(id="1", text="fits")).n == 4
    assert len(read_journal(path)) == 4


def test_a_symlink_is_no_journal(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))
    for use in (read_journal, append):
        with pytest.raises(DiskFailed) as refused:
            use(path)
        assert str(path) in str(refused.value)


def test_a_very_long_record_comes_back(path: Path) -> None:
    text = "long " * 500_000
    append(path, Remark(text=text))
    assert told(read_journal(path))[-1] == text
    path.write_bytes(path.read_bytes()[:-1000])
    assert told(append(path, Remark(text="next")))[3:] == ["torn", "next"]
