"""The runner's state file: private, one field at a time from many sides, and nothing outside of its folder."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from marathon.errors import WrongUsage
from marathon.store.agent_channel import MAX_BYTES, STALE_AFTER, AgentChannel, channel_of, sweep
from tests.store.tools import all_at_once, mode_of, umask

BAD_IDS = [
    "",
    "../x",
    "..",
    ".",
    "/etc/passwd",
    "a/b",
    "a\0b",
    "a\nb",
    "-rf",
    "_x",
    "$(x)",
    "a b",
    "é",
    "x" * 101,
    "a.json",
    "a\n",
]


@pytest.fixture
def states(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".pi" / "marathon-states"


@pytest.mark.parametrize("runner", BAD_IDS)
def test_a_bad_id_is_refused_and_nothing_is_made(states: Path, runner: str) -> None:
    with pytest.raises(WrongUsage, match="is not a runner id"):
        AgentChannel(states, runner)
    assert channel_of(states, runner) is None
    assert not states.exists()


def test_what_is_written_is_read_and_removed(states: Path) -> None:
    mailbox = AgentChannel(states, "m-20260202-1_A")
    assert mailbox.read() == {}
    mailbox.write({"phase": "research", "waitReason": "漢字 🏃"})
    assert mailbox.read() == {"phase": "research", "waitReason": "漢字 🏃"}
    assert os.listdir(states) == ["m-20260202-1_A.json"]
    mailbox.remove()
    mailbox.remove()
    assert os.listdir(states) == []


@pytest.mark.parametrize("first", ["write", "update"])
def test_it_is_private_with_every_folder_made_for_it(tmp_path: Path, states: Path, first: str) -> None:
    with umask(0):
        mailbox = AgentChannel(states, "runner")
        if first == "write":
            mailbox.write({"a": 1})
        else:
            mailbox.update(a=1)
    assert mode_of(mailbox.path) == 0o600
    assert [mode_of(folder) for folder in (states, states.parent, states.parent.parent)] == [0o700] * 3


def test_many_sides_at_once_lose_no_field(states: Path) -> None:
    mailbox = AgentChannel(states, "runner")
    mailbox.write({"kept": True})

    def update(side: int) -> None:
        for number in range(25):
            mailbox.update(**{f"{side}-{number}": number})

    all_at_once(4, update)
    found = mailbox.read()
    assert found.pop("kept") is True
    assert found == {f"{side}-{number}": number for side in range(4) for number in range(25)}


def test_what_cannot_be_read_is_an_empty_one(tmp_path: Path, states: Path) -> None:
    mailbox = AgentChannel(states, "runner")
    mailbox.write({})
    for data in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a":"' + b"x" * MAX_BYTES + b'"}'):
        mailbox.path.write_bytes(data)
        assert mailbox.read() == {}
    mailbox.path.unlink()
    planted = tmp_path / "planted.json"
    planted.write_text('{"waitSeconds": 60}')
    mailbox.path.symlink_to(planted)
    assert mailbox.read() == {}
    mailbox.update(phase="plan")
    assert mailbox.read() == {"phase": "plan"}
    assert planted.read_text() == '{"waitSeconds": 60}'


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("waitSeconds", [60, 0.5], [0, -1, True, "60", float("nan"), float("inf"), [60]]),
        ("waitReason", ["CI", "half a \ud800 pair"], [1, None, {}]),
        ("feedbackQuestion", ["Which DB?", ""], [True, ["Which DB?"]]),
        ("sessionEnded", [True, False], [1, "yes"]),
        ("pid", [1], [0, -1, True, "1", 2**70]),
        ("unknown", [1, "x", [True], None], []),
    ],
)
def test_a_field_that_makes_no_sense_counts_as_empty(
    states: Path, field: str, good: list[object], bad: list[object]
) -> None:
    channel = AgentChannel(states, "runner")
    for value in good:
        channel.write({"phase": "plan", field: value})
        assert channel.read() == {"phase": "plan", field: value}
    for value in bad:
        channel.write({"phase": "plan", field: value})
        assert channel.read() == {"phase": "plan", field: None}


def test_only_what_the_dead_left_long_ago_is_swept(states: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = {"dead": dead.pid, "living": os.getpid(), "pid-1": 1, "broken": "x", "zero": 0, "huge": 2**70}
    for name, pid in left.items():
        AgentChannel(states, name).write({"pid": pid})
    (states / "no id.json").write_text("{}")
    (states / "other.txt").write_text("{}")
    now = time.time()
    everything = sorted(os.listdir(states))
    sweep(states, now)
    assert sorted(os.listdir(states)) == everything
    sweep(states, now + STALE_AFTER + 60)
    assert sorted(os.listdir(states)) == ["living.json", "no id.json", "other.txt", "pid-1.json"]
    sweep(states / "none", now)
