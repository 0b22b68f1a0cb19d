"""Any terminal shows a running marathon, steers it and answers its gate, and leaves it as it was."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.background.seen import GATE, at_gate, is_held, over, runner
from tests.process.driver import Pty, until
from tests.support.world import World, chunk, finish, plan, research

Typed = Callable[..., Pty]


def test_it_shows_the_past_follows_steers_leaves_and_comes_back(world: World, typed: Typed) -> None:
    world.script(research(say=["the past"], hold=True), plan(say=["the future"]), finish())
    assert world.run("--detach").returncode == 0
    until(lambda: world.holding(1), "the agent works")
    first = typed("attach")
    first.expect(b"the past")
    first.send(b"do look here\r")
    first.expect("→ sent: do look here".encode())
    first.send(b"\x1b")
    first.expect(b"Stop this marathon")
    first.send(b"b\r")
    first.expect(b"See it again: ")
    assert (first.wait(), first.cooked(), is_held(world)) == (0, True, True)
    again = typed("attach", "tas")
    again.expect(b"the past")
    world.release(1)
    again.expect(GATE)
    again.send(b"q")
    again.expect(b"q ends the marathon that you only watch")
    again.send(b"x")
    again.expect(b"? shows the options")
    again.send(b"b")
    assert again.wait() == 0
    third = typed("attach")
    third.expect(GATE)
    third.send(b"\r")
    third.expect(b"the future")
    third.expect(GATE)
    assert "do look here" in world.prompt(2)
    third.send(b"m")
    assert b"came first" not in third.expect(b"? shows the options")
    assert world.records("oversight_set")
    third.send(b"\r")
    third.expect("✅ Completed".encode())
    assert third.wait() == 0
    over(world)
    assert [record["by"] for record in world.records("gate_answered")] == ["command", "command"]


def test_two_attached_beside_the_runners_own_terminal_give_one_answer(world: World, typed: Typed) -> None:
    world.script(research(), plan(hold=True))
    windows = [typed(*world.task_args())]
    windows[0].expect(GATE)
    windows += [typed("attach"), typed("attach")]
    for window in windows:
        if window is not windows[0]:
            window.expect(GATE)
    windows[1].send(b"\r")
    windows[2].send(b"\r")
    windows[0].expect(b"Answered from another shell.")
    until(lambda: world.holding(2), "the next session")
    for window in windows:
        window.expect("plan · session 2".encode())
    assert len(world.records("gate_answered")) == 1
    windows[1].send(b"\x1b")
    windows[1].expect(b"Stop this marathon")
    windows[1].send(b"\x1b")
    assert [window.wait() for window in windows] == [3, 3, 3]
    assert world.records("session_ended")[-1]["ending"] == "stopped"


def test_a_gate_before_the_first_session_and_a_runner_that_is_killed(world: World, typed: Typed) -> None:
    (world.task / "checks.toml").write_text('[[check]]\nname = "there"\ncommand = "true"\n')
    world.script(research())
    assert world.run("--detach").returncode == 0
    at_gate(world)
    window = typed("attach")
    window.expect(b"Agree to exactly these")
    os.kill(runner(world), 9)
    window.expect(b"To continue: ")
    assert window.wait() == 3


def test_nothing_runs(world: World, typed: Typed) -> None:
    world.script(research())
    nothing = world.cli("attach")
    assert nothing.returncode == 2
    assert "No marathon runs on this machine." in nothing.stderr
    world.run()
    named = typed("attach", "task")
    named.expect(b"No marathon runs on task. To start it: ")
    assert named.wait() == 2


def test_logs_are_plain_lines_and_may_be_followed_to_the_end(world: World) -> None:
    world.script(research(say=["one"]), plan(say=["two"]), chunk(say=["three"]), finish(say=["four"]))
    assert world.run("--auto-approve").returncode == 0
    printed = world.cli("attach", "-f")
    assert printed.returncode == 0
    lines = [line.strip() for line in printed.stdout.splitlines()]
    assert [line for line in lines if line in ("one", "two", "three", "four")] == ["one", "two", "three", "four"]
    assert "\x1b" not in printed.stdout


def test_an_empty_enter_ends_a_wait(world: World, typed: Typed) -> None:
    world.script({**chunk(), "state": {"state": "running", "phase": "research"}, "wait": [5, "CI"]}, research())
    assert world.run("--detach").returncode == 0
    window = typed("attach")
    window.expect(b"Enter go on now")
    window.send(b"look at the cache\r")
    window.expect("→ sent: look at the cache".encode())
    assert not world.records("wait_ended")
    window.send(b"\r")
    window.expect(GATE)
    assert world.records("wait_ended")[0]["early"] is True
    assert "look at the cache" in world.prompt(2)
    window.send(b"b")
    assert window.wait() == 0
