"""Messages from other shells: none overwrites another, none is lost, and what is no message is left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from marathon.store.inbox import MAX_BYTES, Inbox, Message
from tests.store.tools import all_at_once, mode_of, umask
from tests.support.mortal import Killed, Life, living


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "inbox")


def test_messages_come_in_the_order_they_were_sent(inbox: Inbox) -> None:
    for number in range(30):
        inbox.put("steer", text=str(number))
    assert [message.text for message in inbox.messages()] == [str(number) for number in range(30)]


def test_a_message_comes_as_it_was_sent(inbox: Inbox) -> None:
    text = 'zwei\nZeilen "漢字" \\ 🏃 \x1b[31m'
    name = inbox.put("verdict", text=text, to="token", choice="redo", phase="plan")
    stop = inbox.put("stop", to="runner", now=True)
    later = inbox.put("steer", text="next time", later=True)
    assert inbox.messages() == [
        Message(name, "verdict", text, "token", "redo", phase="plan"),
        Message(stop, "stop", to="runner", now=True),
        Message(later, "steer", "next time", later=True),
    ]


def test_many_writers_at_once_lose_nothing(inbox: Inbox) -> None:
    all_at_once(4, lambda writer: [inbox.put("steer", text=f"{writer}-{number}") for number in range(25)])
    found = [message.text for message in inbox.messages()]
    assert sorted(found) == sorted(f"{writer}-{number}" for writer in range(4) for number in range(25))
    for writer in range(4):
        mine = [text for text in found if text.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{number}" for number in range(25)]


def test_a_removed_message_is_gone_and_may_be_removed_again(inbox: Inbox) -> None:
    first, second = inbox.put("steer", text="1"), inbox.put("steer", text="2")
    inbox.remove(first)
    inbox.remove(first)
    assert [message.id for message in inbox.messages()] == [second]


def test_without_a_folder_there_are_no_messages_and_none_is_made(inbox: Inbox) -> None:
    assert inbox.messages() == []
    inbox.remove("0-0.json")
    assert not inbox.folder.exists()


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"steer"',
    b"{}",
    b'{"kind": "order", "text": "x"}',
    b'{"kind": ["steer"], "text": "x"}',
    b'{"kind": "steer", "text": 1}',
    b'{"kind": "stop", "now": "yes"}',
    b'{"kind": "steer", "text": null}',
    b'{"kind": "verdict", "choice": {}, "to": "t"}',
    b'{"kind": "verdict", "choice": "redo", "to": "t", "phase": 3}',
    b'{"kind": "steer", "text": "half a \\ud800 pair"}',
    b'{"kind": "steer", "text": "x", "phase": "\\udfff"}',
    b"\xff\xfe",
    b"\0" * 100,
    b"[" * 100_000,
    b'{"kind": "steer", "text": "' + b"x" * MAX_BYTES + b'"}',
]


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data[:40]))
def test_what_is_no_message_is_passed_over_and_left_alone(inbox: Inbox, data: bytes) -> None:
    inbox.put("steer", text="before")
    path = inbox.folder / "5-x.json"
    path.write_bytes(data)
    inbox.put("steer", text="after")
    assert [message.text for message in inbox.messages()] == ["before", "after"]
    assert path.read_bytes() == data


def test_strange_names_and_things_are_not_followed(tmp_path: Path, inbox: Inbox) -> None:
    inbox.put("steer", text="real")
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"kind": "steer", "text": "planted"}))
    (inbox.folder / "1-link.json").symlink_to(outside)
    (inbox.folder / "2-folder.json").mkdir()
    os.mkfifo(inbox.folder / "3-pipe.json")
    (inbox.folder / ".hidden.json").write_bytes(outside.read_bytes())
    (inbox.folder / "4-other.txt").write_bytes(outside.read_bytes())
    assert [message.text for message in inbox.messages()] == ["real"]
    for name in ("x..json", "-rf.json", "$(x).json", "line\nbreak.json", "é漢.json"):
        (inbox.folder / name).write_text(json.dumps({"kind": "steer", "text": name}))
    assert len(inbox.messages()) == 6
    for message in inbox.messages():
        inbox.remove(message.id)
    assert sorted(os.listdir(inbox.folder)) == [
        ".hidden.json",
        "1-link.json",
        "2-folder.json",
        "3-pipe.json",
        "4-other.txt",
    ]
    assert outside.exists()


def test_killed_while_sending_a_message_is_there_whole_or_not_at_all(inbox: Inbox) -> None:
    counts = set()
    for changes in range(1, 12):
        try:
            with living(Life(inbox.folder, changes)):
                inbox.put("steer", text="all of it")
        except Killed:
            found = inbox.messages()
            counts.add(len(found))
            assert all(message.text == "all of it" for message in found)
        else:
            break
    assert counts == {0}
    assert [message.text for message in inbox.messages()] == ["all of it"]


def test_messages_are_private(inbox: Inbox) -> None:
    with umask(0):
        name = inbox.put("steer", text="x")
    assert mode_of(inbox.folder) == 0o700
    assert mode_of(inbox.folder / name) == 0o600
