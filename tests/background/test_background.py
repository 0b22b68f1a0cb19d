"""A marathon without a terminal: started so, or left while it runs. It waits at gates and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from marathon.process.keys import TYPING_GAP
from tests.background.seen import GATE, at_gate, events, gates, is_held, over, runner
from tests.process.driver import Pty, alive, until
from tests.support.world import World, finish, plan, research

Typed = Callable[..., Pty]


def detach(world: World) -> None:
    started = world.run("--detach")
    assert started.returncode == 0, started.stderr
    assert "task goes on in the background (pid " in started.stdout
    assert "pi-marathon attach task" in started.stdout


def agent_pid(world: World, number: int) -> int:
    environ = json.loads((world.agent / f"env-{number}").read_text())
    found = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _tree_of(pid) == environ["MARATHON_TREE"]]
    assert found
    return min(found)


def _tree_of(pid: str) -> str:
    try:
        data = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")  # noqa: SIM115
    except OSError:
        return ""
    return next((each.partition(b"=")[2].decode() for each in data if each.startswith(b"MARATHON_TREE=")), "")


def test_it_waits_at_gates_and_is_answered_from_a_shell(world: World) -> None:
    world.script(research(say=["hello"]), plan(), finish())
    detach(world)
    at_gate(world)
    assert os.getsid(runner(world)) == runner(world)
    assert ", in the background\n" in (told := world.cli("status", "task").stdout)
    assert "See it:    pi-marathon attach task" in told
    busy = world.run()
    assert busy.returncode == 6
    assert "To see it and answer: pi-marathon attach task   To end it: pi-marathon stop task" in busy.stderr
    again = world.cli("--task", "task", "--agent", "pi", MARATHON_PI="/nonexistent/pi")
    assert (again.returncode, "Another runner has" in again.stderr) == (6, True), "before an agent is looked for"
    assert world.cli("approve", "task").returncode == 0
    at_gate(world, 2)
    assert world.cli("approve", "task").returncode == 0
    over(world)
    assert world.state()["phase"] == "done"
    assert (events(world, 3)[-1]["type"], events(world, 3)[-1]["code"]) == ("runner_ended", 0)
    assert not list((world.home / ".local/state/pi-marathon/background").iterdir())


def test_what_is_refused_is_refused_in_the_shell_that_typed_it(world: World) -> None:
    world.script(research())
    assert world.run("--detach", "--json").returncode == 2
    assert world.cli("--task", "task", "--detach", "--agent", "command", "--", "no-such-program").returncode == 1
    (world.task / "instructions.md").write_text("")
    refused = world.run("--detach")
    assert refused.returncode == 7
    assert "instructions.md is empty" in refused.stderr
    assert not (world.task / ".marathon").exists()


def test_b_and_enter_leave_a_running_session_which_outlives_its_window(world: World, typed: Typed) -> None:
    python = f"{sys.executable} -P -m marathon"
    tries = f"env -u MARATHON_RUNNER_ID {python} tell task hello 2> ../agent/refused"
    until_left = "touch ../agent/ready; until [ -e ../agent/left ]; do sleep 0.05; done"
    world.script(research(run=f"{until_left}; {tries}", hold=True), plan(), finish())
    window = typed(*world.task_args())
    until(lambda: (world.agent / "ready").exists(), "the agent works")
    before, agent = runner(world), agent_pid(world, 1)
    for letters in ("d", "\x7fb", "e kind: do it well\r"):
        window.send(letters.encode())
        time.sleep(TYPING_GAP + 0.2)  # each stands alone for a while, as of someone who thinks
    window.expect("→ for the next session: be kind: do it well".encode())
    window.send(b"b\r")
    window.expect(b"goes on in the background (pid ")
    assert window.wait() == 0
    assert window.cooked()
    window.hang_up()
    after = runner(world)
    assert (after != before, alive(after), alive(agent), is_held(world)) == (True, True, True, True)
    (world.agent / "left").touch()
    until(lambda: world.holding(1), "the agent works on")
    assert "does nothing inside an agent's session" in (world.agent / "refused").read_text()
    world.release(1)
    at_gate(world)
    assert world.records("session_ended")[0]["ending"] == "ended"
    assert world.cli("approve", "task").returncode == 0
    at_gate(world, 2)
    assert "do it well" in world.prompt(2)
    assert "to stop now.\n" in world.cli("stop", "task").stdout
    over(world)
    assert events(world, 2)[-1]["code"] == 3
    assert "Stopping, as asked." in [each.get("text") for each in events(world, 2)]


@pytest.mark.parametrize("mode", ["stream", "tui"])
def test_b_leaves_an_open_gate(world: World, typed: Typed, mode: str) -> None:
    world.script(research(), plan())
    window = typed("--mode", mode, *world.task_args())
    window.expect(GATE)
    window.send(b"b")
    window.expect(b"goes on in the background (pid ")
    assert window.wait() == 0
    assert is_held(world)
    assert world.cli("approve", "task").returncode == 0
    at_gate(world, 2)
    assert len(gates(world)) == 2
    os.kill(runner(world), signal.SIGKILL)
    over(world)
    assert world.cli("run", "--after-reboot").returncode == 0
    assert is_held(world)


def test_b_and_enter_leave_a_wait(world: World, typed: Typed) -> None:
    world.script(research(state="running", wait=[30, "a build"]))
    window = typed(*world.task_args())
    window.expect(b"b Enter leave")
    window.send(b"b")
    time.sleep(TYPING_GAP + 0.2)
    assert window.poll() is None
    window.send(b"\r")
    window.expect(b"goes on in the background (pid ")
    assert window.wait() == 0
    assert world.cli("stop", "task", "--now").returncode == 0
    over(world)
    assert not world.records("wait_ended")


def test_a_runner_that_left_its_window_takes_its_agent_along_when_it_is_killed(world: World, typed: Typed) -> None:
    world.script(research(hold=True))
    window = typed(*world.task_args())
    until(lambda: world.holding(1), "the agent works")
    window.send(b"b\r")
    window.expect(b"goes on in the background (pid ")
    agent = agent_pid(world, 1)
    os.kill(runner(world), signal.SIGKILL)
    until(lambda: not alive(agent), "the agent is gone")
    over(world)


@pytest.mark.parametrize("stuck", [False, True])
def test_kill_ends_an_agent_that_does_not_listen_and_a_runner_that_hangs(world: World, stuck: bool) -> None:
    world.script(research(run="trap '' TERM INT HUP; touch ../agent/ready; while :; do sleep 0.1; done"))
    detach(world)
    until(lambda: (world.agent / "ready").exists(), "the agent works")
    pid, agent = runner(world), agent_pid(world, 1)
    if stuck:
        os.kill(pid, signal.SIGSTOP)
    killed = world.cli("stop", "--now", *(["task"] if stuck else []))
    assert (killed.returncode, killed.stderr) == (0, "" if stuck else "Task: task\n")
    assert "To continue: " in killed.stdout
    assert not is_held(world)
    until(lambda: not alive(agent) and not alive(pid), "both are gone")
    assert len(world.records("session_ended")) == (0 if stuck else 1)


def test_the_service_resumes_what_ran_when_the_machine_went_down(world: World) -> None:
    world.script(research(), plan())
    detach(world)
    at_gate(world)
    os.kill(runner(world), signal.SIGKILL)
    over(world)
    assert world.cli("run", "--after-reboot").returncode == 0
    assert is_held(world)
    assert world.cli("approve", "task").returncode == 0
    at_gate(world, 2)
    assert world.cli("stop", "task").returncode == 0
    over(world)
    assert world.cli("run", "--after-reboot").returncode == 0
    assert not is_held(world)  # it was stopped by a human


def test_the_service_leaves_what_a_human_took_to_a_terminal_since_then(world: World, typed: Typed) -> None:
    world.script(research())
    detach(world)
    at_gate(world)
    os.kill(runner(world), signal.SIGKILL)
    over(world)
    window = typed(*world.task_args())
    window.expect(GATE)
    window.send(b"\x03")
    assert window.wait() == 130
    assert world.cli("run", "--after-reboot").returncode == 0
    assert not is_held(world)


def test_the_unit_can_be_seen_without_systemd(world: World) -> None:
    shown = world.cli("install", "--service", "--print")
    assert shown.returncode == 0
    assert " -P -m marathon run --after-reboot\n" in shown.stdout
    assert world.cli("install", "--service", PATH="/nowhere").returncode == 2
