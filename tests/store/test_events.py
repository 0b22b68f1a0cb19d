"""The log of a session's output, in whatever its folder has become meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from marathon.core.events import Output, SessionBegan, SessionOver, Ticked
from marathon.store.events import EventLog
from tests.store.tools import mode_of


def began(path: Path, iteration: int = 1) -> SessionBegan:
    return SessionBegan(1, iteration, "research", "", "command", str(path))


def events(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_it_is_made_with_the_first_thing_that_comes(tmp_path: Path) -> None:
    path, log = tmp_path / "001.jsonl", EventLog()
    log(began(path))
    assert not path.exists()
    log(Ticked())
    assert (events(path), mode_of(path)) == (["began"], 0o600)
    log(Output("out", "a line", True))
    log(SessionOver(1, "research", "ended", "", 1.0))
    assert events(path) == ["began", "out", "over"]


@pytest.mark.parametrize("kind", ["pipe", "link", "file", "no folder"])
def test_what_the_agent_put_in_its_place_is_neither_waited_for_nor_followed(tmp_path: Path, kind: str) -> None:
    path, mine = tmp_path / "events" / "001.jsonl", tmp_path / "mine"
    mine.write_text("mine")
    if kind != "no folder":
        path.parent.mkdir()
    acts: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to(mine),
        "file": lambda: path.write_text("old\n"),
        "no folder": lambda: None,
    }
    log = EventLog()
    log(began(path))
    acts[kind]()
    log(SessionOver(1, "research", "ended", "", 1.0))
    assert events(path) == ["began", "over"]
    assert mine.read_text() == "mine"


def test_a_session_without_an_end_is_not_continued_in_the_next_one_s_log(tmp_path: Path) -> None:
    first, second, log = tmp_path / "001.jsonl", tmp_path / "002.jsonl", EventLog()
    for number, path in ((1, first), (2, second)):
        log(began(path, number))
        log(Output("out", "a line", True))
    log.close()
    assert events(first) == events(second) == ["began", "out"]
