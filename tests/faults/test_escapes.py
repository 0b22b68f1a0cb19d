"""Whatever an agent, a repository or a file says, no terminal ever acts on it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import World, finish, plan, research

OnTerminal = Callable[..., Pty]
KEYS = b"[q]      Quit marathon"

# Title, clipboard, screen, cursor, device query, DCS, APC, C1 forms, bell, backspace, bidi override, shift-out.
HOSTILE = (
    "a\x1b]0;PWNED\x07b\x1b]52;c;UFdORUQ=\x07c\x1b[2J\x1b[1;1Hd\x1b[5ne\x1bP+q544e\x1b\\f\x1b_APC\x1b\\g"
    "\u009b31mh\u009d0;PWNED\u009ci\x07\x08\x0ej\u202ek\x1b[?1049hl\x1bcm\x1b[31"
)
LETTERS = "abcdefghij"
# What we ourselves may send: colours, cursor and line control of the live line and of questionary, the notification.
OURS = re.compile(
    rb"\x1b\[[0-9;]*[mKJHABCDGn]|\x1b\[\?(?:25|1|7|12|2004|2026)[hl]|\x1b\]9;[^\x00-\x1f\x7f]+\x1b\\"
    rb"|\x1b\[2[23];2t|\x1b\]2;[^\x00-\x1f\x7f]*\x1b\\"  # the title of the window
    rb"|\x1b\]777;notify;pi-marathon;[^\x00-\x1f\x7f]+\x1b\\|\x1b\]99;;[^\x00-\x1f\x7f]+\x1b\\|\x1b\[\?[0-9]+;?[0-9]*\$?[a-z]|\x1b[=>]|\x07"
)
FORBIDDEN = (b"\x1b]0;", b"\x1b]52", b"\x1bP", b"\x1b_", b"\x1bc", b"\x1b[2J", b"\x1b[5n", b"\x1b[?1049h")
C1_OR_BIDI = re.compile("[\x80-\x9f\u202a-\u202e]")


def assert_harmless(shown: bytes, *, escapes: bool) -> None:
    for sequence in FORBIDDEN:
        assert sequence not in shown
    text = shown.decode(errors="replace")
    assert not C1_OR_BIDI.search(text)
    rest = OURS.sub(b"", shown) if escapes else shown
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", rest), rest


def hostile_marathon(world: World) -> None:
    """Everything an agent may write or say carries it."""
    first = {
        "say": [HOSTILE, "\x1b[31mred", "half \x1b"],
        "append": {"work.md": HOSTILE},
        "state": {"state": "running", "phase": "research", "note": HOSTILE},
        "ask": f"Which? {HOSTILE}",
    }
    second = {"state": json.dumps({"state": "paused", "phase": HOSTILE}), "append": {"work.md": "x"}}
    third = {"say": [HOSTILE], "exit": 3}
    fourth = research()
    fourth["write"]["research.md"] = f"# {HOSTILE}\n\n```\n{HOSTILE}\n```\n\n[link](javascript:{HOSTILE})\n"
    fourth["state"]["note"] = HOSTILE
    world.script(first, second, third, fourth, plan(), finish())


def test_without_a_terminal_no_control_character_passes(world: World) -> None:
    hostile_marathon(world)
    shown = b""
    done = world.run("--retry-wait", "0s")
    assert done.returncode == 3
    assert "The agent asks:" in done.stdout
    shown += (done.stdout + done.stderr).encode()
    for command in (["status", "task"], ["list"], ["status", "task", "--json"], ["answer", "task", HOSTILE]):
        answered = world.cli(*command)
        assert answered.returncode == 0
        shown += (answered.stdout + answered.stderr).encode()
    done = world.run("--retry-wait", "0s")
    assert done.returncode == 3
    assert "Phase: research | Iteration: 4" in done.stdout
    assert "Note: ab" in done.stdout
    assert "STATE.json was not valid: field phase" in done.stdout
    shown += (done.stdout + done.stderr).encode()
    shown += world.cli("status", "task").stdout.encode()
    assert_harmless(shown, escapes=False)
    assert shown.count(b"ab") > 4


def test_on_a_terminal_none_of_it_is_acted_on(world: World, on_terminal: OnTerminal) -> None:
    hostile_marathon(world)
    terminal = on_terminal("--retry-wait", "0s", PAGER="cat")
    shown = terminal.expect(b"Answer the question")
    shown += terminal.expect(b"Quit marathon")
    terminal.send(b"\r")
    shown += terminal.expect(b"Your answer:")
    shown += terminal.expect(b"Alt+Enter")
    terminal.send(b"postgres\r")
    terminal.expect(b"session 2")  # the line editor's own moves of the cursor are not judged here
    shown += terminal.expect(b"Phase: research | Iteration: 4")
    shown += terminal.expect(KEYS)
    terminal.send(b"v")
    shown += terminal.expect(b"? shows the options")
    terminal.send(b"?")
    shown += terminal.expect(KEYS)
    terminal.send(b"q")
    shown += terminal.expect(b"It still waits for you")
    assert terminal.wait() == 3
    assert_harmless(shown, escapes=True)


def test_a_diff_between_rounds_is_shown_harmlessly(world: World, on_terminal: OnTerminal) -> None:
    one, two = research(), research()
    one["write"]["research.md"] = f"one {HOSTILE}\n"
    two["write"]["research.md"] = f"two {HOSTILE}\n"
    world.script(one, two)
    assert world.run().returncode == 3
    assert world.cli("redo", "task", "-m", f"again {HOSTILE}").returncode == 0
    terminal = on_terminal(PAGER="cat")
    shown = terminal.expect(KEYS)
    terminal.send(b"d")
    shown += terminal.expect(b"two ab")
    shown += terminal.expect(b"? shows the options")
    terminal.send(b"?")
    shown += terminal.expect(KEYS)
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert_harmless(shown, escapes=True)


@pytest.mark.parametrize("command", ["run", "status", "list"])
def test_a_directory_named_by_somebody_else_is_shown_harmlessly(world: World, command: str) -> None:
    name = "x\x1b]0;PWNED\x07\x1b[2J\x1b[31my"
    folder = world.project / "docs" / "tasks" / name
    folder.parent.mkdir(parents=True)
    world.task.rename(folder)
    world.task = folder
    world.script(research())
    agent = world.task_args()[world.task_args().index("--agent") :]
    shown = f"docs/tasks/{name}"
    done = world.cli("--task", shown, *agent)
    assert done.returncode == 3
    if command != "run":
        done = world.cli(*(["status", shown] if command == "status" else ["list"]))
        assert done.returncode == 0
    assert_harmless((done.stdout + done.stderr).encode(), escapes=False)


def test_names_in_error_messages_are_shown_harmlessly(world: World) -> None:
    said = b""
    for args in (
        ["--task", "no\x1b]0;PWNED\x07such"],
        ["status", "no\x1b[2Jsuch"],
        ["--task", "task", "--agent", "command", "--", "no\x1b]0;PWNED\x07program"],
        ["--task", "task", "--agent", "x\x1b[2Jy"],
        ["--task", "task", "--agent", "rehearsal", "--max-time", "\x1b[2J"],
        ["--task", "task", "--agent", "rehearsal", "--workflow", "\x1b[2J"],
        ["x\x1b]0;PWNED\x07y"],
        ["--\x1b]0;PWNED\x07"],
        ["new", "\x1b[2J"],
    ):
        done = world.cli(*args)
        assert done.returncode in ((0,) if args[0] == "new" else (1, 2, 7))
        said += (done.stdout + done.stderr).encode()
    assert_harmless(said, escapes=False)
