"""The files behind the hooks: the right state is found, any content is survived, and nothing waits."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from marathon.agents.claude.state import MAX_BYTES, MOST_SESSIONS, Place, find_place


def make_loop(folder: Path, text: str = "{}") -> Path:
    (folder / ".loop").mkdir(parents=True)
    state = folder / ".loop" / "state.json"
    state.write_text(text)
    return state


def at(memory: Path) -> Place:
    return Place(memory.with_name("state.json"), memory)


def test_the_loop_of_the_working_directory_is_found(tmp_path: Path) -> None:
    state = make_loop(tmp_path, '{"iteration": 2}')
    place = find_place(str(tmp_path), {})
    assert place is not None
    assert (place.state_file, place.memory, place.marathon) == (state, tmp_path / ".loop" / "stop-hook.json", False)
    assert place.state() == {"iteration": 2}


@pytest.mark.parametrize("cwd", ["", "nowhere", "\0", "x" * 5000])
def test_where_there_is_none_there_is_no_place(tmp_path: Path, cwd: str) -> None:
    assert find_place(str(tmp_path / cwd), {}) is None


def test_after_a_cd_the_project_above_still_counts_but_not_another_one(tmp_path: Path) -> None:
    make_loop(tmp_path / "project")
    inside, beside = tmp_path / "project" / "src" / "deep", tmp_path / "project-2"
    for folder in (inside, beside):
        folder.mkdir(parents=True)
    project = {"CLAUDE_PROJECT_DIR": str(tmp_path / "project")}
    assert find_place(str(inside), project) is not None
    assert find_place(str(inside), {}) is None
    assert find_place(str(beside), project) is None
    nearer = make_loop(inside)
    found = find_place(str(inside), project)
    assert found is not None
    assert found.state_file == nearer


def test_inside_a_marathon_its_task_counts_and_the_memory_is_not_in_it(tmp_path: Path) -> None:
    make_loop(tmp_path / "project")
    task = tmp_path / "task"
    task.mkdir()
    environ = {"MARATHON_TASK_DIR": str(task), "PI_MARATHON_STATES": str(tmp_path / "states")}
    place = find_place(str(tmp_path / "project"), environ)
    assert place is not None
    assert (place.state_file, place.marathon, place.state()) == (task / "STATE.json", True, None)
    assert place.remember("s", {"holds": 1})
    assert place.memory.is_relative_to(tmp_path / "states")
    assert list(task.iterdir()) == []
    assert find_place(str(tmp_path / "project"), {**environ, "MARATHON_TASK_DIR": str(tmp_path / "gone")}) is None


def test_the_state_is_written_when_it_is_younger_than_the_prompt(tmp_path: Path) -> None:
    state, prompt = tmp_path / "STATE.json", tmp_path / "prompt.md"
    environ = {"MARATHON_TASK_DIR": str(tmp_path), "MARATHON_PROMPT_FILE": str(prompt), "HOME": str(tmp_path)}
    place = find_place("/", environ)
    assert place is not None
    assert not place.written()
    state.write_text("{}")
    assert not place.written(), "there is no prompt to compare it with"
    prompt.write_text("do it")
    for state_time, written in ((10, False), (20, False), (30, True)):
        os.utime(state, (state_time, state_time))
        os.utime(prompt, (20, 20))
        assert place.written() is written


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\xff\xfe{", b"\0" * 100, b"[" * 100_000, b"{}" + b" " * MAX_BYTES]
)
def test_a_state_that_is_garbage_is_none(tmp_path: Path, data: bytes) -> None:
    make_loop(tmp_path).write_bytes(data)
    place = find_place(str(tmp_path), {})
    assert place is not None
    assert place.state() is None


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling link"])
def test_a_state_that_is_no_file_is_none_and_nothing_waits_for_it(tmp_path: Path, kind: str) -> None:
    state = make_loop(tmp_path)
    state.unlink()
    (tmp_path / "elsewhere.json").write_text("{}")
    match kind:
        case "fifo":
            os.mkfifo(state)
        case "folder":
            state.mkdir()
        case _:
            state.symlink_to(tmp_path / ("elsewhere.json" if kind == "link" else "nothing"))
    place = find_place(str(tmp_path), {})
    assert place is not None
    assert place.state() is None


def test_what_is_remembered_comes_back_for_that_session_only(tmp_path: Path) -> None:
    memory = tmp_path / "states" / "hooks" / "stop.json"
    assert at(memory).recall("a") is None
    assert at(memory).remember("a", {"same": 1})
    assert at(memory).remember("b", {"same": 2})
    assert (at(memory).recall("a"), at(memory).recall("b"), at(memory).recall("c")) == ({"same": 1}, {"same": 2}, None)
    assert at(memory).remember("a", None)
    assert (at(memory).recall("a"), at(memory).recall("b")) == (None, {"same": 2})
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    assert stat.S_IMODE(memory.parent.stat().st_mode) == 0o700
    assert [path.name for path in memory.parent.iterdir()] == ["stop.json"]


def test_there_is_nothing_to_forget_where_nothing_was_remembered(tmp_path: Path) -> None:
    assert at(tmp_path / "new" / "stop.json").remember("a", None)
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_sessions_are_remembered(tmp_path: Path) -> None:
    memory = tmp_path / "stop.json"
    for number in range(MOST_SESSIONS + 5):
        at(memory).remember(f"s{number}", {"same": number})
        at(memory).remember("s0", {"same": 0})
    assert len(json.loads(memory.read_text())["sessions"]) == MOST_SESSIONS
    assert at(memory).recall("s0") == {"same": 0}
    assert at(memory).recall("s1") is None
    assert at(memory).recall(f"s{MOST_SESSIONS + 4}") is not None


@pytest.mark.parametrize("data", [b"", b"[]", b'{"sessions": 7}', b"\xff", b"{" * 10_000])
def test_a_memory_that_is_garbage_is_an_empty_one(tmp_path: Path, data: bytes) -> None:
    memory = tmp_path / "stop.json"
    memory.write_bytes(data)
    assert at(memory).recall("s") is None
    assert at(memory).remember("s", {"same": 1})
    assert at(memory).recall("s") == {"same": 1}


@pytest.mark.parametrize("in_the_way", ["memory", "parent"])
def test_a_memory_that_cannot_be_kept_is_told(tmp_path: Path, in_the_way: str) -> None:
    memory = tmp_path / "hooks" / "stop.json"
    if in_the_way == "memory":
        memory.mkdir(parents=True)
        (memory / "x").touch()
    else:
        memory.parent.write_text("a file")
    assert not at(memory).remember("s", {"same": 1})
    assert at(memory).recall("s") is None
