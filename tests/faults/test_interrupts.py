"""Ctrl+C, Ctrl+Z, signals and closed windows, as somebody at the terminal meets them."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from marathon.process import tree
from marathon.process.terminal import RESET
from tests.faults.sweep import nobody_left
from tests.process.driver import ROOT, Pty, alive, shell, until
from tests.support.world import World, plan, research

OnTerminal = Callable[..., Pty]
TUI = [sys.executable, str(ROOT / "tests" / "process" / "tui.py")]
COOKED = 'trap \'echo "<caught>"\' INT; echo "<on>"; while :; do read line && echo "<$line>"; done'
BUSY = "touch ../agent/ready; while :; do sleep 0.1; done"
DEAF_FAMILY = (
    "trap '' INT TERM HUP; (setsid sleep 1000 &); touch ../agent/ready; echo '<on>'; while :; do sleep 0.1; done"
)
KEYS = b"[q]      Quit marathon"


def args_for(*agent: str, mode: str = "stream") -> list[str]:
    return ["--task", "task", "--agent", "command", "--mode", mode, "--", *agent]


def start_tui(terminal: Pty) -> int:
    terminal.expect(b"<tui ")
    return int(terminal.expect(b">")[:-1])


def ready(world: World) -> None:
    until(lambda: (world.agent / "ready").exists(), "the agent runs")


def assert_resumable(world: World, on_terminal: OnTerminal) -> None:
    """The same task, now with an agent that does its work: the phase is taken up again."""
    world.script(research(), plan())
    again = on_terminal()
    again.expect(b"Phase: research")
    again.expect(KEYS)
    again.send(b"q")
    assert again.wait() == 3


def test_one_ctrl_c_belongs_to_the_agent_that_has_the_terminal(world: World, typed: OnTerminal) -> None:
    terminal = typed(*args_for("sh", "-c", COOKED, mode="tui"))
    terminal.expect(b"<on>")
    terminal.send(b"\x03")
    before = terminal.expect(b"<caught>")
    if b"again within 2 seconds" not in before:
        terminal.expect(b"again within 2 seconds")
    time.sleep(2.1)  # a Ctrl+C after that is a first one again
    terminal.send(b"still here\n")
    terminal.expect(b"<still here>")
    terminal.send(b"\x03")
    terminal.expect(b"again within 2 seconds")
    assert terminal.poll() is None


def test_one_ctrl_c_does_not_end_a_session_shown_as_lines(world: World, typed: OnTerminal) -> None:
    terminal = typed(*args_for("sh", "-c", f"trap 'touch ../agent/hurt' INT; {BUSY}"))
    ready(world)
    terminal.send(b"\x03")
    terminal.expect(b"again within 2 seconds")
    time.sleep(0.5)
    assert terminal.poll() is None
    assert not (world.agent / "hurt").exists()


@pytest.mark.parametrize("mode", ["stream", "tui"])
def test_two_ctrl_c_end_even_a_deaf_agent_and_its_family(
    world: World, typed: OnTerminal, on_terminal: OnTerminal, mode: str
) -> None:
    terminal = typed(*args_for("sh", "-c", DEAF_FAMILY, mode=mode))
    ready(world)
    below = tree.descendants(terminal.pid)
    terminal.send(b"\x03")
    terminal.expect(b"again within 2 seconds")
    began = time.monotonic()
    terminal.send(b"\x03")
    terminal.expect(b"Interrupted; everything is saved. To continue: pi-marathon --task task")
    assert terminal.wait() == 130
    assert time.monotonic() - began < 2 + 10  # the rest is for a loaded machine
    assert not any(alive(process.pid) for process in below)
    assert nobody_left(world)
    assert terminal.cooked()
    assert world.records("session_ended")[-1]["ending"] == "interrupted"
    assert_resumable(world, on_terminal)


@pytest.mark.parametrize("mode", ["stream", "tui"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_runner_ends_the_session_and_is_its_exit_code(
    world: World, typed: OnTerminal, on_terminal: OnTerminal, mode: str, signum: int
) -> None:
    agent = TUI if mode == "tui" else ["sh", "-c", f"trap 'touch ../agent/heard; exit' TERM HUP; {BUSY}"]
    terminal = typed(*args_for(*agent, mode=mode))
    if mode == "tui":
        start_tui(terminal)
        assert not terminal.cooked()
    else:
        ready(world)
    os.kill(terminal.pid, signum)
    if mode == "tui":
        terminal.expect(b"<bye>")
        terminal.expect(RESET)
    terminal.expect(b"everything is saved")
    assert terminal.wait() == 128 + signum
    assert terminal.cooked()
    assert nobody_left(world)
    assert mode == "tui" or (world.agent / "heard").exists()
    assert_resumable(world, on_terminal)


@pytest.mark.parametrize("mode", ["stream", "tui"])
def test_a_closed_window_ends_runner_and_agent(
    world: World, typed: OnTerminal, on_terminal: OnTerminal, mode: str
) -> None:
    terminal = typed(*args_for("sh", "-c", f"echo '<on>'; {BUSY}", mode=mode))
    ready(world)
    terminal.hang_up()
    assert terminal.wait() == 129
    until(lambda: nobody_left(world), "the agent goes with the window")
    assert world.records("session_ended")[-1]["ending"] == "interrupted"
    assert_resumable(world, on_terminal)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_during_a_wait_keeps_the_wait(world: World, on_terminal: OnTerminal, signum: int) -> None:
    working = {"state": {"state": "running", "phase": "research"}, "wait": [5, "CI"]}
    world.script(working, research())
    terminal = on_terminal()
    terminal.expect(b"waiting: CI")
    os.kill(terminal.pid, signum)
    assert terminal.wait() == 128 + signum
    assert terminal.cooked()
    assert not world.records("wait_ended")
    again = on_terminal()
    again.expect(b"waiting: CI")
    again.send(b"\r")
    again.expect(KEYS)
    assert world.records("wait_ended")[0]["early"]


def to_the_shell(terminal: Pty) -> None:
    terminal.expect(b"Stopped")
    terminal.expect(b"$ ")


def type_in(terminal: Pty, world: World, argv: list[str]) -> None:
    """The command, typed at the prompt of a shell."""
    env = " ".join(f"{name}={shlex.quote(value)}" for name, value in world.env().items())
    script = world.home / "typed.sh"
    script.write_text(f"cd {shlex.quote(str(world.project))}\nexec env -i {env} {shlex.join(argv)}\n")
    terminal.send(f"sh {shlex.quote(str(script))}\n".encode())


@pytest.mark.parametrize("mode", ["stream", "tui"])
def test_ctrl_z_gives_the_shell_back_and_fg_goes_on(world: World, mode: str) -> None:
    counting = "trap '' INT; n=0; while :; do n=$((n+1)); echo $n > ../agent/count; echo \"<$n>\"; sleep 0.05; done"
    with shell() as terminal:
        type_in(terminal, world, world.argv(*args_for("sh", "-c", counting, mode=mode)))
        until(lambda: (world.agent / "count").exists(), "the agent runs")
        terminal.send(b"\x1a")
        to_the_shell(terminal)
        still = (world.agent / "count").read_text()
        terminal.send(b"echo here $((1 + 1))\n")
        terminal.expect(b"here 2")
        assert (world.agent / "count").read_text() == still
        terminal.send(b"fg\n")
        until(lambda: (world.agent / "count").read_text() not in ("", still), "the agent goes on")
        terminal.send(b"\x03")
        terminal.expect(b"again within 2 seconds")
        terminal.send(b"\x03")
        terminal.expect(b"everything is saved")
        terminal.send(b"echo code $?\n")
        terminal.expect(b"code 130")


def test_ctrl_z_while_the_agent_starts_a_program_of_its_own(world: World) -> None:
    """Its child stops between vfork and exec, here held open by a long PATH, and the agent can only wait for it."""
    starting = """if True:
        import os, pathlib, subprocess
        pathlib.Path("../agent/pid").write_text(str(os.getpid()))
        for n in range(1000):
            pathlib.Path("../agent/count").write_text(str(n))
            try:
                subprocess.call(["nothing"], env={"PATH": ":".join(["/nowhere"] * 1_000_000)})
            except FileNotFoundError:
                pass
    """
    with shell() as terminal:
        type_in(terminal, world, world.argv(*args_for(sys.executable, "-c", starting, mode="tui")))
        until(lambda: (world.agent / "count").exists(), "the agent runs")
        agent = int((world.agent / "pid").read_text())
        until(lambda: tree.status(psutil.Process(agent)) == psutil.STATUS_DISK_SLEEP, "the agent waits for its child")
        terminal.send(b"\x1a")
        to_the_shell(terminal)
        still = (world.agent / "count").read_text()
        terminal.send(b"fg\n")
        until(lambda: (world.agent / "count").read_text() not in ("", still), "the agent goes on")
        os.kill(agent, signal.SIGKILL)
        terminal.expect(b"killed by signal 9")


def test_ctrl_z_at_a_gate_and_fg_leaves_the_gate_open(world: World) -> None:
    world.script(research(), plan())
    with shell() as terminal:
        type_in(terminal, world, world.argv(*world.task_args()))
        terminal.expect(KEYS)
        terminal.send(b"\x1a")
        to_the_shell(terminal)
        assert not world.records("gate_answered")
        terminal.send(b"fg\n")
        terminal.expect(b"typed.sh")
        until(lambda: not terminal.cooked(), "the gate listens again")
        terminal.send(b"\r")
        terminal.expect(b"Phase: plan")
        terminal.expect(KEYS)
        terminal.send(b"q")
        terminal.expect(b"It still waits for you")
        terminal.send(b"echo code $?\n")
        terminal.expect(b"code 3")


def test_a_full_screen_agent_killed_in_raw_mode_leaves_a_usable_terminal(world: World, typed: OnTerminal) -> None:
    terminal = typed(*args_for(*TUI, mode="tui"))
    agent = start_tui(terminal)
    assert not terminal.cooked()
    os.kill(agent, signal.SIGKILL)
    seen = terminal.expect(RESET)
    assert b"\x1b[?1049h\x1b[?1049l" in seen, "in this order the cursor stays, on either screen; alone, tmux moves it"
    for off in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?1006l", b"\x1b[?2004l", b"\x1b[?25h"):
        assert off in seen
    until(lambda: terminal.cooked() or terminal.poll() is not None, "the terminal is cooked")
    terminal.expect(b"killed by signal 9")
    terminal.expect(b"the agent failed")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 143
    assert terminal.cooked()


def test_a_runner_killed_under_a_full_screen_agent_leaves_a_usable_terminal(world: World, tmp_path: Path) -> None:
    with shell() as terminal:
        type_in(terminal, world, world.argv(*args_for(*TUI, mode="tui")))
        agent = start_tui(terminal)
        _, runner, *_ = tree.ancestors(agent)
        os.kill(runner, signal.SIGKILL)
        terminal.expect(RESET)
        until(lambda: not alive(agent), "the agent is gone")
        until(lambda: nobody_left(world), "and everything with it")
        terminal.send(b"stty -a; echo usable\n")
        terminal.expect(b"usable\r\n")
        assert terminal.poll() is None
