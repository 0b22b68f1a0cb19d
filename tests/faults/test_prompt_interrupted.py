"""A question that is open when a signal, a hang-up or the end of input comes: no answer, nothing lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import World, plan, research

OnTerminal = Callable[..., Pty]
KEYS = b"[q]      Quit marathon"
CTRL_C, CTRL_D, ESC = b"\x03", b"\x04", b"\x1b"


def at_the_gate(world: World, on_terminal: OnTerminal) -> Pty:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(KEYS)
    return terminal


def at_the_feedback(world: World, on_terminal: OnTerminal) -> Pty:
    terminal = at_the_gate(world, on_terminal)
    terminal.send(b"f")
    terminal.expect(b"Feedback:")
    terminal.expect(b"Alt+Enter")
    terminal.send(b"half a thou")
    terminal.expect(b"thou")
    return terminal


def assert_unanswered(world: World, on_terminal: OnTerminal) -> Pty:
    assert not world.records("gate_answered")
    assert not (world.task / "human.md").exists()
    assert world.state()["state"] == "paused"
    assert world.sessions() == 1
    again = on_terminal()
    again.expect(b"Phase: research | Iteration: 1")
    again.expect(KEYS)
    return again


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D], ids=["ctrl-c", "ctrl-d"])
def test_ctrl_c_and_end_of_input_at_the_keys_answer_nothing(world: World, on_terminal: OnTerminal, key: bytes) -> None:
    terminal = at_the_gate(world, on_terminal)
    terminal.send(key)
    terminal.expect(b"To continue: pi-marathon --task task")
    assert terminal.wait() == (130 if key == CTRL_C else 3)
    assert terminal.cooked()
    assert_unanswered(world, on_terminal)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("place", [at_the_gate, at_the_feedback])
def test_a_signal_while_a_prompt_is_open_answers_nothing(
    world: World, on_terminal: OnTerminal, place: Callable[[World, OnTerminal], Pty], signum: int
) -> None:
    terminal = place(world, on_terminal)
    os.kill(terminal.pid, signum)
    if place is at_the_feedback and signum == signal.SIGINT:  # takes the question back, not the gate
        terminal.expect(b"Nothing was recorded")
        terminal.expect(b"? shows the options")
        os.kill(terminal.pid, signum)
    assert terminal.wait() == 128 + signum
    assert terminal.cooked()
    assert_unanswered(world, on_terminal)


@pytest.mark.parametrize("place", [at_the_gate, at_the_feedback])
def test_a_window_closed_on_an_open_prompt_answers_nothing(
    world: World, on_terminal: OnTerminal, place: Callable[[World, OnTerminal], Pty]
) -> None:
    terminal = place(world, on_terminal)
    terminal.hang_up()
    assert terminal.wait() == 129
    assert_unanswered(world, on_terminal)


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D, ESC], ids=["ctrl-c", "ctrl-d", "esc"])
def test_feedback_taken_back_is_kept_as_a_draft(world: World, on_terminal: OnTerminal, key: bytes) -> None:
    terminal = at_the_feedback(world, on_terminal)
    if key != CTRL_C:
        terminal.send(b"\x15" if key == CTRL_D else b"")  # Ctrl+D ends the input only of an empty line
    terminal.send(key)
    if key == ESC:
        terminal.send(CTRL_C)
    terminal.expect(b"Nothing was recorded")
    terminal.expect(b"? shows the options")
    assert not world.records("gate_answered")
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert terminal.cooked()
    assert not (world.task / "human.md").exists()


def test_a_draft_is_there_again_next_time(world: World, on_terminal: OnTerminal) -> None:
    terminal = at_the_feedback(world, on_terminal)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 143
    again = assert_unanswered(world, on_terminal)
    again.send(b"f")
    again.expect(b"half a thou")
    again.send(b"ght\r")
    again.expect(b"Phase: plan")
    again.expect(KEYS)
    assert world.read("human.md").endswith("half a thought\n")
    assert world.read("human.md").count("half a thought") == 1


def test_empty_feedback_is_no_feedback_and_no_approval(world: World, on_terminal: OnTerminal) -> None:
    terminal = at_the_gate(world, on_terminal)
    terminal.send(b"f")
    terminal.expect(b"Alt+Enter")
    terminal.send(b"\r")
    terminal.expect(b"Nothing was recorded")
    terminal.expect(b"? shows the options")
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert_unanswered(world, on_terminal)


@pytest.mark.parametrize("way", ["append", "replace", "truncate"])
def test_what_is_written_into_human_md_while_the_prompt_is_open_is_kept(
    world: World, on_terminal: OnTerminal, way: str
) -> None:
    (world.task / "human.md").write_text("# Human Feedback\n\nearlier words\n")
    terminal = at_the_gate(world, on_terminal)
    terminal.send(b"f")
    terminal.expect(b"Alt+Enter")
    human = world.task / "human.md"
    if way == "append":
        with human.open("a") as file:
            file.write("by hand, without a newline at its end")
    elif way == "replace":
        other = world.home / "human.md"
        other.write_text("earlier words\nby hand, without a newline at its end")
        os.replace(other, human)
    else:
        human.write_text("by hand, without a newline at its end")
    terminal.send(b"typed at the gate\r")
    terminal.expect(b"Phase: plan")
    terminal.expect(KEYS)
    text = world.read("human.md")
    assert text.count("by hand, without a newline at its end\n") == 1
    assert text.count("typed at the gate\n") == 1
    assert text.index("by hand") < text.index("typed at the gate")
    assert "by hand" in world.prompt(2)
    assert "typed at the gate" in world.prompt(2)
    terminal.send(b"q")
    assert terminal.wait() == 3
