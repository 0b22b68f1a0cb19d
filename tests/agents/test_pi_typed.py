"""A line that is begun when pi's session ends: the human may finish it, and no key of it answers the gate."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.world import World

# Speaks pi's RPC: a prompt is over when the file `over` is there.
PI = """
import json, pathlib, sys, time
here = pathlib.Path(sys.argv[1])
if sys.argv[2] == "--version":
    sys.exit(print("0.87.1"))
if "--no-session" in sys.argv:  # the start that the runner makes to see whether pi works
    sys.exit()

def say(**record):
    print(json.dumps(record), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    say(id=asked["id"], type="response", command=asked["type"], success=True)
    if asked["type"] == "prompt":
        say(type="agent_start")
        say(type="extension_ui_request", id="u", method="notify", message="Working on it.")
        while not (here / "over").exists():
            time.sleep(0.02)
        say(type="agent_settled")
"""


@pytest.mark.parametrize(
    ("keys", "said", "kept"),
    [
        (b" docs too\r", "→ for the next session: check the docs too", ["check the docs too"]),
        (b"\x1b", "reached", []),
    ],
    ids=["Enter", "Esc"],
)
def test_a_line_begun_before_the_end_is_kept_for_the_next_session_or_dropped(
    world: World, tmp_path: Path, keys: bytes, said: str, kept: list[str]
) -> None:
    script, program = tmp_path / "pi.py", tmp_path / "pi"
    script.write_text(PI)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{script}" "{tmp_path}" "$@"\n')
    program.chmod(0o755)
    args = ("--task", "task", "--agent", "pi", "--mode", "stream", "--max-iterations", "1")
    terminal = world.typed(*args, MARATHON_PI=str(program))
    try:
        terminal.expect(b"Working on it.")
        terminal.send(b"check the")
        terminal.expect(b"check the")
        (tmp_path / "over").touch()
        terminal.expect(b"Enter keeps your line")
        terminal.send(keys)
        terminal.expect(said.encode())
        terminal.expect(b"[q]")
        terminal.send(b"q")
        terminal.wait()
    finally:
        terminal.close()
    inbox = sorted((world.task / ".marathon" / "inbox").glob("*.json"))
    assert [json.loads(path.read_text())["text"] for path in inbox] == kept
