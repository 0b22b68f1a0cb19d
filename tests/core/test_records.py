"""The journal's lines: each comes back as it was written, and a newer runner's lines are still understood."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.records import Begun, Record, SessionEnded, SteerTaken, Torn, parse_record
from marathon.store.inbox import Inbox
from tests.core.making import RPI, begun, left, started, thorough
from tests.core.strategies import any_record


@thorough
@given(any_record(RPI, "rpi"), st.integers(0), st.text())
def test_every_record_comes_back_from_its_line(record: Record, number: int, at: str) -> None:
    stamped = replace(record, n=number, at=at)
    line = stamped.to_json().encode()
    assert b"\n" not in line
    assert parse_record(line + b"\n") == stamped


@thorough
@given(any_record(RPI, "rpi"), st.dictionaries(st.text().map(lambda name: f"new-{name}"), st.text()))
def test_fields_of_a_newer_runner_are_ignored(record: Record, unknown: dict[str, str]) -> None:
    line = json.dumps({**unknown, **json.loads(record.to_json())})
    assert parse_record(line.encode()) == record


def test_unknown_fields_further_in_are_ignored_too() -> None:
    start, end = started(human={"size": 3, "digest": "d"}), left(wait={"seconds": 60, "reason": "CI"})
    for record, inner in ((start, "human"), (end, "proposal"), (end, "wait")):
        raw = json.loads(record.to_json())
        raw[inner]["invented"] = {"later": True}
        assert parse_record(json.dumps(raw).encode()) == record


def test_a_line_with_only_what_is_needed_is_read() -> None:
    assert parse_record(b'{"type": "session_ended", "ending": "lost"}') == SessionEnded(ending="lost")
    assert parse_record(b'{"type": "begun", "workflow": "rpi", "path": [["rpi", 0]], "phase": "research"}') == (
        Begun(workflow="rpi", path=[("rpi", 0)], phase="research")
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}",
        b"[]",
        b"null",
        b'{"type": "invented"}',
        b'{"type": "torn"}',
        b'{"type": "gate_opened", "kind": "invented", "token": "t", "phase": "plan"}',
        b'{"type": "gate_answered", "choice": "approve everything"}',
        b'{"type": "session_ended", "ending": "ended", "proposal": {"state": "approved", "phase": "plan"}}',
        b'{"type": "torn", "bytes": true}',
        b'{"type": "torn", "bytes": "3"}',
        b'{"type": "wait_ended", "early": 1}',
        b'{"type": "moved", "path": "rpi", "steps": 1, "phase": "plan"}',
        b'{"type": "moved", "path": [["rpi"]], "steps": 1, "phase": "plan"}',
        b'{"type": "moved", "path": [["rpi", 1, 2]], "steps": 1, "phase": "plan"}',
        b'{"type": "moved", "path": [[1, "rpi"]], "steps": 1, "phase": "plan"}',
        b'{"type": "moved", "path": [["rpi", true]], "steps": 1, "phase": "plan"}',
        b'{"type": "torn", "bytes": 3',
        b"\xff\xfe",
        b"\0" * 100,
    ],
)
def test_what_is_no_record_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_record(line)


@thorough
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_record_or_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_record(line)


def test_every_cut_of_a_line_is_a_value_error() -> None:
    for record in (begun("research"), started(), left(), Torn(bytes=4)):
        line = record.to_json().encode()
        for length in range(len(line)):
            with pytest.raises(ValueError, match=r"."):
                parse_record(line[:length])


def test_records_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(begun("research"), "phase", "plan")  # noqa: B010 (a type checker would not let it pass)


def test_nothing_comes_out_of_the_inbox_that_could_not_be_recorded(tmp_path: Path) -> None:
    """JSON may escape half a surrogate pair; such a file is left alone like any other that is no message."""
    inbox = Inbox(tmp_path)
    inbox.put("steer", text="good 🔍")
    for field in ("text", "to", "choice", "phase"):
        (tmp_path / f"{field}.json").write_text(json.dumps({"kind": "steer", field: "\ud800"}))
    (message,) = inbox.messages()
    assert parse_record(SteerTaken(id=message.id, text=message.text).to_json().encode())
