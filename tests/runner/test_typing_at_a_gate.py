"""A sentence typed at a gate never acts and is never lost, however fast it is typed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from marathon.process.keys import TYPING_GAP
from tests.process.driver import Pty
from tests.support.world import World, chunk, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"
HINT = b"? shows the options"
OFFERED = b"Send it as feedback? [f] Continue to next phase (implement)"
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


def drafts(world: World) -> list[str]:
    return [path.read_text() for path in (world.task / ".marathon").glob("draft*")]


@pytest.fixture
def at_the_plan(world: World, on_terminal: Callable[..., Pty]) -> Pty:
    """The gate where the sentences below begin with a key: l loops, f approves, 1 goes back."""
    world.script(chunk(hold=True))
    (world.task / "plan.md").write_text("- [ ] 1. step\n")
    world.leave_state("paused", "plan", 2)
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
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
        assert "[r] Send back" in at_the_plan.expect(b"[Esc] discard").decode(), "the other way is as near"
    assert not world.records("gate_answered")
    at_the_plan.send(b"f")
    at_the_plan.expect(b"Feedback:")
    at_the_plan.expect(b"Esc back")
    at_the_plan.send(b"\r")
    at_the_plan.expect(b"implement \xc2\xb7 session 3")
    assert world.read("human.md").endswith("\n".join(sentence for sentence, _ in sentences) + "\n")


def test_an_enter_that_ends_a_sentence_after_a_pause_approves_nothing(world: World, at_the_plan: Pty) -> None:
    at_the_plan.send(b"no, use postgres")
    at_the_plan.expect(OFFERED)
    at_the_plan.send(b"\r")
    at_the_plan.expect(b"Press Enter again to go on without it.")
    assert not world.records("gate_answered")
    at_the_plan.send(b"\r")
    at_the_plan.expect(b"Not sent: no, use postgres")
    at_the_plan.expect(b"implement \xc2\xb7 session 3")
    assert not drafts(world), "it belonged to that gate"


def test_a_draft_can_be_discarded_and_is_never_offered_elsewhere(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"no, use postgres\r")
    terminal.expect(b"[Esc] discard")
    terminal.send(b"\x1b")
    terminal.expect(b'Discarded: "no, use postgres"')
    assert not drafts(world)
    terminal.send(b"f")
    assert b"postgres" not in terminal.expect(b"Esc back")
    terminal.send(b"about research")
    terminal.expect(b"about research")
    terminal.send(b"\x1b")
    terminal.expect(b"What you typed is kept. Esc discards it.")
    terminal.expect(HINT)
    terminal.send(b"f")
    terminal.expect(b"about research")
    terminal.send(b"\x15")  # cleared, it is no draft either
    time.sleep(0.2)
    terminal.send(b"\x1b")
    terminal.expect(b"Nothing was recorded. Choose again.")
    terminal.expect(HINT)
    assert not drafts(world)
    terminal.send(b"half a thought\r")
    terminal.expect(OFFERED.replace(b"implement", b"plan"))
    terminal.send(b"q")
    terminal.expect(b"It still waits for you")
    assert terminal.wait() == 3
    assert drafts(world) == ["half a thought"], "the gate is still the same one"
    assert world.cli("approve", "task").returncode == 0
    again = on_terminal()
    again.expect(b"Phase: plan")
    again.expect(KEYS_SHOWN)
    again.send(b"f")
    assert b"half a thought" not in again.expect(b"Esc back")
    assert not drafts(world)


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
    at_the_plan.expect(b"It still waits for you")
    assert at_the_plan.wait() == 3
    assert not drafts(world)


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
