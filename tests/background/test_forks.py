"""We fork only while we have one thread. Since 3.12 Python warns of anything else, and a child could wait for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.background.seen import GATE, at_gate, over
from tests.process.driver import ROOT, Pty, until
from tests.support.world import World, finish, plan, research

Typed = Callable[..., Pty]

# Imported by each Python as it begins: writes down who forks, with how many threads.
NOTES_FORKS = """
import sys

def note(event, args):
    if event in ("os.fork", "os.forkpty"):
        import psutil

        who = sys._getframe(1).f_code.co_name
        with open({forks!r}, "a") as file:
            file.write(f"{{who}} {{psutil.Process().num_threads()}}\\n")

sys.addaudithook(note)
"""


def test_whatever_was_typed_before_no_thread_is_left_at_a_fork(world: World, typed: Typed, tmp_path: Path) -> None:
    hook, forks = tmp_path / "hook", tmp_path / "forks"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(NOTES_FORKS.format(forks=str(forks)))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "from an editor" >> "$1"\n')
    editor.chmod(0o755)
    seen = {"PYTHONPATH": f"{hook}:{ROOT}", "PYTHONWARNINGS": "default", "EDITOR": str(editor)}
    world.script(research(), research(), plan(hold=True), finish())
    (world.task / "instructions.md").write_text("# Do it\n\nAll.\n\n## Checks\n\n```sh\ntrue\n```\n")
    window = typed(*world.task_args("--trust"), **seen)
    shown = window.expect(GATE)
    window.send(b"r")  # a text prompt, with an event loop, and an editor, which prompt_toolkit waits for in a thread
    shown += window.expect(b"editor")
    window.send(b"again ")
    window.send(b"\x07")
    shown += window.expect(b"from an editor")
    window.send(b"\r")
    shown += window.expect(GATE)
    window.send(b"f")
    shown += window.expect(b"Alt+Enter")
    window.send(b"mind the gap\r")
    until(lambda: world.holding(3), "the plan is made")
    window.send(b"b\r")
    shown += window.expect(b"goes on in the background (pid ")
    assert window.wait() == 0
    world.release(3)
    at_gate(world, 3)
    assert world.cli("approve", "task").returncode == 0
    over(world)
    assert "again" in world.read("human.md")
    assert "from an editor" in world.read("human.md")
    assert set(forks.read_text().splitlines()) == {"fork_guardian 1", "go_on_in_background 1"}
    assert b"Warning" not in shown
