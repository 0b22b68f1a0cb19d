"""Every gate shows what there is to see: documents, the log, the code. The pager cannot answer a gate."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import Entry, World, chunk, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"
HINT = b"? shows the options"
FAILS: Entry = {"say": ["Looking at it.", "\x1b[2JIt broke."], "run": "echo new > code.py", "exit": 7}


def make_repository(world: World) -> None:
    (world.project / "old.py").write_text("before\n")
    for args in (["init", "-q"], ["add", "-A"], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all"]):
        subprocess.run(["git", *args], cwd=world.project, check=True)


def test_v_waits_in_the_pager_and_q_there_quits_only_the_pager(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(write={"research.md": "# Found\n\nshort → ✓\n"}))
    terminal = on_terminal(PAGER="less", LESS="-F", LC_ALL="C")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"v")
    shown = terminal.expect(b"(END)")
    assert "short → ✓".encode() in shown, "less shows UTF-8 in any locale"
    terminal.send(b"q")
    terminal.send(b"q\r")
    terminal.expect(HINT)
    terminal.send(b"q")
    terminal.expect(b"Press q again to quit the marathon")
    terminal.send(b"\r")
    terminal.expect(HINT)
    assert not world.records("gate_answered")
    terminal.send(b"q")
    assert terminal.wait() == 3


def test_a_failure_shows_its_log_and_the_code_that_changed(world: World, on_terminal: Callable[..., Pty]) -> None:
    make_repository(world)
    world.script({**FAILS, "touch": "old.py"})
    world.leave_state("running", "implement", 1)  # research may not change code
    terminal = on_terminal("--retries", "0", PAGER="cat")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"[v]" not in shown, "there is no document yet"
    terminal.send(b"t")
    log = terminal.expect(HINT)
    assert b"Looking at it." in log
    assert b"It broke." in log
    assert b"\x1b[2J" not in log
    assert b"exit code 7" in log
    terminal.send(b"g")
    code = terminal.expect(HINT).decode()
    stat, _, diff = code.partition("diff --git")
    assert "code.py |" in stat
    assert "old.py  |" in stat
    assert "2 files changed" in stat, "and nothing of .marathon"
    for line in ("\x1b[32m+new\x1b[0m", "\x1b[31m-before\x1b[0m", "\x1b[32m+session 1\x1b[0m"):
        assert line in diff
    status = subprocess.run(["git", "status", "--short"], cwd=world.project, capture_output=True, text=True, check=True)
    assert " M old.py\n?? code.py" in status.stdout, "the index of the user is as it was"


def test_in_implement_the_plan_and_the_work_are_shown_and_the_code_since_the_last_gate(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    make_repository(world)
    world.script(research(), plan(), chunk(run="echo one > one.py"), chunk(run="echo two > two.py"))
    world.run("--auto-approve", "--max-iterations", "3")
    terminal = on_terminal("--max-iterations", "9", "--oversight", "colleague", PAGER="cat")
    terminal.expect(b"Iteration: 3")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"Review the output" not in shown
    assert b"[v] read  [c] comment  [e] edit" in terminal.expect(b"[?] more")
    terminal.send(b"?")
    shown = terminal.expect(KEYS_SHOWN)
    for option in (b"[v] read", b"[n] work.md", b"[g] code", b"[s] steps"):
        assert option in shown
    terminal.send(b"n")
    assert b"chunk 3" in terminal.expect(HINT)
    terminal.send(b"g")
    assert b"one.py" in terminal.expect(HINT)
    terminal.send(b"\r")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"g")
    code = terminal.expect(HINT)
    assert b"two.py" in code
    assert b"one.py" not in code, "that was before the last gate"


def test_without_a_repository_g_says_so(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal(PAGER="cat")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"g")
    assert b"This project is not a git repository." in terminal.expect(HINT)


@pytest.mark.parametrize(("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_gate_is_coloured_where_colours_are_wanted(
    world: World, on_terminal: Callable[..., Pty], env: dict[str, str], colored: bool
) -> None:
    world.script(research(state="paused", phase="research"))
    world.run()
    shown = on_terminal(**env).expect(KEYS_SHOWN)
    assert (b"\x1b[1;32m  [Enter]  Continue to next phase (plan)\x1b[0m" in shown) is colored
    assert (b"\x1b[1mPhase: research | Iteration: 1" in shown) is colored
    assert (b"\x1b[3" in shown or b"\x1b[1" in shown) is colored
