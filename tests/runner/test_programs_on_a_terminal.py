"""A program as the agent, with a human at the terminal: its output as lines, and typed words for the next session."""

from __future__ import annotations

from collections.abc import Callable

from tests.process.driver import Pty, until
from tests.support.world import World, research

OnTerminal = Callable[..., Pty]


def test_its_output_is_shown_as_lines_while_it_works(world: World, on_terminal: OnTerminal) -> None:
    world.script(research(say=["first line", "second line"], hold=True))
    terminal = on_terminal()
    assert b"  first line" in terminal.expect(b"  second line")
    terminal.expect("task │ 🔍 research │ 1/100 │ ".encode())
    world.release(1)
    terminal.expect(b"[q]      Quit marathon")


def test_what_is_typed_is_for_the_next_session_and_says_so(world: World, on_terminal: OnTerminal) -> None:
    world.script(research(say=["at work"], hold=True), research())
    terminal = on_terminal()
    terminal.expect(b"at work")
    terminal.send(b"mind the tests")
    terminal.expect("› mind the tests".encode())
    terminal.send(b"\r")
    terminal.expect("→ for the next session: mind the tests".encode())
    world.release(1)
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"\r")
    until(lambda: world.sessions() == 2, "the next session")
    assert "mind the tests" not in world.prompt(1)
    assert world.prompt(2).count("mind the tests") == 1
    terminal.expect(b"[q]      Quit marathon")


def test_a_line_that_is_begun_does_not_answer_the_gate(world: World, on_terminal: OnTerminal) -> None:
    world.script(research(say=["at work"], hold=True))
    terminal = on_terminal()
    terminal.expect(b"at work")
    terminal.send(b"quite good")
    terminal.expect("› quite good".encode())
    world.release(1)
    terminal.expect(b"The session is over. Enter keeps your line for the next session.")
    terminal.send(b"\r")
    terminal.expect("→ for the next session: quite good".encode())
    terminal.expect(b"[q]      Quit marathon")
    assert terminal.poll() is None


def test_ctrl_c_twice_ends_it_and_leaves_the_terminal_as_it_was(world: World, on_terminal: OnTerminal) -> None:
    world.script(research(say=["at work"], hold=True))
    terminal = on_terminal()
    terminal.expect(b"at work")
    terminal.send(b"\x03")
    terminal.expect(b"Press Ctrl+C again")
    terminal.send(b"\x03")
    assert terminal.wait() == 130
    assert terminal.cooked()
