"""A sentence typed at a gate never acts and is never lost, however fast it is typed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from marathon.process.keys import TYPING_GAP
from tests.process.driver import Pty
from tests.support.world import World, chunk, research

KEYS_SHOWN = b"[q]      Quit marathon"
HINT = b"? shows the options"
OFFERED = b"Send it as feedback? [f] continue to implement"
ASKS = {"write": {"a.md": "{n}"}, "state": {"state": "running", "phase": "research"}, "ask": "Which DB?"}


def type_evenly(terminal: Pty, text: str, pause: float) -> None:
    """One key after the other. A machine that sleeps longer than the typing gap in between proves nothing."""
    before = time.monotonic()
    for number, key in enumerate(text):
        terminal.send(key.encode())
        if time.monotonic() - before > TYPING_GAP and number:
            pytest.skip("the machine is too busy to type evenly")
        before = time.monotonic()
        time.sleep(pause)


@pytest.fixture
def at_the_plan(world: World, on_terminal: Callable[..., Pty]) -> Pty:
    """The gate where the sentences below begin with a key: l loops, f approves, 1 goes back."""
    world.script(chunk(hold=True))
    (world.task / "plan.md").write_text("- [ ] 1. step\n")
    world.leave_state("paused", "plan", 2)
    terminal = on_terminal()
    assert b"[l]      Loop" in terminal.expect(KEYS_SHOWN)
    return terminal


@pytest.mark.parametrize(
    "sentences",
    [
        [("looks good", 0.03), ("lgtm", 0.03), ("fine", 0.03), ("quite good", 0.15), ("1. yes", 0.15)],
        [("lgtm", 0.3), ("fine", 0.4)],
    ],
    ids=["fast", "slow"],
)
def test_a_typed_sentence_is_kept_and_offered_as_feedback(
    world: World, at_the_plan: Pty, sentences: list[tuple[str, float]]
) -> None:
    for sentence, pause in sentences:
        type_evenly(at_the_plan, f"{sentence}\r", pause)
        shown = at_the_plan.expect(OFFERED).decode()
        assert f'{sentence}".' in shown
        assert "[r] redo plan" in at_the_plan.expect(b"[c] comment\x1b").decode(), "the other way is as near"
    assert not world.records("gate_answered")
    at_the_plan.send(b"f")
    at_the_plan.expect(b"Feedback:")
    at_the_plan.expect(b"Esc back")
    at_the_plan.send(b"\r")
    at_the_plan.expect(b"implement \xc2\xb7 iteration 3")
    assert world.read("human.md").endswith("\n".join(sentence for sentence, _ in sentences) + "\n")


def test_an_enter_that_ends_a_sentence_after_a_pause_approves_nothing(world: World, at_the_plan: Pty) -> None:
    at_the_plan.send(b"no, use postgres")
    at_the_plan.expect(OFFERED)
    at_the_plan.send(b"\r")
    at_the_plan.expect(b"Press Enter again to go on without it.")
    assert not world.records("gate_answered")
    at_the_plan.send(b"\r")
    at_the_plan.expect(b"implement \xc2\xb7 iteration 3")
    assert (world.task / ".marathon" / "draft.md").read_text() == "no, use postgres", "still there for the next gate"


def test_a_heavy_key_asks_once_more(world: World, at_the_plan: Pty) -> None:
    for key, other in ((b"l", b"\r"), (b"1", b"v"), (b"l", b"good idea\r")):
        at_the_plan.send(key)
        at_the_plan.expect(b"Press " + key + b" again")
        at_the_plan.send(other)
        at_the_plan.expect(HINT)
    at_the_plan.send(b"1")
    at_the_plan.expect(b"Press 1 again")
    assert not world.records("gate_answered")
    at_the_plan.send(b"1")
    shown = at_the_plan.expect(b"good idea")
    assert b"Why go back to research?" in shown, "and what was typed is there as the reason"


def test_a_key_with_enter_is_that_key_and_a_lone_other_key_is_said_to_be_none(world: World, at_the_plan: Pty) -> None:
    at_the_plan.send(b"z")
    at_the_plan.expect(b"z is not one of the options")
    at_the_plan.send(b"q\r")
    at_the_plan.expect(b"The gate stays open")
    assert at_the_plan.wait() == 3
    assert not (world.task / ".marathon" / "draft.md").exists()


@pytest.mark.parametrize(("term", "pause"), [("xterm", 0.03), ("xterm", 0.3), ("dumb", 0.1)])
def test_typing_at_a_question_begins_the_answer(
    world: World, on_terminal: Callable[..., Pty], term: str, pause: float
) -> None:
    world.script(ASKS, research())
    terminal = on_terminal(TERM=term)
    terminal.expect(KEYS_SHOWN)
    type_evenly(terminal, "cockroach\r", pause)
    terminal.expect(b"Review the output: task/research.md")
    assert world.records("gate_answered")[0]["text"] == "cockroach"
    assert "> cockroach" in world.prompt(2)
