"""Doing a phase again: the reason reaches the agent, the earlier round is kept, and what changed can be seen."""

from __future__ import annotations

from collections.abc import Callable

from tests.process.driver import Pty
from tests.support.world import World, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"


def rounds(world: World) -> dict[str, str]:
    folder = world.task / ".marathon/runs/001/rounds"
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_r_asks_why_and_does_the_phase_again_and_d_shows_what_changed(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research(), research())
    terminal = on_terminal(PAGER="cat")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"[r]      Send back: say why, research is done again" in shown
    assert b"since round" not in shown
    terminal.send(b"r")
    terminal.expect(b"Why should research be done again?")
    terminal.send(b"too shallow\r")
    assert b"Phase: research | Iteration: 2" in terminal.expect(b"+1 \xe2\x88\x921 since round 1")
    terminal.expect(KEYS_SHOWN)
    assert "phase research, round 2" in world.prompt(2)
    assert world.prompt(2).count("too shallow") == 1
    assert world.read("human.md").endswith("too shallow\n")
    assert rounds(world) == {"research-1.md": "findings 1\n", "research-2.md": "findings 2\n"}
    terminal.send(b"d")
    diff = terminal.expect(b"? shows the options").decode()
    assert "\x1b[31m-findings 1\x1b[0m" in diff
    assert "\x1b[32m+findings 2\x1b[0m" in diff
    terminal.send(b"q")
    terminal.expect(b"Press q again")
    terminal.send(b"q")
    assert terminal.wait() == 3


def test_redo_from_a_shell_repeats_the_phase_at_the_gate(world: World) -> None:
    world.script(research(), research())
    world.run()
    sent = world.cli("redo", "task", "-m", "too shallow")
    assert sent.returncode == 0
    assert "research will be done again" in sent.stdout
    assert "To continue: pi-marathon --task task" in sent.stdout
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 2" in ran.stdout
    assert world.prompt(2).count("too shallow") == 1


def test_research_can_be_redone_from_the_plan_gate_and_the_plan_follows_again(world: World) -> None:
    world.script(research(), plan(), research(), plan())
    world.run()
    world.cli("approve", "task")
    world.run()
    assert world.cli("redo", "task", "--phase", "research", "-m", "wrong module").returncode == 0
    ran = world.run()
    assert "Phase: research | Iteration: 3" in ran.stdout
    assert "phase research, round 2" in world.prompt(3)
    assert "wrong module" in world.prompt(3)
    world.cli("approve", "task")
    ran = world.run()
    assert "Phase: plan | Iteration: 4" in ran.stdout
    assert rounds(world) == {
        "plan-1.md": "- [ ] 1. step (2)\n",
        "plan-2.md": "- [ ] 1. step (4)\n",
        "research-1.md": "findings 1\n",
        "research-2.md": "findings 3\n",
    }


def test_a_redone_phase_that_leaves_its_old_output_is_not_complete(world: World) -> None:
    world.script(research(), research(write={}), research())
    world.run()
    world.cli("redo", "task", "-m", "again")
    assert world.run().returncode == 3
    assert "research.md was not touched" in world.prompt(3)
    assert world.sessions() == 3


def test_redo_needs_a_reason(world: World) -> None:
    world.script(research())
    world.run()
    for args in ((), ("-m", ""), ("-m", "  ")):
        assert world.cli("redo", "task", *args).returncode == 2
    assert not list((world.task / ".marathon").glob("inbox/*"))


def test_a_round_that_changed_nothing_says_so(world: World, on_terminal: Callable[..., Pty]) -> None:
    same, moved = ({"research.md": text} for text in ("one\ntwo\n", "two\none\n"))
    world.script(research(write=same), research(write=same), research(write=moved))
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    for said in ("nothing changed since round 1", "lines moved since round 2"):
        terminal.send(b"r")
        terminal.expect(b"Why should research be done again?")
        terminal.send(b"too shallow\r")
        shown = terminal.expect(KEYS_SHOWN).decode()
        assert said in " ".join(shown.split())
        assert "+0" not in shown
