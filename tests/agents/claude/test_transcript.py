"""The word of completion counts in the assistant's last message and nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.agents.claude.state import MAX_BYTES, last_said
from tests.core.making import thorough

Entry = dict[str, Any]
MARK = "<loop-complete>"


def user(text: str, **more: Any) -> Entry:
    return {"type": "user", "isSidechain": False, "message": {"role": "user", "content": text}, **more}


def result(text: str) -> Entry:
    content = [{"type": "tool_result", "tool_use_id": "t1", "content": text}]
    return {"type": "user", "message": {"role": "user", "content": content}, "toolUseResult": {"stdout": text}}


def assistant(*parts: Entry, of: str | None = "msg_1", **more: Any) -> Entry:
    message = {"id": of, "type": "message", "role": "assistant", "content": list(parts)}
    return {"type": "assistant", "isSidechain": False, "message": message, **more}


def text(said: str) -> Entry:
    return {"type": "text", "text": said}


def lines(*entries: Entry | str) -> bytes:
    return b"".join((e if isinstance(e, str) else json.dumps(e)).encode() + b"\n" for e in entries)


def heard(folder: Path, transcript: bytes) -> str:
    (folder / "transcript.jsonl").write_bytes(transcript)
    return last_said(str(folder / "transcript.jsonl"))


TOOL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"echo '{MARK}'"}}
ATTACHMENT = {"type": "attachment", "attachment": {"type": "hook_success", "stdout": MARK}}


@pytest.mark.parametrize(
    ("transcript", "said"),
    [
        (lines(user("do it"), assistant(text("Done."))), "Done."),
        (lines(user("do it"), assistant(text("Done.")), ATTACHMENT, {"type": "system", "content": MARK}), "Done."),
        (lines(user("do it"), assistant(text("one")), assistant(text("two"))), "one\ntwo"),
        (lines(assistant(text(MARK), of="msg_1"), assistant(text("Not yet."), of="msg_2")), "Not yet."),
        (lines(user(f"say {MARK}"), assistant(text("No."))), "No."),
        (lines(user("do it"), assistant(text("Look:"), TOOL), result(MARK), assistant(text("So."), of="m2")), "So."),
        (lines(user("do it"), assistant({"type": "thinking", "thinking": MARK}), assistant(text("Hm."))), "Hm."),
        (lines(assistant(text("Yes.")), assistant(text(MARK), of="m9", isSidechain=True)), "Yes."),
        (lines(assistant(text(MARK)), user("go on")), ""),
        (lines(assistant(text(MARK)), result("tool output")), ""),
        (lines(user("do it")), ""),
        (lines(assistant(TOOL)), ""),
        (lines(assistant({"type": "redacted", "text": MARK}, text("Hm."))), "Hm."),
        (lines(user("do it"), {"type": "assistant", "message": {"content": "a plain string"}}), "a plain string"),
        (lines(assistant(text("Done.")), "half a li"), "Done."),
        (lines(assistant(text("Done.")), "[]", "null", "\x00", '{"type": "assistant"}'), "Done."),
        (lines({"type": "assistant", "message": {"content": [{"type": "text", "text": 7}, "x", None]}}), ""),
        (b"", ""),
        (b"\xff\xfe\x00garbage\n\n\n", ""),
    ],
)
def test_only_the_assistants_last_message_is_heard(tmp_path: Path, transcript: bytes, said: str) -> None:
    assert heard(tmp_path, transcript) == said


def test_the_end_of_lines_may_be_anything(tmp_path: Path) -> None:
    whole = lines(user("do it"), assistant(text("a\u2028b\x85c")))
    assert heard(tmp_path, whole) == "a\u2028b\x85c"
    assert heard(tmp_path, whole.replace(b"\n", b"\r\n")) == "a\u2028b\x85c"


ANY: list[Entry | str] = [user("u"), assistant(text("a")), TOOL, "{", "7"]


@thorough
@given(st.binary() | st.lists(st.sampled_from(ANY)).map(lambda entries: lines(*entries)))
def test_any_transcript_is_read_without_failing(tmp_path_factory: pytest.TempPathFactory, transcript: bytes) -> None:
    assert isinstance(heard(tmp_path_factory.getbasetemp(), transcript), str)


def test_only_the_end_of_a_long_transcript_is_read(tmp_path: Path) -> None:
    end = lines(user("do it"), assistant(text("Done.")))
    assert heard(tmp_path, b"x" * MAX_BYTES + b"\n" + end) == "Done."
    assert heard(tmp_path, lines(assistant(text("x" * MAX_BYTES)))) == ""


@pytest.mark.parametrize("kind", ["missing", "fifo", "folder", "device", "empty name", "nul"])
def test_what_is_no_file_says_nothing_and_nothing_waits_for_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    if kind == "fifo":
        os.mkfifo(path)
    if kind == "folder":
        path.mkdir()
    assert last_said({"device": "/dev/zero", "empty name": "", "nul": "a\0b"}.get(kind, str(path))) == ""
