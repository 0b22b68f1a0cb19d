"""The window's title and progress tell a human who looks elsewhere, and nothing of them is left over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.background.seen import runner
from tests.process.driver import Pty, shell, until
from tests.support.world import World, plan, research

GATE = b"[q]      Quit marathon"
CLEARED = b"\x1b]9;4;0\x1b\\\x1b]2;\x1b\\\x1b[23;2t"


def test_title_and_progress_while_it_works_and_waits_and_none_at_the_end(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect("\x1b[22;2t\x1b]2;▶ task · research · 1\x1b\\\x1b]9;4;3;0\x1b\\".encode())
    terminal.expect("\x1b]2;⏸ task waits for your review of research\x1b\\\x1b]9;4;4;100\x1b\\".encode())
    terminal.expect(GATE)
    terminal.send(b"\r")
    again = terminal.expect(b"\x1b]9;4;3;0")
    assert "\x1b]2;▶ task · plan · 2".encode() in again
    assert b"\x1b[22;2t" not in again, "the human's own title is kept once"
    terminal.expect(GATE)
    terminal.send(b"q")
    terminal.expect(CLEARED)
    assert terminal.wait() == 3


def test_a_runner_that_is_killed_leaves_no_title(world: World) -> None:
    world.script(research(hold=True))
    with shell(**world.env()) as terminal:
        typed = " ".join(f"'{word}'" for word in world.argv(*world.task_args()))
        terminal.send(f"cd {world.project} && {typed}\n".encode())
        terminal.expect(b"\x1b]9;4;3;0")
        until(lambda: world.holding(1), "the session works")
        os.kill(runner(world), signal.SIGKILL)
        terminal.expect(CLEARED)


def test_no_notify_switches_them_off(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal("--no-notify")
    shown = terminal.expect(GATE)
    terminal.send(b"q")
    shown += terminal.expect(b"To continue")
    assert terminal.wait() == 3
    assert b"\x1b]2;" not in shown
    assert b"\x1b]9;4" not in shown
