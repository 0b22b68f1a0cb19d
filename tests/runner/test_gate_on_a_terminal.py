"""What a person meets at the gate: one key press, exactly the meaning of the contract, nothing recorded by accident."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.utils import get_cwidth

from tests.process.driver import Pty, shell
from tests.support.world import World, chunk, finish, plan, research


def test_enter_twice_and_the_marathon_runs_to_its_end(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan(), chunk(), chunk(), chunk(), finish())
    terminal = on_terminal()
    shown = terminal.expect(b"[q]      Quit marathon")
    assert b"MARATHON PAUSED" in shown
    assert b"Phase: research | Iteration: 1" in shown
    terminal.send(b"\r")
    terminal.expect(b"Phase: plan | Iteration: 2")
    terminal.expect(b"[q]      Quit marathon")
    assert world.state()["phase"] == "plan"
    terminal.send(b"\r")
    terminal.expect(b"Completed")
    assert terminal.wait() == 0
    assert terminal.cooked()
    assert world.sessions() == 6


def test_a_gate_with_much_to_say_fits_a_window_of_80_by_24(world: World, on_terminal: Callable[..., Pty]) -> None:
    long = "It is as it is for a reason that takes long to tell. " * 9
    again = {"state": "paused", "phase": "research", "note": long, "answers": {f"c{n}": long for n in range(1, 8)}}
    world.script(research(), research() | {"state": again})
    world.run()
    for n in range(1, 10):
        world.cli("comment", "task", f"Why is it so, the {n}th time?")
    world.cli("redo", "task", "-m", "see there")
    terminal = on_terminal(NO_COLOR="1")
    terminal.resize(24, 80)
    terminal.expect("╔".encode())
    shown = "╔" + terminal.expect(b"[?] more\r\n").decode()
    rows = shown.replace("\r", "").split("\n")
    assert len(rows) <= 24, "with one for the cursor"
    assert [row for row in rows if get_cwidth(row) > 80] == []
    words = " ".join(shown.split())
    for kept in ("Phase: research | Iteration: 2", "Note: It is as", "c8 (must): Why", "[Enter]", "[q] Quit marathon"):
        assert kept in words
    terminal.send(b"?")
    every = terminal.expect(b"[x]      Cancel this run").decode()
    assert "[t] log" in every
    terminal.send(b"q")


def test_feedback_is_appended_and_told_to_exactly_one_session(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan(), chunk(), finish())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"f")
    terminal.expect(b"Feedback:")
    terminal.send(b"check auth\x1b\rand limits\r")
    terminal.expect(b"Phase: plan")
    terminal.expect(b"[q]      Quit marathon")
    human = world.read("human.md")
    assert human.endswith("check auth\nand limits\n")
    assert "## research phase" in human
    assert world.prompt(2).count("check auth") == 1
    terminal.send(b"\r")
    terminal.expect(b"Completed")
    assert terminal.wait() == 0
    assert "check auth" not in world.prompt(3)


def test_quit_leaves_the_gate_open(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    terminal.expect(b"It still waits for you")
    assert terminal.wait() == 3
    assert world.state()["state"] == "paused"
    again = on_terminal()
    again.expect(b"Phase: research | Iteration: 1")
    again.expect(b"[q]      Quit marathon")
    assert world.sessions() == 1
    again.send(b"q")
    assert again.wait() == 3


def test_a_key_typed_before_the_gate_was_shown_does_not_answer_it(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research(hold=True), plan())
    terminal = on_terminal()
    terminal.expect(b"session 1")
    terminal.send(b"\r\rq")
    world.release(1)
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"\x1b[A")  # an arrow key is no answer either
    assert terminal.poll() is None
    assert not world.records("gate_answered")
    terminal.send(b"q")
    assert terminal.wait() == 3


def test_quitting_prints_the_command_that_resumes(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal("--max-iterations", "7")
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    shown = terminal.expect(b"To continue: pi-marathon --task task").decode()
    assert "To continue: pi-marathon --task task" in shown
    assert terminal.wait() == 3


def test_v_shows_the_output_and_the_gate_stays_open(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(write={"research.md": "# Found\n\nA *parser*.\x1b]0;pwned\x07\n"}))
    terminal = on_terminal(PAGER="cat")
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"v")
    shown = terminal.expect(b"? shows the options")
    assert b"Found" in shown
    assert b"parser" in shown
    assert b"\x1b]" not in shown
    assert b"# Found" not in shown
    assert b"[q]" not in shown, "the menu is not printed again after a look"
    assert not world.records("gate_answered")
    terminal.send(b"?")
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert terminal.cooked()


def test_e_hands_the_output_to_the_editor_and_keeps_what_it_wrote(
    world: World, on_terminal: Callable[..., Pty], tmp_path: Path
) -> None:
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\ntest -t 0 && test "$1" = --quick && echo "added by hand" >>"$2"\n')
    editor.chmod(0o755)
    world.script(research(), plan())
    terminal = on_terminal(EDITOR=f"'{editor}' --quick")
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"e")
    terminal.expect("Saved: task/research.md 2 (+1 −0).".encode())
    assert b"[q]" not in terminal.expect(b"? shows the options")
    assert world.read("research.md") == "findings 1\nadded by hand\n"
    terminal.send(b"\r")
    terminal.expect(b"Phase: plan")
    assert world.sessions() == 2


def test_an_editor_that_is_not_there_is_a_sentence(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal(EDITOR="no-such-editor")
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"e")
    terminal.expect(b"Set EDITOR to your editor")
    terminal.expect(b"Nothing was changed in task/research.md.")
    terminal.expect(b"? shows the options")


@pytest.mark.parametrize(
    "typed", [b"xyz\r", b"z\r", b"hefq there\r", b"\x1b[200~f\rquick\r\x1b[201~\r", b"\x1b[200~q\x1b[201~\r"]
)
def test_text_meant_as_feedback_passes_no_gate(world: World, on_terminal: Callable[..., Pty], typed: bytes) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    assert b"\x1b[?2004h" in terminal.expect(b"[q]      Quit marathon"), "the terminal is to say what is pasted"
    terminal.send(typed)
    terminal.expect(b"Send it as feedback? [f] Continue to next phase (plan)")
    assert not world.records("gate_answered")
    terminal.send(b"\r")
    terminal.expect(b"Phase: plan")
    assert world.sessions() == 2


def test_after_an_edit_the_instructions_are_judged_anew(
    world: World, on_terminal: Callable[..., Pty], tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/first/second/ "$1"\n')
    editor.chmod(0o755)
    (world.task / "instructions.md").write_text("# Do it\n\n## Success Criteria\n\n- `test first`\n")
    world.script(research())
    terminal = on_terminal(EDITOR=str(editor))
    assert b"- test first" in terminal.expect(b"[y/n]")
    terminal.send(b"e")
    assert b"- test second" in terminal.expect(b"[y/n]")
    assert not world.sessions()


def test_feedback_taken_back_or_left_empty_records_nothing(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    for ending in (b"\r", b"half a thought\x03"):
        terminal.send(b"f")
        terminal.expect(b"Feedback:")
        terminal.expect(b"new line")
        terminal.send(ending)
        terminal.expect(b"Nothing was recorded")
        terminal.expect(b"? shows the options")
    assert not world.records("gate_answered")
    assert not (world.task / "human.md").exists()
    terminal.send(b"f")  # what was typed before Ctrl+C is there again
    terminal.expect(b"half a thought")
    terminal.send(b", completed\r")
    terminal.expect(b"plan")
    assert world.read("human.md").endswith("half a thought, completed\n")


NO_ANSWERS: dict[str, tuple[Callable[[Pty], None], int]] = {
    "Ctrl+C": (lambda terminal: terminal.send(b"\x03"), 130),
    "end of input": (lambda terminal: terminal.send(b"\x04"), 3),
    "terminated": (lambda terminal: os.kill(terminal.pid, signal.SIGTERM), 143),
    "window closed": (lambda terminal: terminal.hang_up(), 129),
    "killed": (lambda terminal: os.kill(terminal.pid, signal.SIGKILL), -9),
}


@pytest.mark.parametrize(("interrupt", "code"), NO_ANSWERS.values(), ids=NO_ANSWERS.keys())
def test_an_interruption_at_the_gate_is_no_answer(
    world: World, on_terminal: Callable[..., Pty], interrupt: Callable[[Pty], None], code: int
) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    interrupt(terminal)
    assert terminal.wait() == code
    assert not world.records("gate_answered")
    assert world.state()["state"] == "paused"
    again = world.run()
    assert again.returncode == 3
    assert "Phase: research | Iteration: 1" in again.stdout
    assert world.sessions() == 1


@pytest.mark.parametrize(
    ("interrupt", "code"), [NO_ANSWERS["terminated"], NO_ANSWERS["window closed"]], ids=["terminated", "window closed"]
)
def test_an_interruption_while_words_are_typed_records_none_of_them(
    world: World, on_terminal: Callable[..., Pty], interrupt: Callable[[Pty], None], code: int
) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"f")
    terminal.expect(b"new line")
    terminal.send(b"half a thought")
    terminal.expect(b"thought")
    interrupt(terminal)
    assert terminal.wait() == code
    assert not world.records("gate_answered")
    assert not (world.task / "human.md").exists()


def test_human_md_edited_while_the_prompt_is_open_keeps_both_texts(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"f")
    terminal.expect(b"Feedback:")
    (world.task / "human.md").write_text("from my editor\n")
    terminal.send(b"from the prompt\r")
    terminal.expect(b"Phase: plan")
    human = world.read("human.md")
    assert human.startswith("from my editor\n")
    assert human.endswith("from the prompt\n")
    assert "> from my editor" in world.prompt(2)
    assert "> from the prompt" in world.prompt(2)


def test_after_ctrl_z_and_fg_the_gate_is_shown_again(world: World) -> None:
    world.script(research())
    world.run()
    with shell(**world.env()) as terminal:
        terminal.send(f"cd {world.project} && {shlex.join(world.argv(*world.task_args()))}\n".encode())
        terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"x")
        terminal.expect(b"Press x again")
        terminal.send(b"z")
        terminal.expect(b"? shows the options")
        terminal.send(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.expect(b"$ ")
        terminal.send(b"fg\n")
        shown = terminal.expect(b"[q]      Quit marathon").decode()
        assert "Review the output: task/research.md" in shown
        terminal.send(b"q")
        terminal.expect(b"It still waits for you.")


def test_ctrl_z_in_the_editor_gives_the_shell_back(world: World) -> None:
    world.script(research())
    world.run()
    editor = world.agent / "editor"
    editor.write_text("#!/bin/sh\necho editing\nread line < /dev/tty\n")
    editor.chmod(0o755)
    with shell(**world.env(EDITOR=str(editor))) as terminal:
        terminal.send(f"cd {world.project} && {shlex.join(world.argv(*world.task_args()))}\n".encode())
        terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"e")
        terminal.expect(b"editing")
        terminal.send(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.expect(b"$ ")
        terminal.send(b"fg\n")
        time.sleep(0.3)
        terminal.send(b"done\n")
        terminal.expect(b"? shows the options")
        terminal.send(b"q")
        terminal.expect(b"It still waits for you.")
