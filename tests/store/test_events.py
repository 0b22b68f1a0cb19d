"""The log of a session: how it is written, replayed and followed, in whatever its folder has become meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from marathon.core.budgets import Usage
from marathon.core.events import (
    Event,
    GateOpened,
    Notice,
    Output,
    SessionBegan,
    SessionEnded,
    Text,
    Ticked,
    ToolCalled,
    ToolEnded,
    Typing,
    Used,
    encode,
    paths_written,
    usage_of,
)
from marathon.errors import DiskFailed
from marathon.store.events import (
    WHOLE_PARTS,
    EventLog,
    TaskLogs,
    follow,
    has_output,
    last_activity,
    left_out_of,
    read_events,
    remove_log,
)
from tests.process.driver import until
from tests.store.tools import full_after, mode_of

OLD_LOGS = Path(__file__).parent / "old_logs"
USAGE = Usage(input=800, output=40, cost=0.5, turns=1)
ENDED = SessionEnded(1, "research", "ended", seconds=1.0)


def began(path: Path, iteration: int = 1) -> SessionBegan:
    return SessionBegan(1, iteration, "research", "command", log=str(path))


def types(path: Path) -> list[str]:
    return [json.loads(line)["type"] for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "001.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    """A log whose session has begun."""
    made = EventLog()
    made(began(path))
    yield made
    made.close()


# Writing


def test_it_is_private_and_every_event_is_there_at_once(path: Path, log: EventLog) -> None:
    assert (types(path), mode_of(path)) == (["session_began"], 0o600)
    log(Output("out", "a line"))
    assert types(path) == ["session_began", "output"]
    log(Typing("not logged"))
    log(ENDED)
    assert types(path) == ["session_began", "output", "session_ended"]
    line = json.loads(path.read_text().splitlines()[0])
    assert line["v"] == 1
    assert line["at"] > 1e9
    assert "log" not in line  # a path of this machine


def test_what_comes_after_a_session_stays_with_it_until_the_next_begins(tmp_path: Path) -> None:
    first, second, log = tmp_path / "001.jsonl", tmp_path / "002.jsonl", EventLog()
    log(Notice("before the first session"))
    log(began(first))
    log(ENDED)
    log(GateOpened("review", "research"))
    log(began(second, 2))
    log.close()
    log(Notice("when all is over"))
    assert types(first) == ["session_began", "session_ended", "gate_opened"]
    assert types(second) == ["session_began"]


def test_a_runner_that_comes_later_continues_the_log(path: Path, log: EventLog) -> None:
    log.close()
    with path.open("ab") as file:
        file.write(b'{"v": 1, "type": "tex')  # of a runner that was killed while it wrote
    again = EventLog()
    again.resume(str(path))
    again(Notice("resumed"))
    again.close()
    assert [event for event in follow(path) if isinstance(event, Notice)] == [Notice("resumed")]
    again.resume(str(path.with_name("none.jsonl")))
    again(Notice("goes nowhere"))
    assert not path.with_name("none.jsonl").exists()


def test_pieces_of_text_are_joined_until_time_passes_or_something_else_happens(path: Path, log: EventLog) -> None:
    for piece in ("I", " look", ".\nThen"):
        log(Text(piece))
    log(Text("hm", thinking=True))
    log(Ticked())
    log(Text("and on"))
    log(ToolCalled("1", "bash"))
    texts = [event for event in follow(path) if isinstance(event, Text)]
    assert texts == [Text("I look.\nThen"), Text("hm", thinking=True), Text("and on")]
    log(Text("the last words"))
    log.close()
    assert types(path)[-1] == "text"


def test_text_is_soon_there_for_who_follows(path: Path, log: EventLog) -> None:
    log(Text("I"))
    log(Text(" look"))
    log(Ticked())
    assert types(path) == ["session_began"]

    def written() -> bool:
        log(Ticked())
        return len(types(path)) > 1

    until(written, "the text is in the log")
    assert list(follow(path))[1:] == [Text("I look")]


def test_endless_text_is_written_as_it_comes(path: Path, log: EventLog) -> None:
    for _ in range(100):
        log(Text("x" * 1000))
    assert path.stat().st_size > 80_000


def test_another_program_may_append_meanwhile(path: Path, log: EventLog) -> None:
    for number in range(3):
        log(Notice(f"ours {number}"))
        with path.open("ab") as file:
            file.write(encode(Notice(f"theirs {number}"), 1.0))
    said = [event.text for event in follow(path) if isinstance(event, Notice)]
    assert said == ["ours 0", "theirs 0", "ours 1", "theirs 1", "ours 2", "theirs 2"]


@pytest.mark.parametrize("kind", ["pipe", "link", "hard link", "file", "no folder"])
def test_what_an_agent_put_in_its_place_is_neither_waited_for_nor_followed(tmp_path: Path, kind: str) -> None:
    path, mine = tmp_path / "events" / "001.jsonl", tmp_path / "mine"
    mine.write_text("mine")
    if kind != "no folder":
        path.parent.mkdir()
    acts: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to(mine),
        "hard link": lambda: path.hardlink_to(mine),
        "file": lambda: path.write_text("old\n"),
        "no folder": lambda: None,
    }
    acts[kind]()
    assert [event for event in follow(path) if not isinstance(event, Notice)] == []
    log = EventLog()
    if kind in ("pipe", "link", "hard link"):
        log.resume(str(path))
        log(Notice("not here"))
    log(began(path))
    log(ENDED)
    log.close()
    assert types(path) == ["session_began", "session_ended"]
    assert mine.read_text() == "mine"


def test_a_task_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match=r"001\.jsonl"):
        EventLog()(began(tmp_path / "gone" / "events" / "001.jsonl"))
    assert not (tmp_path / "gone").exists()


def test_a_full_disk_is_said_once(path: Path, log: EventLog) -> None:
    with full_after(path.stat().st_size):
        with pytest.raises(DiskFailed, match=r"Could not write .*001\.jsonl: "):
            log(Notice("too much"))
        log(Notice("only for the screen"))
    assert types(path) == ["session_began"]


# Reading


def test_a_log_is_followed_from_an_offset_and_a_torn_line_is_left_for_later(path: Path, log: EventLog) -> None:
    log(Notice("one"))
    events, offset = read_events(path)
    assert events == [SessionBegan(1, 1, "research", "command"), Notice("one")]
    assert read_events(path, offset) == ([], offset)
    line = encode(Notice("two"), 5.0)
    with path.open("ab") as file:
        file.write(line[:10])
        file.flush()
        assert read_events(path, offset) == ([], offset)
        file.write(line[10:])
    (event,), after = read_events(path, offset)
    assert (event, event.at, after) == (Notice("two"), 5.0, path.stat().st_size)


def test_following_waits_for_more_and_ends_when_it_is_told_to(path: Path, log: EventLog) -> None:
    turns = iter(["two", "three"])

    def more() -> bool:
        text = next(turns, None)
        if text:
            log(Notice(text))
        return text is not None

    log(Notice("one"))
    seen = [event.text for event in follow(path, more=more) if isinstance(event, Notice)]
    assert seen == ["one", "two", "three"]


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert read_events(tmp_path / "none.jsonl") == ([], 0)
    assert list(follow(tmp_path / "none.jsonl")) == []
    assert usage_of(follow(tmp_path / "none.jsonl")) == Usage()
    assert last_activity(tmp_path / "none.jsonl") == 0


def test_a_long_log_is_read_in_parts_and_an_endless_line_in_it_harms_nothing(path: Path, log: EventLog) -> None:
    with path.open("ab") as file:
        file.write(b"x" * 9_000_000 + b"\n")
    for number in range(200):
        log(Notice("y" * 60_000 + str(number)))
    _, offset = read_events(path)
    assert 0 < offset < path.stat().st_size
    notices = [event for event in follow(path) if isinstance(event, Notice)]
    assert [notice.text.strip("y") for notice in notices] == [str(number) for number in range(200)]


@pytest.mark.parametrize("name", ["output", "pi-rpc", "pi-extension"])
def test_a_log_of_an_earlier_version_says_so_and_stays_as_it_is(name: str, path: Path) -> None:
    """The samples were written by the version before this format, with the real pi."""
    old = (OLD_LOGS / f"{name}.jsonl").read_bytes()
    path.write_bytes(old)
    (event,), offset = read_events(path)
    assert isinstance(event, Notice)
    assert "the format of an earlier version" in event.text
    assert event.level == "warning"
    assert offset == path.stat().st_size
    log = EventLog()
    log.resume(str(path))
    log(GateOpened("review", "research"))
    log.close()
    assert path.read_bytes() == old


def test_lines_of_an_earlier_extension_in_a_log_of_ours_are_mentioned(path: Path, log: EventLog) -> None:
    with path.open("ab") as file:
        file.write((OLD_LOGS / "pi-extension.jsonl").read_bytes())
    log(ENDED)
    assert [type(event) for event in follow(path)] == [Notice, SessionBegan, SessionEnded]


def test_what_a_newer_version_wrote_is_read_as_far_as_it_is_known(path: Path) -> None:
    known = {"v": 2, "at": 1.0, "type": "notice", "text": "known", "level": "info", "new": {"field": 1}}
    unknown = {"v": 2, "at": 1.0, "type": "dream", "text": "unknown"}
    changed = {"v": 2, "at": 1.0, "type": "notice", "text": ["not", "text"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in (unknown, known, changed)))
    assert list(follow(path)) == [Notice("known")]


# What a log tells


def test_what_a_session_used_is_in_its_log_also_without_an_end(path: Path, log: EventLog) -> None:
    log(Used(Usage(input=100, output=10, cost=0.5, turns=1, model="m")))
    log(ToolCalled("1", "bash"))
    log(Used(Usage(input=200, cost=0.25, turns=1)))
    assert usage_of(follow(path)) == Usage(input=300, output=10, cost=0.75, turns=2, toolCalls=1, model="m")
    log(SessionEnded(1, "research", "ended", usage=usage_of(follow(path))))
    assert usage_of(follow(path)).turns == 2  # what the end repeats is not counted again


def test_hostile_amounts_in_a_log_count_as_nothing(path: Path) -> None:
    amounts = ['{"cost": -5}', '{"cost": NaN}', '{"cost": 1e999}', '{"input": "many"}', '{"cost": 1, "toolCalls": 9}']
    path.write_text("".join(f'{{"v": 1, "at": 1, "type": "usage", "usage": {each}}}\n' for each in amounts))
    assert usage_of(follow(path)) == Usage(cost=1)


def test_whether_the_agent_said_anything_and_when(path: Path, log: EventLog) -> None:
    log(Notice("of the runner"))
    log(ENDED)
    assert not has_output(path)
    with path.open("ab") as file:
        file.write(encode(Output("out", "of the agent"), 4e9))
        file.write(encode(Notice("later, by the runner"), 5e9))
    assert has_output(path)
    assert last_activity(path) == 4e9


# From session to session


def test_logs_are_followed_into_the_next_session_and_the_next_run(tmp_path: Path) -> None:
    log, logs = EventLog(), TaskLogs(tmp_path)
    assert logs.new() == []

    def session(run: int, iteration: int) -> None:
        (tmp_path / f"{run:03d}").mkdir(exist_ok=True)
        log(began(tmp_path / f"{run:03d}/events/{iteration:03d}.jsonl", iteration))

    def kinds() -> list[str]:
        return [event.type for event in logs.new()]

    session(1, 7)  # a task that another tool has begun
    assert kinds() == ["session_began"]
    log(ENDED)
    session(1, 8)
    assert (kinds(), kinds(), kinds()) == (["session_ended"], ["session_began"], [])
    session(2, 1)
    log(Notice("x" * 5000))
    log(Used(USAGE))
    for number in range(100):
        log(Output("out", f"line {number}"))
    log.close()
    again = TaskLogs(tmp_path)
    assert [event.type for event in again.from_recent(1000, 10)] == ["session_began"]
    recent = again.new()
    assert (recent[-1], 5 < len(recent) < 50) == (Output("out", "line 99"), True)
    assert again.skipped_usage() == [Used(USAGE)]
    again.from_start()
    assert again.path.endswith("002/events/001.jsonl")
    Path(again.path).unlink()  # as --keep-events 1 does before the next session begins
    assert again.new() == []


# A log that becomes too long


PART = 4000


@pytest.fixture
def short(path: Path) -> Iterator[EventLog]:
    """A log whose parts are short."""
    made = EventLog(part=PART)
    made(began(path))
    yield made
    made.close()


def fill(log: EventLog, numbers: range) -> None:
    """Some lines of text, some calls, some cost: about ten fit into a part."""
    for number in numbers:
        log(ToolCalled(str(number), "write", {"path": f"{number}.py", "content": "c" * 100}))
        log(ToolEnded(str(number), "write", text="t" * 100))
        log(Output("out", f"line {number}"))
        log(Used(USAGE))


def said(events: Iterable[Event]) -> list[str]:
    return [event.text.removeprefix("line ") for event in events if isinstance(event, Output)]


def test_a_long_log_keeps_its_last_parts_and_of_the_others_the_calls_and_their_cost(
    path: Path, short: EventLog
) -> None:
    fill(short, range(100))
    events = list(follow(path))
    numbers = said(events)
    assert 15 < len(numbers) < 30
    assert numbers == [str(number) for number in range(100 - len(numbers), 100)]
    assert usage_of(events) == Usage(input=80000, output=4000, cost=50, turns=100, toolCalls=100)
    assert paths_written(events) == {f"{number}.py" for number in range(100)}
    assert isinstance(events[0], SessionBegan)
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told
    assert all("was removed" in text for text in told)
    assert all(mode_of(each) == 0o600 for each in path.parent.iterdir())
    whole = sum(each.stat().st_size for each in path.parent.iterdir())
    assert whole < WHOLE_PARTS * (PART + 500) + 100 * 400
    assert left_out_of(path)
    remove_log(path)
    assert list(path.parent.iterdir()) == []


def test_no_reader_loses_an_event_where_a_log_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """One that is there at each moment, one that comes late, and one that begins near the end."""
    path = tmp_path / "001/events/001.jsonl"
    path.parent.parent.mkdir()
    log, logs, offset = EventLog(part=PART), TaskLogs(tmp_path), 0
    followed: list[Event] = []
    stepped: list[Event] = []
    log(began(path))
    for number in range(100):
        fill(log, range(number, number + 1))
        followed += logs.new()
        before = -1
        while before != offset:
            before = offset
            events, offset = read_events(path, offset)
            stepped += events
    every = [str(number) for number in range(100)]
    assert said(followed) == every
    assert said(stepped) == every
    late = TaskLogs(tmp_path)
    late.from_start()
    shown: list[Event] = []
    while events := late.new():
        shown += events
    assert said(shown) == said(follow(path))
    recent = TaskLogs(tmp_path)
    (first,) = recent.from_recent(1000, 10)
    assert isinstance(first, SessionBegan)
    ending: list[Event] = []
    while events := recent.new():
        ending += events
    assert said(ending) == every[-len(said(ending)) :]
    assert said(ending)
    assert usage_of([*recent.skipped_usage(), *ending]).cost == 50
    log(began(path.with_name("002.jsonl"), 2))
    assert [event.type for event in logs.new()] == ["session_began"]


def test_a_log_that_another_program_fills_goes_on_in_a_new_file_too(path: Path, short: EventLog) -> None:
    with path.open("ab") as file:
        file.write(encode(Notice("x" * PART), 1.0))
    short.turn_over()
    assert path.stat().st_size == 0
    short.close()
    path.unlink()  # as if the runner had been killed in between
    again = EventLog(part=PART)
    again.resume(str(path))
    again(Notice("resumed"))
    again.close()
    assert [event for event in follow(path) if isinstance(event, Notice)][-1] == Notice("resumed")
